//! Systems written as text, solved, shown and run.

mod fixture;
mod largest;
mod order;
mod ranges;
mod run;
mod scale;
mod show;
mod wrong;

//! A training in a folder: how it starts and goes on, its files, and its progress in the terminal.
//!
//! | file | subject |
//! |---|---|
//! | [`journal`] | what it leaves in its folder |
//! | [`start`] | what `run.json` notes about a start |
//! | [`training`] | a run that is being trained, from its start or its last checkpoint |
//! | [`view`] | progress while it runs, and what there is to say in the end |

pub(crate) mod journal;
pub(crate) mod start;
pub(crate) mod training;
pub(crate) mod view;

//! A training of the command: its files, and its progress in the terminal.
//!
//! | file | subject |
//! |---|---|
//! | [`journal`] | what it leaves in its folder |
//! | [`start`] | what `run.json` notes about a start |
//! | [`view`] | progress while it runs, and what there is to say in the end |

pub(crate) mod journal;
pub(crate) mod start;
pub(crate) mod view;

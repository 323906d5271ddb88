//! A training as the command runs it: what it leaves behind, and how it looks to people.
//!
//! | file | subject |
//! |---|---|
//! | [`journal`] | what it leaves in its folder |
//! | [`view`] | progress while it runs, and what there is to say in the end |

pub(crate) mod journal;
pub(crate) mod view;

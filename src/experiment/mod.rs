//! Experiments: methods on tasks with seeds, each a run of its own, and what came out of them.
//!
//! | file | subject |
//! |---|---|
//! | [`mod@file`] | what an experiment is: a TOML file |
//! | [`jobs`] | its runs, several at a time |
//! | [`measured`] | what one run showed |
//! | [`summary`] | means and deviations over seeds |

pub(crate) mod file;
pub(crate) mod jobs;
pub(crate) mod measured;
pub(crate) mod summary;

//! Experiments: methods on tasks with seeds, each a run of its own, and their results.
//!
//! | file | subject |
//! |---|---|
//! | [`mod@file`] | what an experiment is: a TOML file |
//! | [`published`] | what others report, beside it |
//! | [`jobs`] | its runs, several at a time |
//! | [`builds`] | the programs that they go on with |
//! | [`measured`] | what one run showed |
//! | [`summary`] | means and deviations over seeds |

pub(crate) mod builds;
pub(crate) mod file;
pub(crate) mod jobs;
pub(crate) mod measured;
pub(crate) mod published;
pub(crate) mod summary;

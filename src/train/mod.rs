//! How a training looks to people.
//!
//! | file | subject |
//! |---|---|
//! | [`curves`] | learning curves as drawings |
//! | [`view`] | progress while it runs, and what there is to say in the end |

pub(crate) mod curves;
pub(crate) mod view;

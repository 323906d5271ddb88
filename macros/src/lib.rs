//! `world_model!` and `include_model!`.

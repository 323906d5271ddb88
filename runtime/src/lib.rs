//! What runs a compiled model: tasks, replay, training, evaluation, checkpoints, planning.
//!
//! No code here knows a particular model. What a training loop does comes from the checked model: its `source`, `train`, `act`,
//! `optimizer` and `tasks`.

pub mod tasks;

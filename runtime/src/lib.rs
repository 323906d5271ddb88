//! Devices, tasks, replay and training. Nothing here yet but the crate.

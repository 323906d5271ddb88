//! Graph program, autodiff and kernels of a checked model. Nothing here yet but the crate.

//! A crate that uses the macros as any other would.

//! Texts that grow in one way.

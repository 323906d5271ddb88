//! The folder for caches that can be rebuilt.

use std::path::PathBuf;

/// A path of the environment; an empty one is none.
pub fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Our folder in the user's cache, where there is a user.
pub fn folder() -> Option<PathBuf> {
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("wmc"))
}

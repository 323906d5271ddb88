//! What the passes for kernels and the fuser know of a device, and what all devices have in common.

/// Rows of a lane vector: kernel programs reckon with so many, whatever a device computes at a time.
pub const LANES: usize = 16;

/// Outputs side by side in a packed weight. A backend that reads other panels packs again.
pub const PANEL: usize = 6;

/// A device, as far as it decides which kernels are made. Each backend has the constants of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    pub name: &'static str,
    /// Buffers keep room for a multiple of so many rows, itself a multiple of [`LANES`].
    pub lanes: usize,
    /// Rows of one entry do not begin a power of two behind those of the one before: then the same rows of many entries
    /// would fall into the same few sets of a cache.
    pub odd_pitch: bool,
    /// Numbers that a loop may carry for a row, so that what a step works on stays near. A larger array is made step by step.
    pub carried: usize,
    /// Entries of a row from which on a map is large, so that others had better join it than read what it leaves.
    pub large: usize,
}

impl Target {
    /// Numbers from one entry's rows to the next one's. Where the last lane vector is not full, the vectors that are there.
    pub fn pitch(&self, rows: usize) -> usize {
        let vectors = rows.div_ceil(self.lanes);
        let full = rows.is_multiple_of(self.lanes);
        if self.odd_pitch && full { (vectors | 1) * self.lanes } else { vectors * self.lanes }
    }
}

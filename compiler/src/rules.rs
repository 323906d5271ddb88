//! Rules that a test leaves out, to see that the fuzzers find what the rule keeps away.
//!
//! Only the feature `testing` can leave one out; elsewhere the question is a constant.

/// A rule of the border around untrusted programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// The whole axis that a gather or a scatter may reach lies in its buffer.
    GatheredAxis = 1,
    /// Distances of generated code fit its instructions.
    EncodedStep = 2,
}

impl Rule {
    pub const ALL: [(&'static str, Rule); 2] = [("gathered-axis", Rule::GatheredAxis), ("encoded-step", Rule::EncodedStep)];

    #[cfg(not(feature = "testing"))]
    pub(crate) fn left_out(self) -> bool {
        false
    }

    #[cfg(feature = "testing")]
    pub(crate) fn left_out(self) -> bool {
        LEFT_OUT.load(std::sync::atomic::Ordering::Relaxed) == self as u8
    }

    /// From now on this process goes without the rule.
    #[cfg(feature = "testing")]
    pub fn leave_out(self) {
        LEFT_OUT.store(self as u8, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(feature = "testing")]
static LEFT_OUT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

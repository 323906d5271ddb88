//! Numbers from one array of a device to another, many pieces in one launch.

use cubecl::prelude::*;
use cubecl::server::Handle;

/// A piece: numbers `from .. from + len` of one array become `to .. to + len` of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) len: usize,
}

/// Units of a cube; every device has as many.
const UNITS: u32 = 256;
/// Cubes along an axis that every device takes.
const MOST_CUBES: u32 = 32768;

/// The table has for each piece where it ends, counted over all pieces, and how far its numbers are away in the two
/// arrays, modulo 2^32.
#[cube(launch_unchecked)]
fn move_numbers(from: &Array<f32>, table: &Array<u32>, to: &mut Array<f32>, count: u32) {
    let place = ABSOLUTE_POS as u32;
    if place < count {
        let mut piece: u32 = 0;
        while place >= table[(3 * piece) as usize] {
            piece += 1;
        }
        let source = place + table[(3 * piece + 1) as usize];
        let target = place + table[(3 * piece + 2) as usize];
        to[target as usize] = from[source as usize];
    }
}

/// Moves pieces between two arrays, each given with its length.
pub(super) fn move_spans<R: Runtime>(
    client: &ComputeClient<R>,
    (from, from_len): (&Handle, usize),
    (to, to_len): (&Handle, usize),
    spans: &[Span],
) {
    let mut table: Vec<u32> = Vec::new();
    let mut count = 0u32;
    // Arenas are counted with 32 bits.
    for span in spans.iter().filter(|span| span.len > 0) {
        let away = |place: usize| (place as u32).wrapping_sub(count);
        let shifts = [away(span.from), away(span.to)];
        count += span.len as u32;
        table.extend([count, shifts[0], shifts[1]]);
    }
    if count == 0 {
        return;
    }
    let bytes: Vec<u8> = table.iter().flat_map(|n| n.to_le_bytes()).collect();
    let places = client.create_from_slice(&bytes);
    let cubes = count.div_ceil(UNITS);
    let cubes = CubeCount::Static(cubes.min(MOST_CUBES), cubes.div_ceil(MOST_CUBES), 1);
    // SAFETY: the arrays have as many numbers as is said, and the pieces are inside of them.
    unsafe {
        let [from, places, to] =
            [(from.clone(), from_len), (places, table.len()), (to.clone(), to_len)].map(|(h, n)| ArrayArg::from_raw_parts(h, n));
        move_numbers::launch_unchecked::<R>(client, cubes, CubeDim::new_1d(UNITS), from, places, to, count);
    }
}

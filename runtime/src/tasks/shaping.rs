//! The control suite's `tolerance`: how close a number is to a range, from 0 to 1.

/// 1 at zero, 0.1 at a distance of `margin`, along a Gaussian.
pub(crate) fn gaussian(x: f64, margin: f64) -> f64 {
    let d = x.abs() / margin;
    (-0.5 * d * d * (-2.0 * 0.1f64.ln())).exp()
}

/// 1 at zero, 0 from 1 on, along a parabola.
pub(crate) fn quadratic(x: f64) -> f64 {
    if x.abs() < 1.0 { 1.0 - x * x } else { 0.0 }
}

/// Moments of a capsule along an axis, about the middle of it and across: mass, length between the centres of its caps, radius.
pub(crate) fn capsule_inertia(mass: f64, length: f64, radius: f64) -> f64 {
    let caps = mass * 4.0 * radius / (4.0 * radius + 3.0 * length);
    let cylinder = mass - caps;
    cylinder * (3.0 * radius * radius + length * length) / 12.0
        + 2.0 * caps * radius * radius / 5.0
        + caps * length * (3.0 * radius + 2.0 * length) / 8.0
}

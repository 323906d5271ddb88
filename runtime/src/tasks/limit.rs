//! A joint's limit as MuJoCo's soft constraint, in closed form: with a single scalar constraint the solver's optimum is
//!
//! `f = max(0, (aref - J a) / (J M^-1 J' + R))`, `aref = -B J v - K imp d`, `R = (1 - imp) / imp * w`
//!
//! where `d` is the (negative) distance to the limit, `a` the acceleration without it, `w` the joint's inverse weight at its
//! default pose, and `imp` grows from 0.9 to 0.95 over the first millimetre (or milliradian) of penetration.

/// Impedance at the surface, inside, and how deep inside is.
const IMPEDANCE: (f64, f64, f64) = (0.9, 0.95, 0.001);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Time constant of the spring, not below two time steps.
    pub(crate) time_constant: f64,
}

impl Limit {
    /// The force on the joint at position q and velocity v, if the limit acts: `inverse` is the joint's entry of the inverse mass
    /// matrix and `weight` the same entry at the default pose.
    pub(crate) fn force(&self, q: f64, v: f64, acceleration: f64, inverse: f64, weight: f64) -> f64 {
        let (distance, sign) = if q - self.low < self.high - q { (q - self.low, 1.0) } else { (self.high - q, -1.0) };
        if distance >= 0.0 {
            return 0.0;
        }
        let (surface, inside, width) = IMPEDANCE;
        let depth = (-distance / width).min(1.0);
        let part = if depth <= 0.5 { 2.0 * depth * depth } else { 1.0 - 2.0 * (1.0 - depth) * (1.0 - depth) };
        let impedance = surface + part * (inside - surface);
        let stiffness = 1.0 / (inside * inside * self.time_constant * self.time_constant);
        let damping = 2.0 / (inside * self.time_constant);
        let wanted = -damping * sign * v - stiffness * impedance * distance;
        let regular = (1.0 - impedance) / impedance * weight;
        sign * ((wanted - sign * acceleration) / (inverse + regular)).max(0.0)
    }
}

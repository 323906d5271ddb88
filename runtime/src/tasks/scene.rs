//! The shapes of a task in a plane, in metres, for drawings.

/// A moment of a task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scene {
    pub shapes: Vec<Shape>,
    /// The height of the ground, where there is one.
    pub ground: Option<f64>,
    /// What the eye follows.
    pub centre: [f64; 2],
}

#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub form: Form,
    pub part: Part,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// A line with round ends; a disc where both are the same.
    Capsule { from: [f64; 2], to: [f64; 2], radius: f64 },
    /// Corners in their order.
    Polygon(Vec<[f64; 2]>),
}

/// What a shape is to the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Body,
    /// What is to be reached.
    Target,
    /// What does not move.
    World,
}

impl Scene {
    pub(crate) fn capsule(&mut self, part: Part, from: [f64; 2], to: [f64; 2], radius: f64) {
        self.shapes.push(Shape { form: Form::Capsule { from, to, radius }, part });
    }

    /// A rectangle by its middle and half of its sides.
    pub(crate) fn rectangle(&mut self, part: Part, [x, y]: [f64; 2], [w, h]: [f64; 2]) {
        let corners = vec![[x - w, y - h], [x + w, y - h], [x + w, y + h], [x - w, y + h]];
        self.shapes.push(Shape { form: Form::Polygon(corners), part });
    }
}

impl Form {
    /// Least and most along both axes.
    pub fn bounds(&self) -> ([f64; 2], [f64; 2]) {
        let around = |points: &[[f64; 2]], by: f64| {
            points.iter().fold(([f64::MAX; 2], [f64::MIN; 2]), |(low, high), p| {
                ([low[0].min(p[0] - by), low[1].min(p[1] - by)], [high[0].max(p[0] + by), high[1].max(p[1] + by)])
            })
        };
        match self {
            Form::Capsule { from, to, radius } => around(&[*from, *to], *radius),
            Form::Polygon(corners) => around(corners, 0.0),
        }
    }
}

/// The corners of the smallest convex shape around points, counter-clockwise (Andrew's monotone chain).
pub(crate) fn hull(mut points: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    points.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    let turns = |a: [f64; 2], b: [f64; 2], c: [f64; 2]| (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
    let half = |points: &mut dyn Iterator<Item = [f64; 2]>| {
        let mut chain: Vec<[f64; 2]> = Vec::new();
        for p in points {
            while chain.len() > 1 && turns(chain[chain.len() - 2], chain[chain.len() - 1], p) <= 0.0 {
                chain.pop();
            }
            chain.push(p);
        }
        chain.pop();
        chain
    };
    let mut all = half(&mut points.iter().copied());
    all.extend(half(&mut points.iter().rev().copied()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hull_leaves_out_what_is_inside() {
        let square = vec![[0.0, 0.0], [1.0, 1.0], [0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [0.5, 0.0]];
        assert_eq!(hull(square), [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]);
    }
}

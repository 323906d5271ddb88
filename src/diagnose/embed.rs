//! Points of many coordinates in two: their principal components. They are exact, have no knobs and keep distances along the two
//! directions in which the points vary most; a neighbourhood map such as UMAP would show clusters where there are none.

/// The first two principal components of each point, and the parts of the variance that they hold.
pub(crate) fn principal(points: &[Vec<f64>]) -> (Vec<(f64, f64)>, [f64; 2]) {
    let width = points.first().map_or(0, Vec::len);
    let count = points.len().max(1) as f64;
    let mut centre = vec![0.0; width];
    points.iter().for_each(|p| centre.iter_mut().zip(p).for_each(|(c, x)| *c += *x / count));
    let centred: Vec<Vec<f64>> = points.iter().map(|p| p.iter().zip(&centre).map(|(x, c)| x - c).collect()).collect();
    let mut covariance = vec![vec![0.0; width]; width];
    for p in &centred {
        for (i, row) in covariance.iter_mut().enumerate() {
            row.iter_mut().zip(p).for_each(|(c, x)| *c += p[i] * x / count);
        }
    }
    let total: f64 = (0..width).map(|i| covariance[i][i]).sum();
    let mut found = Vec::new();
    for _ in 0..2.min(width) {
        let (direction, variance) = strongest(&covariance);
        for (i, row) in covariance.iter_mut().enumerate() {
            row.iter_mut().zip(&direction).for_each(|(c, d)| *c -= variance * direction[i] * d);
        }
        found.push((direction, variance));
    }
    let along = |p: &Vec<f64>, n: usize| found.get(n).map_or(0.0, |(d, _)| dot(p, d));
    let part = |n: usize| found.get(n).map_or(0.0, |(_, v)| v / total.max(f64::MIN_POSITIVE));
    (centred.iter().map(|p| (along(p, 0), along(p, 1))).collect(), [part(0), part(1)])
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The direction in which a symmetric matrix stretches most, by powers of it, and how much.
fn strongest(matrix: &[Vec<f64>]) -> (Vec<f64>, f64) {
    // No direction of ours is likely to be at right angles to it.
    let mut direction: Vec<f64> = (0..matrix.len()).map(|i| 1.0 + (i as f64 * 0.7).sin() / 2.0).collect();
    let mut variance = 0.0;
    for _ in 0..1000 {
        let turned: Vec<f64> = matrix.iter().map(|row| dot(row, &direction)).collect();
        let length = dot(&turned, &turned).sqrt();
        if length <= f64::MIN_POSITIVE {
            return (vec![0.0; matrix.len()], 0.0);
        }
        direction = turned.into_iter().map(|x| x / length).collect();
        if (length - variance).abs() <= 1e-14 * length {
            break;
        }
        variance = length;
    }
    let turned: Vec<f64> = matrix.iter().map(|row| dot(row, &direction)).collect();
    let variance = dot(&turned, &direction);
    (direction, variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_direction_comes_first() {
        // An ellipse in a plane of four dimensions.
        let points: Vec<Vec<f64>> = (0..100)
            .map(|i| {
                let (s, c) = (f64::from(i) * std::f64::consts::TAU / 100.0).sin_cos();
                vec![3.0 * c, s, 3.0 * c, 7.0]
            })
            .collect();
        let (found, parts) = principal(&points);
        // Variances 9 and 0.5 along the two.
        assert!((parts[0] - 9.0 / 9.5).abs() < 1e-6 && (parts[1] - 0.5 / 9.5).abs() < 1e-6, "{parts:?}");
        let most = found.iter().map(|p| p.0.abs()).fold(0.0, f64::max);
        assert!((most - 18f64.sqrt()).abs() < 1e-5, "{most}");
        assert_eq!(principal(&[]).1, [0.0, 0.0]);
        assert_eq!(principal(&[vec![1.0, 2.0]]).0, [(0.0, 0.0)]);
    }
}

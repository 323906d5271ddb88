//! Finds the source line of each drawn operation.
//!
//! A kernel notes its operations in the order in which the fuser took them up, and the instructions of its maps stand in
//! that order too, without those that were folded into a neighbour. So both lists are aligned; where a folded operation
//! leaves open which of several it was, all of them are told.

use dsl::source::Span;

/// For each of `drawn`, by the names of the graph program, the spans that it may come from.
pub(super) fn origins(drawn: &[&str], notes: &[(String, Span)]) -> Vec<Vec<Span>> {
    let partners = align(drawn, notes);
    let matched: Vec<(usize, usize)> = partners.iter().enumerate().filter_map(|(i, j)| Some((i, (*j)?))).collect();
    let mut found = vec![Vec::new(); drawn.len()];
    for (at, (i, j)) in matched.iter().enumerate() {
        let from = if at == 0 { 0 } else { matched[at - 1].1 + 1 };
        let to = matched.get(at + 1).map_or(notes.len(), |next| next.1);
        let own = |k: &usize| *k == *j || fits(drawn[*i], &notes[*k].0);
        found[*i] = (from..to).filter(own).map(|k| notes[k].1).collect();
    }
    found
}

/// Whether an instruction may be what an operation became.
fn fits(drawn: &str, op: &str) -> bool {
    // A product that is no gemm is a multiplication and a sum.
    drawn == op || (matches!(drawn, "mul" | "sum") && op == "dot")
}

/// The longest alignment that keeps both orders: for each of `drawn` its partner.
fn align(drawn: &[&str], notes: &[(String, Span)]) -> Vec<Option<usize>> {
    let (n, m) = (drawn.len(), notes.len());
    let width = m + 1;
    // Longest from (i, j) on.
    let mut longest = vec![0u32; (n + 1) * width];
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            let skip = longest[(i + 1) * width + j].max(longest[i * width + j + 1]);
            let both = longest[(i + 1) * width + j + 1] + 1;
            longest[i * width + j] = if fits(drawn[i], &notes[j].0) { both.max(skip) } else { skip };
        }
    }
    let mut partners = vec![None; n];
    let (mut i, mut j) = (0, 0);
    while i < n && j < m {
        let here = longest[i * width + j];
        if fits(drawn[i], &notes[j].0) && here == longest[(i + 1) * width + j + 1] + 1 {
            partners[i] = Some(j);
            (i, j) = (i + 1, j + 1);
        } else if here == longest[i * width + j + 1] {
            j += 1;
        } else {
            i += 1;
        }
    }
    partners
}

#[cfg(test)]
mod tests {
    use dsl::source::FileId;

    use super::*;

    #[test]
    fn folded_operations_leave_their_neighbours_where_they_are() {
        let span = |i: usize| Span::new(FileId(0), i, i + 1);
        let notes: Vec<(String, Span)> =
            ["exp", "mul", "mul", "add", "tanh", "mul"].iter().enumerate().map(|(i, op)| (op.to_string(), span(i))).collect();
        // One of the two products went into the addition.
        let found = origins(&["exp", "mul", "add", "tanh", "mul", "nosuch"], &notes);
        assert_eq!(found, vec![vec![span(0)], vec![span(1), span(2)], vec![span(3)], vec![span(4)], vec![span(5)], vec![]]);
    }
}

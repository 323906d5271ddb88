//! Directed graphs over small numbers, and the circles in them.

/// A dependency graph: an edge points from a node to a node that it needs.
#[derive(Debug)]
pub(super) struct Graph {
    /// The edges of node `n` are `targets[starts[n]..starts[n + 1]]`.
    starts: Vec<usize>,
    targets: Vec<u32>,
}

impl Graph {
    pub(super) fn new(nodes: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Graph {
        let mut starts = vec![0; nodes + 1];
        for (from, _) in edges.clone() {
            starts[from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; starts[nodes]];
        for (from, to) in edges {
            targets[next[from as usize]] = to;
            next[from as usize] += 1;
        }
        Graph { starts, targets }
    }

    fn out(&self, node: u32) -> &[u32] {
        &self.targets[self.starts[node as usize]..self.starts[node as usize + 1]]
    }

    /// The strongly connected components, each after everything that it needs.
    ///
    /// Tarjan's algorithm with the call stack as a vector: a chain of equations is as long as its author likes.
    pub(super) fn components(&self) -> Vec<Vec<u32>> {
        const NEW: u32 = u32::MAX;
        let nodes = self.starts.len() - 1;
        let mut number = vec![NEW; nodes];
        let mut low = vec![0; nodes];
        let mut open = vec![false; nodes];
        let mut path: Vec<u32> = Vec::new();
        let mut calls: Vec<(u32, usize)> = Vec::new();
        let mut found = Vec::new();
        let mut count = 0;

        for root in 0..nodes as u32 {
            if number[root as usize] != NEW {
                continue;
            }
            calls.push((root, 0));
            while let Some((node, edge)) = calls.pop() {
                let n = node as usize;
                if edge == 0 {
                    number[n] = count;
                    low[n] = count;
                    count += 1;
                    open[n] = true;
                    path.push(node);
                }
                if let Some(&to) = self.out(node).get(edge) {
                    calls.push((node, edge + 1));
                    if number[to as usize] == NEW {
                        calls.push((to, 0));
                    } else if open[to as usize] {
                        low[n] = low[n].min(number[to as usize]);
                    }
                    continue;
                }
                if let Some(&(caller, _)) = calls.last() {
                    low[caller as usize] = low[caller as usize].min(low[n]);
                }
                if low[n] == number[n] {
                    let start = path.iter().rposition(|&m| m == node).unwrap_or(0);
                    let members = path.split_off(start);
                    for &member in &members {
                        open[member as usize] = false;
                    }
                    found.push(members);
                }
            }
        }
        found
    }
}

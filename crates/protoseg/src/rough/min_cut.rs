//! The cheapest cut that separates the nodes of a graph into two sides: Dinic's algorithm.
//!
//! Ours, because graphs here have a thousand nodes and one use: the crates for it bring a graph library, or augmenting
//! paths that take many times as long.

use std::collections::VecDeque;

/// A graph whose nodes have a cost on either side, and whose edges cost something if they are cut.
#[derive(Clone, Debug)]
pub struct MinCut {
    edges: Vec<Edge>,
    /// Edges that leave each node; the last two nodes are the sides.
    of: Vec<Vec<usize>>,
}

#[derive(Clone, Debug)]
struct Edge {
    to: usize,
    /// What can still flow. The edge back is the next or the one before.
    room: i64,
}

/// Costs are counted in millionths.
const UNIT: f64 = 1e6;
/// What no cut should pay.
const NEVER: f64 = 1e6;

impl MinCut {
    /// With this many nodes.
    pub fn new(nodes: usize) -> Self {
        Self { edges: Vec::new(), of: vec![Vec::new(); nodes + 2] }
    }

    fn add(&mut self, from: usize, to: usize, there: f64, back: f64) {
        let room = |cost: f64| (cost.clamp(0.0, NEVER) * UNIT) as i64;
        for (from, to, cost) in [(from, to, there), (to, from, back)] {
            self.of[from].push(self.edges.len());
            self.edges.push(Edge { to, room: room(cost) });
        }
    }

    /// What a node costs if it is on the first side, and on the second.
    pub fn node(&mut self, node: usize, on_first: f64, on_second: f64) {
        let (first, second) = (self.of.len() - 2, self.of.len() - 1);
        self.add(first, node, on_second, 0.0);
        self.add(node, second, on_first, 0.0);
    }

    /// What it costs if two nodes are on different sides.
    pub fn edge(&mut self, a: usize, b: usize, cost: f64) {
        self.add(a, b, cost, cost);
    }

    /// Whether each node is on the first side of the cheapest cut.
    pub fn cut(mut self) -> Vec<bool> {
        let (source, sink) = (self.of.len() - 2, self.of.len() - 1);
        loop {
            let depth = self.depths(source);
            if depth[sink].is_none() {
                let mut sides: Vec<bool> = depth.iter().map(Option::is_some).collect();
                sides.truncate(source);
                return sides;
            }
            let mut next = vec![0; self.of.len()];
            while self.push(source, sink, &depth, &mut next) {}
        }
    }

    /// Steps from the source along edges with room.
    fn depths(&self, source: usize) -> Vec<Option<u32>> {
        let mut depth = vec![None; self.of.len()];
        depth[source] = Some(0);
        let mut queue = VecDeque::from([(source, 0)]);
        while let Some((node, steps)) = queue.pop_front() {
            for &edge in &self.of[node] {
                let Edge { to, room } = self.edges[edge];
                if room > 0 && depth[to].is_none() {
                    depth[to] = Some(steps + 1);
                    queue.push_back((to, steps + 1));
                }
            }
        }
        depth
    }

    /// Sends as much as fits along one path of shortest length, if there is one. Not recursive: paths may be long.
    fn push(&mut self, source: usize, sink: usize, depth: &[Option<u32>], next: &mut [usize]) -> bool {
        let mut path: Vec<usize> = Vec::new();
        let mut node = source;
        while node != sink {
            let Some(&edge) = self.of[node].get(next[node]) else {
                // A dead end: one step back, and never here again.
                let Some(edge) = path.pop() else { return false };
                node = self.edges[edge ^ 1].to;
                next[node] += 1;
                continue;
            };
            let Edge { to, room } = self.edges[edge];
            if room > 0 && depth[to] == depth[node].map(|steps| steps + 1) {
                path.push(edge);
                node = to;
            } else {
                next[node] += 1;
            }
        }
        let flow = path.iter().map(|&edge| self.edges[edge].room).min().unwrap_or(0);
        for edge in path {
            self.edges[edge].room -= flow;
            self.edges[edge ^ 1].room += flow;
        }
        flow > 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cost(sides: &[bool], nodes: &[(f64, f64)], edges: &[(usize, usize, f64)]) -> f64 {
        let of_nodes: f64 =
            sides.iter().zip(nodes).map(|(first, cost)| if *first { cost.0 } else { cost.1 }).sum();
        let cut = edges.iter().filter(|(a, b, _)| sides[*a] != sides[*b]);
        of_nodes + cut.map(|(_, _, cost)| cost).sum::<f64>()
    }

    #[test]
    fn a_chain_is_cut_at_its_weakest_edge() {
        let mut graph = MinCut::new(4);
        graph.node(0, 0.0, 9.0);
        graph.node(3, 9.0, 0.0);
        for (a, strength) in [(0, 3.0), (1, 1.0), (2, 2.0)] {
            graph.edge(a, a + 1, strength);
        }
        assert_eq!(graph.cut(), [true, true, false, false]);
    }

    proptest! {
        #[test]
        fn no_other_separation_is_cheaper(
            nodes in proptest::collection::vec((0u8..9, 0u8..9), 1..7),
            edges in proptest::collection::vec((0usize..7, 0usize..7, 0u8..9), 0..14),
        ) {
            let nodes: Vec<(f64, f64)> = nodes.into_iter().map(|(a, b)| (f64::from(a), f64::from(b))).collect();
            let fits = |(a, b, _): &(usize, usize, u8)| a != b && *a < nodes.len() && *b < nodes.len();
            let edges: Vec<(usize, usize, f64)> =
                edges.into_iter().filter(fits).map(|(a, b, cost)| (a, b, f64::from(cost))).collect();
            let mut graph = MinCut::new(nodes.len());
            nodes.iter().enumerate().for_each(|(node, cost)| graph.node(node, cost.0, cost.1));
            edges.iter().for_each(|(a, b, cost)| graph.edge(*a, *b, *cost));
            let found = cost(&graph.cut(), &nodes, &edges);
            for all in 0..1u32 << nodes.len() {
                let sides: Vec<bool> = (0..nodes.len()).map(|node| all >> node & 1 == 1).collect();
                prop_assert!(found <= cost(&sides, &nodes, &edges) + 1e-6);
            }
        }
    }
}

//! What kernels and buffers are called, and why a kernel ends where it ends.

use super::super::partition::{Group, How};
use super::super::shape::{Root, Use};
use super::Host;

impl Host<'_> {
    pub(super) fn name(&self, root: Root) -> String {
        format!("{}.{}", self.graph.node(root.0).op.name(), root.0.0)
    }

    pub(super) fn kernel_name(&self, group: &Group) -> String {
        let has = |name: &str| group.nodes.iter().any(|v| self.graph.node(*v).op.name() == name);
        let what = match group.how {
            How::Contract => "contract",
            How::Random => "random",
            How::Loop => "loop",
            How::Tile if has("scan") => "rollout",
            How::Tile if has("argsort") => "select",
            How::Tile if has("dot") => "dense",
            How::Tile => "map",
        };
        format!("{what}.{}", group.nodes[0].0)
    }

    /// Why a group ends where it ends: what its first reader needs that it does not have.
    pub(super) fn reason(&self, g: usize) -> String {
        let group = &self.parts.groups[g];
        let of = |root: &Root| self.shape.uses(*root).iter();
        let reader = self.roots(group).iter().flat_map(of).find_map(|u| match u {
            Use::Node(c) => self.parts.group_of.get(c).filter(|of| **of != g).map(|of| (*c, *of)),
            Use::Result(_) => None,
        });
        let Some((reader, next)) = reader else { return "the program ends".to_string() };
        let next = &self.parts.groups[next];
        let op = self.graph.node(reader).op.name();
        match (next.how, group.prepared) {
            (_, true) => "it depends on parameters alone".to_string(),
            (How::Contract, _) => format!("`{op}` sums over rows"),
            (How::Loop, _) => format!("`{op}` is a loop whose body crosses rows"),
            (How::Random, _) => "random numbers come first".to_string(),
            (How::Tile, _) if next.rows != group.rows => format!("`{op}` goes along other rows"),
            (How::Tile, _) => "something that crosses rows lies between".to_string(),
        }
    }
}

//! Systems of equations over index variables, and the order in which they can be computed.

use serde::{Deserialize, Serialize};

use super::{AxisId, Dtype, ExprId, Index};
use crate::source::Span;

/// Index into [`super::Model::vars`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VarId(pub u32);

/// An index variable with its range `lo..hi`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Var {
    pub name: String,
    pub lo: i64,
    pub hi: i64,
}

impl Var {
    pub fn len(&self) -> i64 {
        (self.hi - self.lo).max(0)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Index into [`System::families`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FamilyId(pub u32);

/// Index into [`System::defs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DefId(pub u32);

/// A named value at every point of its domain: `z[t]`, `y[i, k]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    pub name: String,
    /// How many subscripts it has.
    pub arity: usize,
    /// The arrays it consists of: one, or one for each field of a record.
    pub leaves: Vec<Leaf>,
    pub defs: Vec<DefId>,
    /// For each subscript the range on which it is defined, `lo..hi`.
    pub domain: Vec<(i64, i64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    /// Empty for a family that is one array; `q`, `next.q`, `carry.0.h` for a field.
    pub path: String,
    pub axes: Vec<AxisId>,
    pub dtype: Dtype,
}

/// One equation for a part of a family's domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Def {
    pub family: FamilyId,
    /// One for each subscript.
    pub lhs: Vec<Lhs>,
    /// Its index variables, in the order of the subscripts.
    pub vars: Vec<VarId>,
    /// One value for each leaf of the family.
    pub values: Vec<ExprId>,
    /// A base case (`with x[-1] = ..`): it is there for reads of the past or the future, and an index that ranges over
    /// the family does not take it in.
    pub base: bool,
    pub span: Span,
}

/// A subscript on the left: `t + offset`, or a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lhs {
    Var { var: VarId, offset: i64 },
    At(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Forward,
    Backward,
}

/// A step of the order of computation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// All points of the equation at once.
    Map(DefId),
    /// A loop over the subscript `position` of the families in it; `body` is one iteration.
    Scan {
        position: usize,
        direction: Direction,
        /// Values of the subscript that the loop visits.
        lo: i64,
        hi: i64,
        /// How many steps back the loop reads.
        reach: i64,
        body: Vec<Stage>,
    },
}

/// Equations that are computed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct System {
    pub families: Vec<Family>,
    pub defs: Vec<Def>,
    pub stages: Vec<Stage>,
    /// Where each field of the data exists, `lo..hi`, by the index of the model's inputs.
    pub inputs: Vec<(i64, i64)>,
}

impl System {
    pub fn family(&self, id: FamilyId) -> &Family {
        &self.families[id.0 as usize]
    }

    pub fn def(&self, id: DefId) -> &Def {
        &self.defs[id.0 as usize]
    }

    pub fn find(&self, name: &str) -> Option<FamilyId> {
        self.families.iter().position(|f| f.name == name).map(|i| FamilyId(i as u32))
    }
}

impl Index {
    /// The constant, where no variable is in it.
    pub fn constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.offset)
    }

    /// `(variable, offset)`, where it is one variable with coefficient 1.
    pub fn shifted(&self) -> Option<(VarId, i64)> {
        match self.terms.as_slice() {
            [(var, 1)] => Some((*var, self.offset)),
            _ => None,
        }
    }
}

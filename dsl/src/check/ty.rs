//! Types of equations: what a family holds at each of its points.

use super::Ctx;
use super::value::{DistValue, Record, Tensor, Value};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{AxisId, Dtype, ExprId, Leaf};
use crate::source::Span;
use std::rc::Rc;

/// The structure of a family's value.
#[derive(Clone)]
pub(super) enum Ty<'a> {
    Tensor { axes: Vec<AxisId>, dtype: Dtype, attached: Option<Vec<AxisId>> },
    Record { latent: Option<usize>, fields: Vec<(String, Ty<'a>)> },
    Memory(usize),
    Dist(Rc<DistValue<'a>>),
    Ensemble(AxisId, Box<Ty<'a>>),
}

impl<'a> Ctx<'a> {
    pub(super) fn ty_leaves(&self, ty: &Ty<'a>, path: &str) -> Vec<Leaf> {
        let sub = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        match ty {
            Ty::Tensor { axes, dtype, attached } => {
                let mut leaves = vec![Leaf { path: path.to_string(), axes: axes.clone(), dtype: *dtype }];
                if let Some(axes) = attached {
                    leaves.push(Leaf { path: sub("before"), axes: axes.clone(), dtype: Dtype::Real });
                }
                leaves
            }
            Ty::Record { fields, .. } => fields.iter().flat_map(|(n, ty)| self.ty_leaves(ty, &sub(n))).collect(),
            Ty::Memory(module) => {
                let m = &self.draft.modules[*module];
                let mut leaves = vec![Leaf { path: sub("out"), axes: m.memory_out.clone(), dtype: Dtype::Real }];
                for c in &m.carries {
                    let carry = &self.draft.carries[*c];
                    let name = carry.path.strip_prefix(&format!("{}.", m.name)).unwrap_or(&carry.path);
                    leaves.push(Leaf { path: sub(&format!("carry.{name}")), axes: carry.axes.clone(), dtype: Dtype::Real });
                }
                leaves
            }
            Ty::Dist(d) => d
                .args
                .iter()
                .filter_map(|(n, v)| match v {
                    Value::Tensor(t) => {
                        Some(Leaf { path: sub(n), axes: self.draft.table.axes_of(t.expr).to_vec(), dtype: Dtype::Real })
                    }
                    _ => None,
                })
                .collect(),
            Ty::Ensemble(_, inner) => self.ty_leaves(inner, path),
        }
    }

    /// A value of a type out of its arrays.
    pub(super) fn rebuild(&mut self, ty: &Ty<'a>, leaves: &mut dyn Iterator<Item = ExprId>) -> Value<'a> {
        let mut take = || leaves.next();
        match ty {
            Ty::Tensor { attached, .. } => match (take(), attached) {
                (Some(expr), None) => Value::tensor(expr),
                (Some(expr), Some(_)) => Value::Tensor(Tensor { expr, attached: take() }),
                (None, _) => Value::Error,
            },
            Ty::Record { latent, fields } => {
                let mut out = Vec::new();
                for (name, ty) in fields {
                    out.push((name.clone(), self.rebuild(ty, leaves)));
                }
                Value::Record(Rc::new(Record { latent: *latent, fields: out }))
            }
            Ty::Memory(module) => {
                let Some(out) = take() else { return Value::Error };
                let carries = leaves.take(self.draft.modules[*module].carries.len()).collect();
                Value::Memory(Rc::new(super::value::MemoryValue { module: *module, out, carries }))
            }
            Ty::Dist(d) => {
                let mut args = Vec::new();
                for (name, v) in &d.args {
                    let v = match v {
                        Value::Tensor(_) => match leaves.next() {
                            Some(e) => Value::tensor(e),
                            None => return Value::Error,
                        },
                        other => other.clone(),
                    };
                    args.push((name.clone(), v));
                }
                self.make_dist(d.def, args, d.letters.clone(), d.module)
            }
            Ty::Ensemble(axis, inner) => {
                let inner = self.rebuild(inner, leaves);
                Value::Ensemble(*axis, Rc::new(inner))
            }
        }
    }

    /// The type of a value, and its arrays in the order of the type's leaves.
    pub(super) fn ty_of(&mut self, value: &Value<'a>, span: Span) -> Option<(Ty<'a>, Vec<ExprId>)> {
        match value {
            Value::Record(r) => {
                let mut fields = Vec::new();
                let mut leaves = Vec::new();
                for (name, v) in &r.fields {
                    let (ty, found) = self.ty_of(v, span)?;
                    fields.push((name.clone(), ty));
                    leaves.extend(found);
                }
                Some((Ty::Record { latent: r.latent, fields }, leaves))
            }
            Value::Memory(m) => {
                let mut leaves = vec![m.out];
                leaves.extend(&m.carries);
                Some((Ty::Memory(m.module), leaves))
            }
            Value::Dist(d) => {
                let leaves =
                    d.args.iter().filter_map(|(_, v)| if let Value::Tensor(t) = v { Some(t.expr) } else { None }).collect();
                Some((Ty::Dist(d.clone()), leaves))
            }
            Value::Ensemble(axis, inner) => {
                let (ty, leaves) = self.ty_of(inner, span)?;
                Some((Ty::Ensemble(*axis, Box::new(ty)), leaves))
            }
            Value::Tensor(Tensor { expr, attached: Some(extra) }) => {
                let ty = Ty::Tensor {
                    axes: self.draft.table.axes_of(*expr).to_vec(),
                    dtype: self.draft.table.dtype(*expr),
                    attached: Some(self.draft.table.axes_of(*extra).to_vec()),
                };
                Some((ty, vec![*expr, *extra]))
            }
            other => {
                let e = self.as_tensor(other, span)?;
                let ty =
                    Ty::Tensor { axes: self.draft.table.axes_of(e).to_vec(), dtype: self.draft.table.dtype(e), attached: None };
                Some((ty, vec![e]))
            }
        }
    }

    /// A value's arrays as a given type wants them: numbers and zeros spread over its axes.
    pub(super) fn conform(&mut self, value: &Value<'a>, ty: &Ty<'a>, name: &str, span: Span) -> Option<Vec<ExprId>> {
        match (value, ty) {
            (Value::Num(_) | Value::Zeros | Value::Size(_) | Value::Dim(_), Ty::Record { fields, .. }) => {
                let mut leaves = Vec::new();
                for (_, ty) in fields {
                    leaves.extend(self.conform(value, ty, name, span)?);
                }
                Some(leaves)
            }
            (Value::Record(r), Ty::Record { fields, .. }) => {
                let have: Vec<&str> = r.fields.iter().map(|(n, _)| n.as_str()).collect();
                if have.len() != fields.len() || fields.iter().any(|(n, _)| !have.contains(&n.as_str())) {
                    let want = super::listed(fields.iter().map(|(n, _)| n.as_str()));
                    let have = super::listed(have);
                    self.report(
                        Diagnostic::new(Code::AxesMismatch, span, format!("`{name}` has the fields {want}"))
                            .here(format!("this has {have}")),
                    );
                    return None;
                }
                let mut leaves = Vec::new();
                for (n, ty) in fields {
                    let field = r.fields.iter().find(|(m, _)| m == n).map(|(_, v)| v.clone())?;
                    leaves.extend(self.conform(&field, ty, name, span)?);
                }
                Some(leaves)
            }
            (Value::Memory(m), Ty::Memory(module)) if m.module == *module => {
                let mut leaves = vec![m.out];
                leaves.extend(&m.carries);
                Some(leaves)
            }
            // As the last argument of `memory`: the block's own start.
            (Value::Zeros | Value::Num(_), Ty::Memory(module)) => {
                let m = &self.draft.modules[*module];
                let (out, carries) = (m.memory_out.clone(), m.carries.clone());
                let e = self.as_tensor(value, span)?;
                let mut leaves = vec![self.draft.table.broadcast(e, &out, span)];
                leaves.extend(carries.iter().map(|c| self.draft.carries[*c].init));
                Some(leaves)
            }
            (Value::Error, _) => None,
            (_, Ty::Tensor { axes, attached, .. }) => {
                let e = self.as_tensor(value, span)?;
                let scalar = matches!(value, Value::Num(_) | Value::Zeros | Value::Size(_) | Value::Dim(_));
                if !self.same_axes(self.draft.table.axes_of(e), axes) && !scalar {
                    if self.is_doubtful(e) {
                        return None;
                    }
                    let (have, want) = (self.draft.table.having(self.draft.table.axes_of(e)), self.draft.table.having(axes));
                    let d = Diagnostic::new(Code::AxesMismatch, span, format!("`{name}` has {want} elsewhere"))
                        .here(format!("this has {have}"));
                    self.report(if have == "no axes" || want == "no axes" {
                        d.help("start it with `zeros([..])` of the right axes")
                    } else {
                        d
                    });
                    return None;
                }
                let mut leaves = vec![self.draft.table.broadcast(e, axes, span)];
                if attached.is_some() {
                    leaves.push(leaves[0]);
                }
                Some(leaves)
            }
            (_, Ty::Dist(_) | Ty::Ensemble(..)) => {
                let (_, leaves) = self.ty_of(value, span)?;
                Some(leaves)
            }
            (other, Ty::Record { .. } | Ty::Memory(_)) => {
                let what = if matches!(ty, Ty::Memory(_)) { "a memory's value" } else { "a record" };
                self.report(Diagnostic::new(
                    Code::WrongKind,
                    span,
                    format!("`{name}` is {what}, and this is {}", other.describe()),
                ));
                None
            }
        }
    }

    pub(super) fn set_type(&mut self, system: usize, id: usize, ty: Ty<'a>) {
        let leaves = self.ty_leaves(&ty, "");
        let family = &mut self.systems[system].families[id];
        if family.ty.is_none() {
            family.leaves = leaves;
            family.ty = Some(ty);
        }
    }
}

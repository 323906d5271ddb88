//! Distributions as values.

use super::Ctx;
use super::body::Flow;
use super::call::Arg;
use super::module::{Carries, Instance};
use super::value::{DistValue, Env, LazyKind, Mode, Named, Sees, Slot, Value};
use crate::ast::{self, StmtKind};
use crate::diagnostics::Code;
use crate::source::Span;
use hashbrown::HashSet;
use std::rc::Rc;

impl<'a> Ctx<'a> {
    /// `normal(mean, std)`: a distribution of given arrays.
    pub(super) fn call_dist(&mut self, def: &'a ast::Dist, args: Vec<Arg<'a>>, span: Span) -> Value<'a> {
        if !self.enter(&def.name.text, span) {
            return Value::Error;
        }
        let env = Env::root(def.span.file, Sees::Items);
        let value = match self.bind_params(&def.name.text, &def.params, args, &env, span, false) {
            Some(()) => {
                let mut args = Vec::new();
                let mut letters = Vec::new();
                for (name, slot) in env.0.vars.borrow().iter() {
                    let Slot::Value(v) = slot else { continue };
                    if def.params.iter().any(|p| p.name.text == *name) {
                        args.push((name.clone(), v.clone()));
                    } else {
                        letters.push((name.clone(), v.clone()));
                    }
                }
                // Arrays as arrays, whatever they were given as.
                for (name, v) in &mut args {
                    let raw = def.params.iter().any(|p| p.name.text == *name && p.default.is_none());
                    if raw && !matches!(v, Value::Tensor(_)) {
                        match self.as_tensor(v, span) {
                            Some(e) => *v = Value::tensor(e),
                            None => {
                                self.sink.calls.pop();
                                return Value::Error;
                            }
                        }
                    }
                }
                self.make_dist(def, args, letters, None)
            }
            None => Value::Error,
        };
        self.sink.calls.pop();
        value
    }

    /// A distribution's value out of its parameters: what it computes from them waits until it is wanted.
    pub(super) fn make_dist(
        &mut self,
        def: &'a ast::Dist,
        args: Named<'a>,
        letters: Named<'a>,
        module: Option<(usize, Mode)>,
    ) -> Value<'a> {
        let env = Env::root(def.span.file, Sees::Items);
        for (name, value) in letters.iter().chain(&args) {
            env.set(name.clone(), value.clone());
        }
        // Methods see each other.
        let dist = Rc::new(DistValue { def, env: env.clone(), args, letters, module });
        for method in &def.methods {
            env.set_method(method);
        }
        for stmt in &def.body {
            match &stmt.kind {
                StmtKind::Let(name, e) => {
                    env.set_lazy(&name.text, LazyKind::Let(e));
                }
                StmtKind::Param(decl, init) => {
                    let Some((module, mode)) = module else {
                        return self.error(
                            Code::BareBlock,
                            decl.name.span,
                            format!("`{}` has a parameter, so it must belong to a head", def.name.text),
                        );
                    };
                    let path = format!("{}.{}", self.draft.modules[module].name, decl.name.text);
                    let instance = Instance {
                        path: String::new(),
                        module,
                        mode,
                        ensemble: None,
                        carries: Carries::None,
                        touched: HashSet::new(),
                    };
                    let outer = self.place.instance.replace(instance);
                    let value = self.param_value(decl, init, &path, stmt.span, &env);
                    self.place.instance = outer;
                    env.set(&*decl.name.text, value);
                }
                StmtKind::Require(..) => match self.statements(std::slice::from_ref(stmt), &env) {
                    Flow::Go => {}
                    _ => return Value::Error,
                },
                _ => {}
            }
        }
        Value::Dist(dist)
    }
}

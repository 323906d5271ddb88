//! The built-in functions; all others are prelude text.

use super::Ctx;
use super::call::Arg;
use super::value::{Callable, Env, Value};
use crate::ast::{self};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{BinaryOp, Dtype, Index, Noise, Op, ReduceOp, UnaryOp, VarId};
use crate::source::Span;

macro_rules! builtins {
    ($($variant:ident $name:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Builtin { $($variant,)* }

        impl Builtin {
            pub(crate) const ALL: &'static [Builtin] = &[$(Builtin::$variant,)*];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Builtin::$variant => $name,)* }
            }

            fn named(name: &str) -> Option<Builtin> {
                match name { $($name => Some(Builtin::$variant),)* _ => None }
            }
        }
    };
}

builtins! {
    Exp "exp", Log "log", Sin "sin", Cos "cos", Sqrt "sqrt", Abs "abs", Sign "sign", Floor "floor",
    Tanh "tanh", Sigmoid "sigmoid", Softplus "softplus",
    Max "max", Min "min", Rem "rem", Select "select",
    Sum "sum", Mean "mean", Prod "prod", LogSumExp "logsumexp",
    Softmax "softmax", LogSoftmax "log_softmax",
    Outer "outer", Rename "rename", Split "split", Join "join", Concat "concat", Slice "slice",
    Sort "sort", Collect "collect", Top "top", Take "take", ArgMax "argmax", Hot "hot", Iota "iota", Ahead "ahead",
    Zeros "zeros", Ones "ones", Gaussian "gaussian", Uniform "uniform", Subset "subset",
    Attach "attach", Attached "attached",
    Grad "grad", Partial "partial", Stop "sg", Frozen "frozen",
    SizeOf "size", Count "count", Len "len", Low "low", High "high", Bounded "bounded",
}

impl<'a> Ctx<'a> {
    /// Names that Rust gives a meaning: functions and constants.
    pub(super) fn builtin_name(&mut self, name: &str) -> Option<Value<'a>> {
        Some(match name {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "pi" => Value::Num(std::f64::consts::PI),
            "inf" => Value::Num(f64::INFINITY),
            "zeros" => Value::Zeros,
            "training" if self.place.site.training && self.place.site.acts => {
                Value::tensor(self.draft.table.push(Op::Training, Vec::new(), Dtype::Bool, Span::default()))
            }
            "training" => Value::Bool(self.place.site.training),
            "progress" => Value::tensor(self.draft.table.push(Op::Progress, Vec::new(), Dtype::Real, Span::default())),
            _ => Value::Callable(Callable::Builtin(Builtin::named(name)?)),
        })
    }

    /// A builtin called with arguments as written: some look at the text and not at the value.
    pub(super) fn call_builtin(&mut self, b: Builtin, args: &'a [ast::Arg], env: &Env<'a>, span: Span) -> Value<'a> {
        match b {
            Builtin::Rename => self.rename_call(args, env, span),
            Builtin::Partial => self.partial(args, env, span),
            Builtin::Low | Builtin::High if self.is_action(args, env) => {
                let (low, high) = self.action_range();
                Value::Num(if b == Builtin::Low { low } else { high })
            }
            Builtin::Grad => {
                let before = self.sink.diagnostics.len();
                let value = match self.eval_args(args, env) {
                    Some(args) => self.apply_builtin(b, args, span),
                    None => Value::Error,
                };
                self.name_grad(before, args, env);
                value
            }
            _ => match self.eval_args(args, env) {
                Some(args) => self.apply_builtin(b, args, span),
                None => Value::Error,
            },
        }
    }

    /// A builtin on values.
    pub(super) fn apply_builtin(&mut self, b: Builtin, args: Vec<Arg<'a>>, span: Span) -> Value<'a> {
        let mut args = Args { name: b.name(), list: args, span };
        match b {
            Builtin::Exp => self.elementwise(UnaryOp::Exp, &mut args, f64::exp),
            Builtin::Log => self.elementwise(UnaryOp::Log, &mut args, f64::ln),
            Builtin::Sin => self.elementwise(UnaryOp::Sin, &mut args, f64::sin),
            Builtin::Cos => self.elementwise(UnaryOp::Cos, &mut args, f64::cos),
            Builtin::Sqrt => self.elementwise(UnaryOp::Sqrt, &mut args, f64::sqrt),
            Builtin::Abs => self.elementwise(UnaryOp::Abs, &mut args, f64::abs),
            Builtin::Sign => self.elementwise(UnaryOp::Sign, &mut args, |x| if x == 0.0 { 0.0 } else { x.signum() }),
            Builtin::Floor => self.elementwise(UnaryOp::Floor, &mut args, f64::floor),
            Builtin::Tanh => self.elementwise(UnaryOp::Tanh, &mut args, f64::tanh),
            Builtin::Sigmoid => self.elementwise(UnaryOp::Sigmoid, &mut args, |x| 1.0 / (1.0 + (-x).exp())),
            Builtin::Softplus => self.elementwise(UnaryOp::Softplus, &mut args, |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
            Builtin::Max => self.extreme(BinaryOp::Max, ReduceOp::Max, args, f64::max),
            Builtin::Min => self.extreme(BinaryOp::Min, ReduceOp::Min, args, f64::min),
            Builtin::Rem => self.remainder(&mut args),
            Builtin::Select => self.select_call(&mut args),
            Builtin::Sum => self.reduction(ReduceOp::Sum, args),
            Builtin::Mean => self.reduction(ReduceOp::Mean, args),
            Builtin::Prod => self.reduction(ReduceOp::Prod, args),
            Builtin::LogSumExp => self.reduction(ReduceOp::LogSumExp, args),
            Builtin::Softmax => self.softmax(args, false),
            Builtin::LogSoftmax => self.softmax(args, true),
            Builtin::Outer => self.outer(&mut args),
            Builtin::Split => self.split_call(&mut args),
            Builtin::Join => self.join_call(&mut args),
            Builtin::Concat => self.concat_call(&mut args),
            Builtin::Slice => self.slice_call(&mut args),
            Builtin::Sort => self.sort_call(args),
            Builtin::Collect => self.collect_call(args),
            Builtin::Top => self.top(args),
            Builtin::Take => self.take_call(args),
            Builtin::ArgMax => self.argmax(args),
            Builtin::Hot => self.hot(&mut args),
            Builtin::Iota => self.iota(&mut args),
            Builtin::Ahead => self.ahead(&mut args),
            Builtin::Zeros => self.filled(&mut args, 0.0),
            Builtin::Ones => self.filled(&mut args, 1.0),
            Builtin::Gaussian => self.noise(&mut args, Noise::Gaussian),
            Builtin::Uniform => self.noise(&mut args, Noise::Uniform),
            Builtin::Subset => self.subset(&mut args),
            Builtin::Attach => self.attach(&mut args),
            Builtin::Attached => self.attached(&mut args),
            Builtin::Grad => self.grad_call(&mut args),
            Builtin::Stop => self.stop_call(&mut args),
            Builtin::Frozen => self.frozen(&mut args),
            Builtin::SizeOf => self.size_of(&mut args),
            Builtin::Count => self.count(&mut args),
            Builtin::Len => self.len(&mut args),
            Builtin::Low => self.bound_of(&mut args, true),
            Builtin::High => self.bound_of(&mut args, false),
            Builtin::Bounded => self.bounded(&mut args),
            Builtin::Rename | Builtin::Partial => {
                self.error(Code::WrongArguments, span, format!("`{}` cannot be passed on as a function", b.name()))
            }
        }
    }

    /// The arguments of a builtin: as many as it takes, by place or by name.
    pub(super) fn take_args<const N: usize>(&mut self, args: &mut Args<'a>, names: [&str; N]) -> Option<[Arg<'a>; N]> {
        let mut slots: [Option<Arg<'a>>; N] = [const { None }; N];
        let mut next = 0;
        for arg in args.list.drain(..) {
            let at = match arg.name {
                Some(label) => match names.iter().position(|n| *n == label.text) {
                    Some(at) => at,
                    None => {
                        self.report(
                            Diagnostic::new(
                                Code::WrongArguments,
                                label.span,
                                format!("`{}` has no parameter `{}`", args.name, label.text),
                            )
                            .suggest(&label.text, names.iter().copied().chain(["over"])),
                        );
                        return None;
                    }
                },
                None => {
                    while next < N && slots[next].is_some() {
                        next += 1;
                    }
                    next
                }
            };
            if at >= N {
                self.report(
                    Diagnostic::new(
                        Code::WrongArguments,
                        arg.span,
                        format!("`{}` takes {}", args.name, super::module::count(N, "argument")),
                    )
                    .here("this one is too many"),
                );
                return None;
            }
            slots[at] = Some(arg);
        }
        for (slot, name) in slots.iter().zip(names) {
            if slot.is_none() {
                self.report(
                    Diagnostic::new(Code::WrongArguments, args.span, format!("`{}` needs `{name}`", args.name))
                        .note(format!("it takes {}", super::listed(names))),
                );
                return None;
            }
        }
        Some(slots.map(|s| s.expect("every slot was filled")))
    }

    pub(super) fn index_of(var: VarId) -> Index {
        Index { terms: vec![(var, 1)], offset: 0 }
    }
}

pub(super) struct Args<'a> {
    pub name: &'static str,
    pub list: Vec<Arg<'a>>,
    pub span: Span,
}

impl<'a> Args<'a> {
    /// Takes the argument of a name out.
    pub(super) fn named(&mut self, name: &str) -> Option<Arg<'a>> {
        let at = self.list.iter().position(|a| a.name.is_some_and(|n| n.text == name))?;
        Some(self.list.remove(at))
    }
}

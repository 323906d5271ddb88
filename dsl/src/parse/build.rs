//! From the grammar's pairs to the syntax tree.
//!
//! The grammar guarantees the shape of every pair, so this code takes children in order. Expressions are flat in the
//! grammar; [`super::operators`] groups them. The only errors to be found here are numbers without a value, expressions
//! that are too deep, and chains of operators that do not chain.

use pest::iterators::{Pair, Pairs};

use super::Rule;
use super::pack::Packed;
use super::told::Told;
use crate::ast::*;
use crate::diagnostics::Diagnostic;
use crate::source::Span;

pub(super) struct Build<'a> {
    pub packed: &'a Packed<'a>,
    /// Where the parsed slice starts in the packed text.
    pub base: usize,
    pub told: &'a mut Told,
}

pub(super) type P<'i> = Pair<'i, Rule>;

/// Children of a pair, taken in order.
pub(super) struct Children<'i>(pub(super) std::iter::Peekable<Pairs<'i, Rule>>);

impl<'i> Children<'i> {
    pub(super) fn of(pair: P<'i>) -> Children<'i> {
        Children(pair.into_inner().peekable())
    }

    /// Skips keyword tokens, which carry no meaning of their own.
    fn skip_words(&mut self) {
        while self.0.peek().is_some_and(|p| is_word(p.as_rule())) {
            self.0.next();
        }
    }

    pub(super) fn take(&mut self) -> P<'i> {
        self.skip_words();
        self.0.next().expect("the grammar gives this child")
    }

    pub(super) fn next_if(&mut self, rule: Rule) -> Option<P<'i>> {
        self.skip_words();
        self.0.next_if(|p| p.as_rule() == rule)
    }

    pub(super) fn rest(mut self) -> impl Iterator<Item = P<'i>> {
        std::iter::from_fn(move || {
            self.skip_words();
            self.0.next()
        })
    }
}

fn is_word(rule: Rule) -> bool {
    use Rule::*;
    matches!(
        rule,
        kw_use
            | kw_model
            | kw_extends
            | kw_block
            | kw_fn
            | kw_dist
            | kw_of
            | kw_let
            | kw_next
            | kw_return
            | kw_stack
            | kw_require
            | kw_rollout
            | kw_if
            | kw_else
            | kw_input
            | kw_action
            | kw_dim
            | kw_const
            | kw_latent
            | kw_schedule
            | kw_memory
            | kw_net
            | kw_head
            | kw_param
            | kw_slow
            | kw_slot
            | kw_running
            | kw_source
            | kw_loss
            | kw_metric
            | kw_planner
            | kw_act
            | kw_optimizer
            | kw_train
            | kw_evaluate
            | kw_diagnose
            | kw_probe
            | kw_show
            | kw_tasks
            | kw_drop
            | kw_record
            | kw_with
            | kw_for
            | kw_in
            | kw_where
            | kw_via
            | kw_warmup
            | kw_over
            | kw_init
            | kw_reset
            | kw_carry
    )
}

impl Build<'_> {
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.told.push(diagnostic);
    }

    pub(super) fn span(&self, pair: &P<'_>) -> Span {
        let s = pair.as_span();
        self.packed.span(self.base + s.start(), self.base + s.end())
    }

    /// The one token of a pair as it was written.
    pub(super) fn shown(&self, pair: &P<'_>) -> &str {
        self.packed.token(self.base + pair.as_span().start()).map_or("", |token| self.packed.shown(token))
    }

    pub(super) fn ident(&self, pair: P<'_>) -> Ident {
        Ident { text: self.shown(&pair).to_string(), span: self.span(&pair) }
    }

    pub(super) fn file(&mut self, pair: P<'_>) -> File {
        let mut items = Vec::new();
        for child in pair.into_inner() {
            items.extend(self.item(child));
        }
        File { items }
    }

    pub(super) fn item(&mut self, pair: P<'_>) -> Option<Item> {
        let span = self.span(&pair);
        Some(match pair.as_rule() {
            Rule::use_decl => Item::Use(Use { path: Children::of(pair).rest().map(|p| self.ident(p)).collect(), span }),
            Rule::model => {
                let mut c = Children::of(pair);
                let (name, extends) = self.model_head(c.take());
                let members = c.rest().map(|p| self.member(p)).collect();
                Item::Model(Model { name, extends, members, span })
            }
            Rule::block => {
                let mut c = Children::of(pair);
                let name = self.ident(c.take());
                let params = self.params(c.take());
                let carries = c.next_if(Rule::carries).map(|p| self.carries(p)).unwrap_or_default();
                let out = c.next_if(Rule::shape).map(|p| self.shape(p));
                let body = self.body(c.take());
                Item::Block(Block { name, params, carries, out, body, span })
            }
            Rule::function => Item::Fn(self.function(pair)),
            Rule::dist => {
                let mut c = Children::of(pair);
                let name = self.ident(c.take());
                let params = self.params(c.take());
                let event = c.next_if(Rule::shape).map(|p| self.shape(p));
                let (mut body, mut methods) = (Vec::new(), Vec::new());
                for p in c.rest() {
                    if p.as_rule() == Rule::function {
                        methods.push(self.function(p));
                    } else {
                        body.push(self.stmt(p));
                    }
                }
                Item::Dist(Dist { name, params, event, body, methods, span })
            }
            Rule::planner_def => Item::Planner(self.planner_def(pair)),
            Rule::optimizer_def => {
                let mut c = Children::of(pair);
                let name = self.ident(c.take());
                let params = self.params(c.take());
                let (mut slots, mut body) = (Vec::new(), Vec::new());
                for p in c.rest() {
                    if p.as_rule() == Rule::slots {
                        slots.extend(Children::of(p).rest().map(|p| self.ident(p)));
                    } else {
                        body.push(self.stmt(p));
                    }
                }
                Item::Optimizer(OptimizerDef { name, params, slots, body, span })
            }
            Rule::tasks => Item::Tasks(self.tasks(pair)),
            _ => return None,
        })
    }

    pub(super) fn model_head(&mut self, pair: P<'_>) -> (Ident, Option<Ident>) {
        let mut c = Children::of(pair);
        let name = self.ident(c.take());
        let extends = c.next_if(Rule::name).map(|p| self.ident(p));
        (name, extends)
    }

    fn planner_def(&mut self, pair: P<'_>) -> PlannerDef {
        let span = self.span(&pair);
        let mut c = Children::of(pair);
        let name = self.ident(c.take());
        let params = self.params(c.take());
        let mut def = PlannerDef {
            name,
            params,
            carries: Vec::new(),
            dims: Vec::new(),
            requires: Vec::new(),
            equations: Vec::new(),
            nexts: Vec::new(),
            returns: None,
            span,
        };
        for p in c.rest() {
            match p.as_rule() {
                Rule::planner_carry => {
                    let carries = Children::of(p).take();
                    def.carries.extend(self.carries(carries));
                }
                Rule::dims => def.dims.extend(Children::of(p).rest().map(|p| self.bind(p))),
                Rule::require_stmt => def.requires.push(self.stmt(p)),
                Rule::next_stmt => {
                    let mut c = Children::of(p);
                    let name = self.ident(c.take());
                    def.nexts.push((name, self.expr(c.take())));
                }
                Rule::return_stmt => def.returns = Some(self.expr(Children::of(p).take())),
                _ => def.equations.push(self.equation(p)),
            }
        }
        def
    }

    fn function(&mut self, pair: P<'_>) -> Function {
        let span = self.span(&pair);
        let mut c = Children::of(pair);
        let name = self.ident(c.take());
        let params = self.params(c.take());
        let out = c.next_if(Rule::shape).map(|p| self.shape(p));
        let body = self.body(c.take());
        Function { name, params, out, body, span }
    }

    fn tasks(&mut self, pair: P<'_>) -> Tasks {
        let span = self.span(&pair);
        let mut c = Children::of(pair);
        let name = self.ident(c.take());
        let args = c.next_if(Rule::args).map(|p| self.args(p)).unwrap_or_default();
        let list = c.take();
        Tasks { name, args, tasks: self.task_list(list), span }
    }

    fn task_list(&mut self, pair: P<'_>) -> Vec<Call> {
        Children::of(pair).rest().map(|p| self.call(p)).collect()
    }

    /// `tasks paper`, or `tasks mine { .. }`: a protocol of a file, or one of the model's own.
    fn tasks_member(&mut self, pair: P<'_>) -> MemberKind {
        let span = self.span(&pair);
        let mut c = Children::of(pair);
        let name = self.ident(c.take());
        let args = c.next_if(Rule::args).map(|p| self.args(p)).unwrap_or_default();
        match c.next_if(Rule::task_list) {
            Some(list) => MemberKind::Tasks(Tasks { name, args, tasks: self.task_list(list), span }),
            None => MemberKind::TasksUse(Call { name, args, span }),
        }
    }

    pub(super) fn member(&mut self, pair: P<'_>) -> Member {
        let span = self.span(&pair);
        let rule = pair.as_rule();
        let kind = match rule {
            Rule::function => MemberKind::Fn(self.function(pair)),
            Rule::tasks_member => self.tasks_member(pair),
            Rule::equation => MemberKind::Equation(self.equation(pair)),
            Rule::net | Rule::head => MemberKind::Net(self.net(pair)),
            _ => {
                let mut c = Children::of(pair);
                match rule {
                    Rule::input => MemberKind::Input(c.rest().map(|p| self.typed(p)).collect()),
                    Rule::action => MemberKind::Action { decl: self.typed(c.take()), range: self.bound_range(c.take()) },
                    Rule::dims => MemberKind::Dims(c.rest().map(|p| self.bind(p)).collect()),
                    Rule::consts => MemberKind::Consts(c.rest().map(|p| self.bind(p)).collect()),
                    Rule::latent => {
                        MemberKind::Latent { name: self.ident(c.take()), fields: c.rest().map(|p| self.typed(p)).collect() }
                    }
                    Rule::schedule => MemberKind::Schedule(self.bind(c.take())),
                    Rule::memory => MemberKind::Memory(Memory {
                        name: self.ident(c.take()),
                        params: self.params(c.take()),
                        out: self.shape(c.take()),
                        block: self.call(c.take()),
                        reset: c.next_if(Rule::reset_on).map(|p| self.expr(Children::of(p).take())),
                    }),
                    Rule::param => MemberKind::Param { decl: self.typed(c.take()), init: self.expr(c.take()) },
                    Rule::slow => {
                        let mut nets = Vec::new();
                        while let Some(p) = c.next_if(Rule::name) {
                            nets.push(self.ident(p));
                        }
                        MemberKind::Slow { nets, setting: self.bind(c.take()) }
                    }
                    Rule::running => {
                        MemberKind::Running { name: self.ident(c.take()), value: self.expr(c.take()), init: self.expr(c.take()) }
                    }
                    Rule::source => {
                        MemberKind::Source { call: self.call(c.take()), over: c.rest().map(|p| self.bind(p)).collect() }
                    }
                    Rule::loss => MemberKind::Loss(self.loss(c)),
                    Rule::metric => {
                        let place = self.place(c.take());
                        let value = self.expr(c.take());
                        let clauses = c.rest().map(|p| self.clause(p)).collect();
                        MemberKind::Metric(Equation { place, draw: false, value, clauses, span })
                    }
                    Rule::record => MemberKind::Record(self.equation(c.take())),
                    Rule::planner => MemberKind::Planner(Planner {
                        name: self.ident(c.take()),
                        params: self.params(c.take()),
                        algorithm: self.call(c.take()),
                        equations: c.rest().map(|p| self.equation(p)).collect(),
                    }),
                    Rule::act => MemberKind::Act(c.rest().map(|p| self.equation(p)).collect()),
                    Rule::optimizer => MemberKind::Optimizer(self.optimizer(c)),
                    Rule::train => MemberKind::Train(self.settings(c.take())),
                    Rule::evaluate => MemberKind::Evaluate(self.settings(c.take())),
                    Rule::diagnose => MemberKind::Diagnose(self.diagnose(c)),
                    Rule::drop => {
                        MemberKind::Drop { kind: self.ident(c.take()), names: c.rest().map(|p| self.ident(p)).collect() }
                    }
                    other => unreachable!("not a member: {other:?}"),
                }
            }
        };
        Member { kind, span }
    }

    fn net(&mut self, pair: P<'_>) -> Net {
        let head = pair.as_rule() == Rule::head;
        let mut c = Children::of(pair);
        let name = self.ident(c.take());
        let ensemble = c.next_if(Rule::ensemble).map(|p| self.ident(Children::of(p).take()));
        let params = self.params(c.take());
        let out_pair = c.take();
        let out_span = self.span(&out_pair);
        let inner = Children::of(out_pair).take();
        let out = match inner.as_rule() {
            Rule::shape => OutType::Shape(self.shape(inner)),
            Rule::fields => OutType::Fields(Children::of(inner).rest().map(|p| self.typed(p)).collect(), out_span),
            _ => OutType::Named(self.call(inner)),
        };
        let via = c.next_if(Rule::callee).map(|p| self.call(p));
        Net { head, name, ensemble, params, out, via, block: self.call(c.take()) }
    }

    fn loss(&mut self, mut c: Children<'_>) -> Loss {
        let name = self.ident(c.take());
        let weight_pair = c.take();
        let weight = self.expr(Children::of(weight_pair).take());
        let warmup = c.next_if(Rule::warmup).map(|p| {
            let mut c = Children::of(p);
            (self.percent(c.take()), self.percent(c.take()))
        });
        let optimizer = c.next_if(Rule::label).map(|p| self.ident(p));
        let mut parts = Vec::new();
        if let Some(p) = c.next_if(Rule::expr) {
            parts.push(LossPart { name: None, value: self.expr(p), clauses: Vec::new() });
        }
        while let Some(p) = c.next_if(Rule::part) {
            parts.push(self.part(p));
        }
        let clauses = c.rest().map(|p| self.clause(p)).collect();
        Loss { name, weight, warmup, optimizer, parts, clauses }
    }

    fn part(&mut self, pair: P<'_>) -> LossPart {
        let mut c = Children::of(pair);
        let name = Some(self.ident(c.take()));
        let value = self.expr(c.take());
        LossPart { name, value, clauses: c.rest().map(|p| self.clause(p)).collect() }
    }

    fn diagnose(&mut self, c: Children<'_>) -> Diagnose {
        let mut found = Diagnose { series: Vec::new(), probes: Vec::new(), shows: Vec::new() };
        for p in c.rest() {
            let (rule, span) = (p.as_rule(), self.span(&p));
            let mut c = Children::of(p);
            let name = self.ident(c.take());
            match rule {
                Rule::probe => found.probes.push(Declared { name, call: self.call(c.take()) }),
                Rule::show => found.shows.push(Declared { name, call: self.call(c.take()) }),
                _ => {
                    // Subscripts, the value, clauses.
                    let mut indices = vec![c.take()];
                    while let Some(p) = c.next_if(Rule::expr) {
                        indices.push(p);
                    }
                    let value = indices.pop().map(|p| self.expr(p)).expect("a value");
                    let indices = indices.into_iter().map(|p| self.expr(p)).collect();
                    let place = Place { span: name.span, name, indices };
                    let clauses = c.rest().map(|p| self.clause(p)).collect();
                    found.series.push(Equation { place, draw: false, value, clauses, span });
                }
            }
        }
        found
    }

    fn optimizer(&mut self, mut c: Children<'_>) -> Optimizer {
        let name = self.ident(c.take());
        let rule = self.call(c.take());
        let (mut on, mut except, mut scale) = (Vec::new(), Vec::new(), Vec::new());
        let (mut after, mut only) = (Vec::new(), Vec::new());
        let mut excluding = false;
        for p in c.0 {
            match p.as_rule() {
                Rule::kw_except => excluding = true,
                Rule::name if excluding => except.push(self.ident(p)),
                Rule::name => on.push(self.ident(p)),
                Rule::bind => scale.push(self.bind(p)),
                Rule::after => {
                    for p in Children::of(p).rest() {
                        match p.as_rule() {
                            Rule::label => after.push(self.ident(p)),
                            Rule::name => only.push(self.ident(p)),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Optimizer { name, rule, on, except, scale, after, only }
    }

    fn settings(&mut self, pair: P<'_>) -> Vec<Bind> {
        Children::of(pair).rest().map(|p| self.bind(p)).collect()
    }

    pub(super) fn equation(&mut self, pair: P<'_>) -> Equation {
        let span = self.span(&pair);
        let mut c = Children::of(pair);
        let place = self.place(c.take());
        let draw = c.take().as_rule() == Rule::op_draw;
        let value = self.expr(c.take());
        Equation { place, draw, value, clauses: c.rest().map(|p| self.clause(p)).collect(), span }
    }

    fn place(&mut self, pair: P<'_>) -> Place {
        let span = self.span(&pair);
        let mut c = Children::of(pair);
        let name = self.ident(c.take());
        Place { name, indices: c.rest().map(|p| self.expr(p)).collect(), span }
    }

    fn clause(&mut self, pair: P<'_>) -> Clause {
        let span = self.span(&pair);
        let rule = pair.as_rule();
        let mut c = Children::of(pair);
        let kind = match rule {
            Rule::with_init => ClauseKind::With(
                c.rest()
                    .map(|p| {
                        let mut c = Children::of(p);
                        (self.place(c.take()), self.expr(c.take()))
                    })
                    .collect(),
            ),
            Rule::for_range => ClauseKind::For(
                c.rest()
                    .map(|p| {
                        let mut c = Children::of(p);
                        (self.ident(c.take()), self.domain(c.take()))
                    })
                    .collect(),
            ),
            Rule::where_cond => ClauseKind::Where(self.expr(c.take())),
            _ => ClauseKind::Reset(self.expr(c.take())),
        };
        Clause { kind, span }
    }

    fn body(&mut self, pair: P<'_>) -> Vec<Stmt> {
        Children::of(pair).rest().map(|p| self.stmt(p)).collect()
    }

    fn stmt(&mut self, pair: P<'_>) -> Stmt {
        let span = self.span(&pair);
        let rule = pair.as_rule();
        let mut c = Children::of(pair);
        let kind = match rule {
            Rule::let_stmt => StmtKind::Let(self.ident(c.take()), self.expr(c.take())),
            Rule::next_stmt => StmtKind::Next(self.ident(c.take()), self.expr(c.take())),
            Rule::param => StmtKind::Param(self.typed(c.take()), self.expr(c.take())),
            Rule::return_stmt => StmtKind::Return(self.expr(c.take())),
            Rule::stack_stmt => {
                let first = self.ident(c.take());
                let second = c.next_if(Rule::name).map(|p| self.ident(p));
                let over = self.domain(c.take());
                let body = c.rest().map(|p| self.stmt(p)).collect();
                let (index, item) = match second {
                    Some(item) => (Some(first), item),
                    None => (None, first),
                };
                StmtKind::Stack { index, item, over, body }
            }
            Rule::require_stmt => StmtKind::Require(self.expr(c.take()), unquote(c.take().as_str())),
            Rule::assign => StmtKind::Assign(self.ident(c.take()), self.expr(c.take())),
            other => unreachable!("not a statement: {other:?}"),
        };
        Stmt { kind, span }
    }

    fn carries(&mut self, pair: P<'_>) -> Vec<Carry> {
        Children::of(pair)
            .rest()
            .map(|p| {
                let span = self.span(&p);
                let mut c = Children::of(p);
                Carry { name: self.ident(c.take()), shape: self.shape(c.take()), init: self.expr(c.take()), span }
            })
            .collect()
    }

    fn params(&mut self, pair: P<'_>) -> Vec<ParamDecl> {
        Children::of(pair)
            .rest()
            .map(|p| {
                let span = self.span(&p);
                let mut c = Children::of(p);
                let name = self.ident(c.take());
                let ty = c.next_if(Rule::ty).map(|p| self.ty(p));
                let default = c.next_if(Rule::expr).map(|p| self.expr(p));
                ParamDecl { name, ty, default, span }
            })
            .collect()
    }

    fn typed(&mut self, pair: P<'_>) -> Typed {
        let mut c = Children::of(pair);
        Typed { name: self.ident(c.take()), ty: self.ty(c.take()) }
    }

    fn ty(&mut self, pair: P<'_>) -> Type {
        let inner = Children::of(pair).take();
        match inner.as_rule() {
            Rule::shape => Type::Shape(self.shape(inner)),
            _ => Type::Name(self.ident(inner)),
        }
    }

    pub(super) fn shape(&mut self, pair: P<'_>) -> Shape {
        let span = self.span(&pair);
        let axes = Children::of(pair)
            .rest()
            .map(|p| {
                let mut c = Children::of(p);
                let name = self.ident(c.take());
                let rest = c.next_if(Rule::rest).is_some();
                let size = c.next_if(Rule::size).map(|p| self.expr(p));
                Axis { name, size, rest }
            })
            .collect();
        Shape { axes, span }
    }

    fn bind(&mut self, pair: P<'_>) -> Bind {
        let mut c = Children::of(pair);
        Bind { name: self.ident(c.take()), value: self.expr(c.take()) }
    }

    fn call(&mut self, pair: P<'_>) -> Call {
        let span = self.span(&pair);
        let mut c = Children::of(pair);
        let name = self.ident(c.take());
        let args = c.next_if(Rule::args).map(|p| self.args(p)).unwrap_or_default();
        Call { name, args, span }
    }

    pub(super) fn args(&mut self, pair: P<'_>) -> Vec<Arg> {
        Children::of(pair)
            .rest()
            .map(|p| {
                let span = self.span(&p);
                let mut c = Children::of(p);
                let first = c.take();
                let kind = match first.as_rule() {
                    Rule::renaming => {
                        let mut c = Children::of(first);
                        ArgKind::Rename(self.ident(c.take()), self.ident(c.take()))
                    }
                    Rule::label => ArgKind::Named(self.ident(first), self.expr(c.take())),
                    _ => ArgKind::Value(self.expr(first)),
                };
                Arg { kind, span }
            })
            .collect()
    }
}

pub(super) fn unquote(text: &str) -> String {
    text.trim_matches('"').to_string()
}

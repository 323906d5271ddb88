//! Forgetting where a tree was written, so that two texts of one meaning give equal trees.

use crate::ast::*;
use crate::source::Span;

/// Sets every span of the tree to the default: what is left is what the text says.
pub fn erase(file: &mut File) {
    for item in &mut file.items {
        match item {
            Item::Use(u) => {
                u.path.iter_mut().for_each(ident);
                clear(&mut u.span);
            }
            Item::Model(m) => {
                ident(&mut m.name);
                m.extends.iter_mut().for_each(ident);
                m.members.iter_mut().for_each(member);
                clear(&mut m.span);
            }
            Item::Block(b) => {
                ident(&mut b.name);
                b.params.iter_mut().for_each(param);
                b.carries.iter_mut().for_each(carry);
                b.out.iter_mut().for_each(shape);
                b.body.iter_mut().for_each(stmt);
                clear(&mut b.span);
            }
            Item::Fn(f) => function(f),
            Item::Dist(d) => {
                ident(&mut d.name);
                d.params.iter_mut().for_each(param);
                d.event.iter_mut().for_each(shape);
                d.body.iter_mut().for_each(stmt);
                d.methods.iter_mut().for_each(function);
                clear(&mut d.span);
            }
            Item::Planner(p) => {
                ident(&mut p.name);
                p.params.iter_mut().for_each(param);
                p.carries.iter_mut().for_each(carry);
                p.dims.iter_mut().for_each(bind);
                p.requires.iter_mut().for_each(stmt);
                p.equations.iter_mut().for_each(equation);
                p.nexts.iter_mut().for_each(named);
                p.returns.iter_mut().for_each(expr);
                clear(&mut p.span);
            }
            Item::Optimizer(o) => {
                ident(&mut o.name);
                o.params.iter_mut().for_each(param);
                o.slots.iter_mut().for_each(ident);
                o.body.iter_mut().for_each(stmt);
                clear(&mut o.span);
            }
            Item::Tasks(t) => tasks(t),
        }
    }
}

fn clear(span: &mut Span) {
    *span = Span::default();
}

fn ident(ident: &mut Ident) {
    clear(&mut ident.span);
}

fn named((name, value): &mut (Ident, Expr)) {
    ident(name);
    expr(value);
}

fn function(f: &mut Function) {
    ident(&mut f.name);
    f.params.iter_mut().for_each(param);
    f.out.iter_mut().for_each(shape);
    f.body.iter_mut().for_each(stmt);
    clear(&mut f.span);
}

fn tasks(t: &mut Tasks) {
    ident(&mut t.name);
    t.args.iter_mut().for_each(arg);
    t.tasks.iter_mut().for_each(call);
    clear(&mut t.span);
}

fn param(p: &mut ParamDecl) {
    ident(&mut p.name);
    p.ty.iter_mut().for_each(ty);
    p.default.iter_mut().for_each(expr);
    clear(&mut p.span);
}

fn carry(c: &mut Carry) {
    ident(&mut c.name);
    shape(&mut c.shape);
    expr(&mut c.init);
    clear(&mut c.span);
}

fn ty(ty: &mut Type) {
    match ty {
        Type::Shape(s) => shape(s),
        Type::Name(name) => ident(name),
    }
}

fn shape(s: &mut Shape) {
    for axis in &mut s.axes {
        ident(&mut axis.name);
        axis.size.iter_mut().for_each(expr);
    }
    clear(&mut s.span);
}

fn typed(t: &mut Typed) {
    ident(&mut t.name);
    ty(&mut t.ty);
}

fn bind(b: &mut Bind) {
    ident(&mut b.name);
    expr(&mut b.value);
}

fn call(c: &mut Call) {
    ident(&mut c.name);
    c.args.iter_mut().for_each(arg);
    clear(&mut c.span);
}

fn arg(a: &mut Arg) {
    match &mut a.kind {
        ArgKind::Value(e) => expr(e),
        ArgKind::Named(name, e) => {
            ident(name);
            expr(e);
        }
        ArgKind::Rename(from, to) => {
            ident(from);
            ident(to);
        }
    }
    clear(&mut a.span);
}

fn member(m: &mut Member) {
    match &mut m.kind {
        MemberKind::Input(fields) => fields.iter_mut().for_each(typed),
        MemberKind::Action { decl, range } => {
            typed(decl);
            expr(range);
        }
        MemberKind::Dims(binds) | MemberKind::Consts(binds) | MemberKind::Train(binds) | MemberKind::Evaluate(binds) => {
            binds.iter_mut().for_each(bind);
        }
        MemberKind::Latent { name, fields } => {
            ident(name);
            fields.iter_mut().for_each(typed);
        }
        MemberKind::Schedule(b) => bind(b),
        MemberKind::Memory(m) => {
            ident(&mut m.name);
            m.params.iter_mut().for_each(param);
            shape(&mut m.out);
            call(&mut m.block);
            m.reset.iter_mut().for_each(expr);
        }
        MemberKind::Net(n) => net(n),
        MemberKind::Param { decl, init } => {
            typed(decl);
            expr(init);
        }
        MemberKind::Slow { nets, setting } => {
            nets.iter_mut().for_each(ident);
            bind(setting);
        }
        MemberKind::Running { name, value, init } => {
            ident(name);
            expr(value);
            expr(init);
        }
        MemberKind::Fn(f) => function(f),
        MemberKind::Source { call: c, over } => {
            call(c);
            over.iter_mut().for_each(bind);
        }
        MemberKind::Loss(l) => loss(l),
        MemberKind::Metric(e) | MemberKind::Record(e) | MemberKind::Equation(e) => equation(e),
        MemberKind::Planner(p) => {
            ident(&mut p.name);
            p.params.iter_mut().for_each(param);
            call(&mut p.algorithm);
            p.equations.iter_mut().for_each(equation);
        }
        MemberKind::Act(equations) => equations.iter_mut().for_each(equation),
        MemberKind::Diagnose(d) => {
            d.series.iter_mut().for_each(equation);
            for declared in d.probes.iter_mut().chain(&mut d.shows) {
                ident(&mut declared.name);
                call(&mut declared.call);
            }
        }
        MemberKind::Optimizer(o) => {
            ident(&mut o.name);
            call(&mut o.rule);
            o.on.iter_mut().for_each(ident);
            o.except.iter_mut().for_each(ident);
            o.scale.iter_mut().for_each(bind);
            o.after.iter_mut().for_each(ident);
            o.only.iter_mut().for_each(ident);
        }
        MemberKind::Tasks(t) => tasks(t),
        MemberKind::TasksUse(c) => call(c),
        MemberKind::Drop { kind, names } => {
            ident(kind);
            names.iter_mut().for_each(ident);
        }
    }
    clear(&mut m.span);
}

fn net(n: &mut Net) {
    ident(&mut n.name);
    n.ensemble.iter_mut().for_each(ident);
    n.params.iter_mut().for_each(param);
    match &mut n.out {
        OutType::Shape(s) => shape(s),
        OutType::Fields(fields, span) => {
            fields.iter_mut().for_each(typed);
            clear(span);
        }
        OutType::Named(c) => call(c),
    }
    n.via.iter_mut().for_each(call);
    call(&mut n.block);
}

fn loss(l: &mut Loss) {
    ident(&mut l.name);
    expr(&mut l.weight);
    if let Some((from, to)) = &mut l.warmup {
        expr(from);
        expr(to);
    }
    l.optimizer.iter_mut().for_each(ident);
    for part in &mut l.parts {
        part.name.iter_mut().for_each(ident);
        expr(&mut part.value);
        part.clauses.iter_mut().for_each(clause);
    }
    l.clauses.iter_mut().for_each(clause);
}

fn equation(e: &mut Equation) {
    place(&mut e.place);
    expr(&mut e.value);
    e.clauses.iter_mut().for_each(clause);
    clear(&mut e.span);
}

fn place(p: &mut Place) {
    ident(&mut p.name);
    p.indices.iter_mut().for_each(expr);
    clear(&mut p.span);
}

fn clause(c: &mut Clause) {
    match &mut c.kind {
        ClauseKind::With(inits) => {
            for (at, value) in inits {
                place(at);
                expr(value);
            }
        }
        ClauseKind::For(ranges) => ranges.iter_mut().for_each(named),
        ClauseKind::Where(e) | ClauseKind::Reset(e) => expr(e),
    }
    clear(&mut c.span);
}

fn stmt(s: &mut Stmt) {
    match &mut s.kind {
        StmtKind::Let(name, e) | StmtKind::Next(name, e) | StmtKind::Assign(name, e) => {
            ident(name);
            expr(e);
        }
        StmtKind::Param(decl, e) => {
            typed(decl);
            expr(e);
        }
        StmtKind::Return(e) | StmtKind::Require(e, _) => expr(e),
        StmtKind::Stack { index, item, over, body } => {
            index.iter_mut().for_each(ident);
            ident(item);
            expr(over);
            body.iter_mut().for_each(stmt);
        }
    }
    clear(&mut s.span);
}

fn expr(e: &mut Expr) {
    match &mut e.kind {
        ExprKind::Number(_) | ExprKind::Percent(_) | ExprKind::Text(_) | ExprKind::Error => {}
        ExprKind::Name(name) | ExprKind::Next(name) => ident(name),
        ExprKind::List(items) => items.iter_mut().for_each(list_item),
        ExprKind::Record(fields) => fields.iter_mut().for_each(named),
        ExprKind::Fold { op, var, over, body } => {
            ident(op);
            ident(var);
            expr(over);
            expr(body);
        }
        ExprKind::If { cond, then, other } => {
            expr(cond);
            expr(then);
            expr(other);
        }
        ExprKind::Rollout(equations) => equations.iter_mut().for_each(equation),
        ExprKind::Index(base, indices) => {
            expr(base);
            indices.iter_mut().for_each(expr);
        }
        ExprKind::Field(base, name) => {
            expr(base);
            ident(name);
        }
        ExprKind::Call(base, args) => {
            expr(base);
            args.iter_mut().for_each(arg);
        }
        ExprKind::Update(base, fields) => {
            expr(base);
            fields.iter_mut().for_each(named);
        }
        ExprKind::Arrow(base, out) => {
            expr(base);
            shape(out);
        }
        ExprKind::Unary(_, e) => expr(e),
        ExprKind::Binary(_, left, right) => {
            expr(left);
            expr(right);
        }
        ExprKind::Range { lo, hi, inclusive: _ } => {
            expr(lo);
            expr(hi);
        }
    }
    clear(&mut e.span);
}

fn list_item(item: &mut ListItem) {
    match item {
        ListItem::Value(e) => expr(e),
        ListItem::Axis(name, e) => {
            ident(name);
            expr(e);
        }
        ListItem::Rest(name) => ident(name),
    }
}

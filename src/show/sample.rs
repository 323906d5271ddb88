//! A small checked model made by hand, for the tests of what is shown.

use dsl::hir::*;
use dsl::source::{Sources, Span};

/// The text that [`model`] could have come from: what is shown as written is read from here.
pub(crate) const TEXT: &str = "
model Sample {
  schedule alpha = ramp(0, 0.5)
  loss fit 0.5 = x[t]
  planner plan(z) = cem(horizon = 3) { score = 0 }
  optimizer main = adam(lr = 1e-3) on all scale { scale = 0.3 }
}
";

pub(crate) fn sources() -> Sources {
    let mut sources = Sources::default();
    sources.add("sample.wm", TEXT, false);
    sources
}

/// With the size O of the task open.
pub(crate) fn model() -> Model {
    with(Size::symbol("O"))
}

pub(crate) fn bound(o: i64) -> Model {
    with(Size::known(o))
}

const O: AxisId = AxisId(0);
const A: AxisId = AxisId(1);
const H: AxisId = AxisId(2);
const B: AxisId = AxisId(3);
const T: AxisId = AxisId(4);
const K: AxisId = AxisId(5);

fn with(o: Size) -> Model {
    let span = Span::default();
    let axis = |name: &str, size: Size| Axis { name: name.into(), size };
    let dim = |name: &str, axis, task| Dim { name: name.into(), axis, task, span };
    let node = |op, axes: &[AxisId]| Node { op, axes: axes.to_vec(), dtype: Dtype::Real, span };
    let param =
        |path: &str, axes: &[AxisId], module| Param { path: path.into(), axes: axes.to_vec(), init: ExprId(0), module, span };
    let input = |name: &str, axes: &[AxisId], outcome| Input {
        name: name.into(),
        axes: axes.to_vec(),
        dtype: Dtype::Real,
        outcome,
        span,
    };
    let module = |name: &str, kind, params: &[u32], slow| Module {
        name: name.into(),
        kind,
        signature: "(obs) -> z".into(),
        params: params.iter().map(|p| ParamId(*p)).collect(),
        ensemble: None,
        slow,
        span,
    };
    Model {
        name: "Sample".into(),
        axes: vec![
            axis("O", o),
            axis("A", Size::known(1)),
            axis("H", Size::known(4)),
            axis("B", Size::known(32)),
            axis("T", Size::known(8)),
            axis("K", Size::known(1_000)),
        ],
        dims: vec![dim("O", O, true), dim("A", A, true), dim("H", H, false)],
        inputs: vec![input("obs", &[O], false), input("r", &[], true), input("a", &[A], true)],
        action: Action { input: 2, low: -1.0, high: 1.0 },
        latents: vec![Latent { name: "z".into(), fields: vec![("q".into(), vec![H]), ("s".into(), vec![])] }],
        modules: vec![
            module("encoder", ModuleKind::Net, &[0, 1], Some(SlowCopy { tau: 0.01 })),
            module("scale", ModuleKind::Param, &[2], None),
        ],
        params: vec![param("encoder.0.weight", &[H, O], 0), param("encoder.0.bias", &[H], 0), param("scale", &[K], 1)],
        carries: vec![Carry { path: "plan.last".into(), axes: vec![H, A], init: ExprId(0) }],
        schedules: vec![Schedule { name: "alpha".into(), value: ExprId(2), span }],
        draws: vec![
            Draw { name: "plan.noise".into(), noise: Noise::Gaussian, axes: vec![A], vars: vec![VarId(0)], per_sample: true },
            Draw { name: "pick".into(), noise: Noise::Subset { of: 5 }, axes: vec![], vars: vec![], per_sample: false },
        ],
        exprs: vec![
            node(Op::Const(0.5), &[]),
            node(Op::Progress, &[]),
            node(Op::Binary(BinaryOp::Mul, ExprId(0), ExprId(1)), &[]),
        ],
        vars: vec![Var { name: "k".into(), lo: 0, hi: 3 }],
        train: System {
            families: vec![Family {
                name: "m".into(),
                arity: 1,
                leaves: vec![Leaf { path: "carry.h".into(), axes: vec![H], dtype: Dtype::Real }],
                defs: vec![],
                domain: vec![(0, 8)],
            }],
            ..System::default()
        },
        running: vec![Running { name: "R".into(), value: ExprId(0), init: ExprId(0), vars: vec![], span }],
        losses: vec![Loss {
            name: "fit".into(),
            weight: ExprId(0),
            warmup: Some((0.3, 0.6)),
            optimizer: None,
            parts: vec![LossPart { name: "fit".into(), value: ExprId(0), condition: None, vars: vec![] }],
            span,
        }],
        records: vec![],
        evaluate: System::default(),
        metrics: vec![Metric {
            name: "drift".into(),
            value: ExprId(0),
            condition: None,
            vars: vec![],
            kept: vec![VarId(0)],
            span,
        }],
        diagnose: vec![("q".into(), ExprId(0))],
        act: Some(Act {
            system: System::default(),
            now: VarId(0),
            train: ExprId(0),
            eval: ExprId(0),
            state: vec![ActState { family: FamilyId(0), leaf: 0, lag: 1 }],
            next: vec![(0, ExprId(0))],
        }),
        optimizers: vec![Optimizer {
            name: "main".into(),
            rule: Rule { entries: H, slots: vec!["m".into(), "v".into()], next: vec![], value: ExprId(0) },
            params: vec![(ParamId(0), 1.0), (ParamId(1), 1.0), (ParamId(2), 0.3)],
            span,
        }],
        source: Source::Replay {
            capacity: 10_000,
            cross: false,
            context: 0,
            batch: dim("B", B, false),
            time: dim("T", T, false),
        },
        settings: Train {
            steps: 5_000,
            seed_steps: 500,
            every: 2,
            updates: 1,
            eval_every: 1_000,
            eval_episodes: 1,
            seeds: vec![1],
            stop_epoch: None,
        },
        tasks: vec![Task {
            name: "pendulum".into(),
            dims: vec![("O".into(), 3), ("A".into(), 1)],
            settings: vec![("repeat".into(), Setting::Number(2.0))],
        }],
    }
}

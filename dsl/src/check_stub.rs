//! TEMPORARY: stands in for the checker on the branch `macros`; deleted when the real `check` is merged.
//!
//! It parses, and gives for each model that parsed its name, its dims with plain numbers and its losses: just
//! enough for the tests of the macros to see a module.

use crate::ast::{ExprKind, Item, MemberKind};
use crate::hir::{self, ExprId};
use crate::source::Sources;
use crate::{Checked, Loader, Options, parse};

pub fn check(name: &str, text: &str, loader: &dyn Loader, options: &Options) -> Checked {
    let mut sources = Sources::default();
    let id = sources.add(name, text, false);
    let (tree, mut diagnostics) = parse::parse(id, text);
    let mut models = Vec::new();
    for item in &tree.items {
        match item {
            Item::Use(u) => {
                if let Ok(found) = loader.load(&u.path[0].text) {
                    let id = sources.add(found.name, found.text.as_str(), false);
                    diagnostics.extend(parse::parse(id, &found.text).1);
                }
            }
            Item::Model(m) if diagnostics.is_empty() && options.model.as_ref().is_none_or(|only| *only == m.name.text) => {
                models.push(model(m));
            }
            _ => {}
        }
    }
    Checked { sources, models, diagnostics }
}

fn model(tree: &crate::ast::Model) -> hir::Model {
    let mut axes = Vec::new();
    let mut dims = Vec::new();
    let mut losses = Vec::new();
    for member in &tree.members {
        match &member.kind {
            MemberKind::Dims(binds) => {
                for bind in binds {
                    let ExprKind::Number(size) = bind.value.kind else { continue };
                    let axis = hir::AxisId(axes.len() as u32);
                    axes.push(hir::Axis { name: bind.name.text.clone(), size: hir::Size::known(size as i64) });
                    dims.push(hir::Dim { name: bind.name.text.clone(), axis, task: false, span: bind.name.span });
                }
            }
            MemberKind::Loss(loss) => losses.push(hir::Loss {
                name: loss.name.text.clone(),
                weight: ExprId(0),
                warmup: None,
                optimizer: None,
                parts: Vec::new(),
                span: member.span,
            }),
            _ => {}
        }
    }
    let none = hir::Dim { name: "T".into(), axis: hir::AxisId(0), task: false, span: tree.span };
    hir::Model {
        name: tree.name.text.clone(),
        axes,
        dims,
        inputs: Vec::new(),
        action: hir::Action { input: 0, low: -1.0, high: 1.0 },
        latents: Vec::new(),
        modules: Vec::new(),
        params: Vec::new(),
        carries: Vec::new(),
        schedules: Vec::new(),
        draws: Vec::new(),
        exprs: Vec::new(),
        vars: Vec::new(),
        train: hir::System::default(),
        running: Vec::new(),
        losses,
        records: Vec::new(),
        evaluate: hir::System::default(),
        metrics: Vec::new(),
        diagnose: Vec::new(),
        act: None,
        optimizers: Vec::new(),
        source: hir::Source::Rollout { steps: 0, epochs: 0, minibatch: 0, time: none },
        settings: hir::Train {
            steps: 0,
            seed_steps: 0,
            every: 0,
            updates: 0,
            eval_every: 0,
            eval_episodes: 0,
            seeds: Vec::new(),
            stop_epoch: None,
        },
        tasks: Vec::new(),
    }
}

//! `diagnose`: what is declared, and what is said where a declaration does not fit.

use wmc_dsl::diagnostics::TINY;
use wmc_dsl::hir::{Actions, Form};
use wmc_dsl::{Checked, MapLoader, Options};

const SERIES: &str = "x = z[t].q, y = z[t].p, level = energy(z[t].q, z[t].p), calm = norm(a[t]) < 0.1
    next_x = s[t].q, wide = z[t].c, twice = 2 * z[t].q, ahead[i, k] = sq(z[i+k].q - z[i].q) for i in 0..2, k in 1..3
    probe free = passive(repeat = 1, control_steps = 20, kick = 5, damping = 0)  probe best = policy(episodes = 3)";

fn check(declared: &str) -> Checked {
    let text = format!("use tiny::Tiny\nmodel Mine extends Tiny {{ diagnose {{ {SERIES}\n{declared} }} }}");
    let loader = MapLoader([("tiny".to_string(), TINY.to_string())].into());
    wmc_dsl::check("mine.wm", &text, &loader, &Options::default())
}

#[test]
fn what_is_declared_is_in_the_model() {
    let declared = "total = task(\"energy\")  probe old = replay(title = \"stored\")
        show lines = slice(level, over = [x, y], along = free, colour = total, title = \"Level\", unit = \"J\")
        show far = horizon(ahead, at = [1, 2], along = [best, old])
        show works = correlation(level, total, absolute = true, along = best)";
    let checked = check(declared);
    assert!(checked.diagnostics.is_empty(), "{:?}", checked.diagnostics);
    let model = &checked.models[0];
    assert_eq!(model.quantities[0].of, "energy");
    let probes: Vec<(&str, Actions)> = model.probes.iter().map(|p| (p.name.as_str(), p.actions)).collect();
    assert_eq!(probes, [("free", Actions::Passive), ("best", Actions::Policy), ("old", Actions::Replay)]);
    assert_eq!(model.probes[0].changes, [("kick".to_string(), 5.0), ("damping".to_string(), 0.0)]);
    assert_eq!((model.probes[0].settings.len(), model.probes[1].episodes), (2, Some(3)));
    let [lines, far, works] = &model.shows[..] else { panic!("{:?}", model.shows) };
    assert_eq!((lines.form, lines.title(), lines.unit.as_deref()), (Form::Slice, "Level", Some("J")));
    assert_eq!(
        (lines.series("over"), lines.series("colour"), lines.series("flow").len()),
        (&["x".into(), "y".into()][..], &["total".to_string()][..], 0)
    );
    assert_eq!((far.numbers("at"), far.probes("along").len()), (&[1.0, 2.0][..], 2));
    assert!(works.flag("absolute") && !far.flag("absolute"));
}

#[test]
fn mistakes_have_codes_places_and_help() {
    let cases = [
        ("E0201", "show a = bands(lvel, along = free)", "did you mean `level`?"),
        ("E0201", "show a = bands(level, along = fre)", "did you mean `free`?"),
        ("E0201", "show a = band(level, along = free)", "did you mean `bands`?"),
        ("E0201", "probe b = pasive()", "did you mean `passive`?"),
        ("E0506", "show a = bands(level, along = free, form_start = true)", "did you mean `from_start`?"),
        ("E0506", "probe b = replay(repeat = 1)", "its settings are"),
        ("E0507", "probe b = policy(length = 3, control_steps = 4)", "not both"),
        ("E0507", "probe b = policy(mass = 0)", "above 0"),
        ("E0507", "probe b = policy(mask = 2)", "0 to 1"),
        (
            "E0507",
            "show a = crossings(over = [x, y], normal = [x, y], by = level, quantiles = [1.5], along = free)",
            "between 0 and 1",
        ),
        ("E0202", "probe b = policy(repeat = 1, repeat = 2)", "leave one of them out"),
        ("E0202", "show level = mean(level, along = free)", "rename one of them"),
        ("E0209", "show a = correlation(level, along = free)", "takes 2 series, and 1 are given"),
        ("E0209", "show a = bands(level)", "takes 1 to 8 probes in `along`"),
        ("E0209", "show a = crossings(x, y, along = free)", "have names"),
        ("E0209", "probe b = policy(3)", "settings have names"),
        ("E0210", "show a = mean(1 + 2, along = free)", "is given by its name"),
        ("E0210", "show a = bands(level, along = free, title = 3)", "is a text"),
        ("E0801", "show a = mean(x, along = free)", "takes one number at each decision"),
        ("E0801", "show a = fraction(level, along = free)", "declare a condition"),
        ("E0801", "show a = horizon(level, along = free)", "declare it with two indices"),
        ("E0801", "show a = slice(level, over = [twice, y], along = free)", "no part of the model's state"),
        ("E0801", "show a = expansion(state = [x], next = [wide], along = free)", "the same axes"),
        ("E0801", "show a = crossings(over = [x, wide], normal = [x, wide], by = level, along = free)", "conjugate coordinates"),
        ("E0801", "e = sq(z[i+k].q - z[i].q) for i in 0..2, k in 1..3", "name them, the decision first"),
        ("E0801", "e = gamma", "read it at a step"),
        ("E0304", "e[1] = z[1].q", "write `e[t] = ..`"),
    ];
    for (code, declared, words) in cases {
        let checked = check(declared);
        let codes: Vec<&str> = checked.diagnostics.iter().map(|d| d.code.id()).collect();
        assert_eq!(codes, [code], "{declared}: {:?}", checked.diagnostics);
        let told = wmc_dsl::diagnostics::render(&checked.sources, &checked.diagnostics[0], false);
        assert!(told.contains(words) && told.contains("mine.wm:"), "{declared}\n{told}");
    }
}

/// `probe` and `show` are words of the language only where a name and `=` follow them.
#[test]
fn the_words_stay_usable() {
    let checked = check("probe = norm(z[t].q), show = 2 * norm(z[t].q)  show both = correlation(probe, show, along = free)");
    assert!(checked.diagnostics.is_empty(), "{:?}", checked.diagnostics);
}

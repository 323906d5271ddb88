//! What the grammar would have taken, in words. No rule's own name is ever shown.

use super::Rule;

/// A few words for the rules that the parser tried at the place where it stopped.
pub(super) fn expected(rules: &[Rule]) -> Vec<&'static str> {
    let mut words: Vec<(Rank, &'static str)> = rules.iter().filter_map(|rule| word(*rule)).collect();
    words.sort_unstable();
    words.dedup();
    // An equation starts with a name, and some declarations have the words of items.
    let has = |wanted: &[&str]| words.iter().any(|(_, word)| wanted.contains(word));
    let (declaration, start) = (has(&["a declaration"]), has(&["a declaration", "a statement", "an equation"]));
    let statement = has(&["a statement"]);
    words.retain(|(_, word)| {
        !(start && *word == "a name" || declaration && word.starts_with("an item") || statement && *word == "a declaration")
    });
    // The end of a body is as good as another statement.
    for (rank, word) in &mut words {
        if start && *word == "`}`" {
            *rank = Rank::Possible;
        }
    }
    words.sort_unstable();
    // After a value nearly anything may follow; what must follow says more than what may.
    let best = words.first().map(|(rank, _)| *rank);
    words.retain(|(rank, _)| Some(*rank) == best);
    words.into_iter().map(|(_, word)| word).collect()
}

/// `a, b or c`.
pub(super) fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_string(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}

/// How much a word helps; only the best are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It must stand here, or one of a few others.
    Needed,
    /// Something of the kind may stand here.
    Possible,
    /// It would only make the expression longer.
    Longer,
    /// The text might as well end here.
    End,
}

fn word(rule: Rule) -> Option<(Rank, &'static str)> {
    use Rank::{End, Longer, Needed, Possible};
    use Rule::*;
    Some(match rule {
        EOI => (End, "the end of the text"),
        WHITESPACE | COMMENT | w | keyword => return None,
        file | only_item | item | use_decl | model | block | function | dist | planner_def | optimizer_def | tasks | kw_use
        | kw_model | kw_block | kw_fn | kw_dist => (Possible, "an item (`model`, `block`, `fn`, `dist`, `use`, ..)"),
        only_member | member | input | action | dims | consts | latent | schedule | memory | net | head | param | slow
        | running | source | loss | metric | record | planner | act | optimizer | train | evaluate | diagnose | tasks_use
        | drop | kw_input | kw_action | kw_dim | kw_const | kw_latent | kw_schedule | kw_memory | kw_net | kw_head | kw_param
        | kw_slow | kw_running | kw_source | kw_loss | kw_metric | kw_planner | kw_act | kw_optimizer | kw_train
        | kw_evaluate | kw_diagnose | kw_tasks | kw_drop | kw_record => (Possible, "a declaration"),
        only_model_head | model_head => (Needed, "`model NAME`"),
        kw_extends => (Needed, "`extends`"),
        equation | place | init => (Possible, "an equation"),
        clause | with_init | for_range | where_cond | reset_on => (Possible, "a clause (`with`, `for`, `where`, `reset`)"),
        kw_with => (Needed, "`with`"),
        kw_for => (Needed, "`for`"),
        kw_where => (Needed, "`where`"),
        kw_reset => (Needed, "`reset`"),
        kw_in => (Needed, "`in`"),
        kw_over => (Needed, "`over`"),
        kw_via => (Needed, "`via`"),
        kw_warmup | warmup => (Needed, "`warmup`"),
        kw_on => (Needed, "`on`"),
        kw_except => (Possible, "`except`"),
        kw_scale => (Possible, "`scale`"),
        kw_init => (Needed, "`init`"),
        kw_carry | carries | planner_carry => (Needed, "`carry`"),
        carry => (Needed, "a carry such as `h: [D] = zeros([D])`"),
        kw_slot | slots => (Needed, "`slot`"),
        kw_of => (Needed, "`of`"),
        kw_let | kw_next | kw_return | kw_stack | kw_require | let_stmt | next_stmt | return_stmt | stack_stmt | require_stmt
        | stmt | assign => (Possible, "a statement"),
        kw_if | conditional => (Needed, "`if`"),
        kw_else => (Needed, "`else`"),
        kw_rollout | rollout => (Needed, "`rollout`"),
        body => (Needed, "a body in `{ }`"),
        params => (Needed, "parameters in `( )`"),
        param_decl => (Needed, "a parameter"),
        arg | renaming => (Needed, "an argument"),
        typed => (Needed, "a name with its shape, as in `q: [Q]`"),
        ty | shape | axis => (Needed, "a shape such as `[Q, A]`"),
        rest => (Possible, "`..`"),
        out_type | fields => (Needed, "an output: a shape, a latent or a distribution"),
        bind => (Needed, "a setting `name = value`"),
        settings => (Needed, "settings in `{ }`"),
        part => (Needed, "a named part"),
        call | callee | task => (Needed, "a call"),
        source_call => (Needed, "a source (`replay(..)` or `rollout(..)`)"),
        ensemble => (Possible, "an ensemble's axis"),
        drop_kind => (Needed, "what to drop (`net`, `loss`, `fn`, ..)"),
        label | name => (Needed, "a name"),
        number => (Needed, "a number"),
        percent => (Needed, "a percentage"),
        string => (Needed, "a text in quotes"),
        weight => (Needed, "a weight such as `1.0`"),
        iter => (Needed, "an index with its range, as in `k in 0..K`"),
        domain | bound_range | range => (Needed, "a range such as `0..T`"),
        bound | bound_prod | bound_unary | bound_post | bound_atom | expr | and | cmp | sum | prod | unary | power | postfix
        | primary | list | list_item | record_lit | rec_item | fields_of | fold | next_ref | callee_word | op_not => {
            (Needed, "an expression")
        }
        args => (Longer, "arguments in `( )`"),
        index | field | update | arrow => (Longer, "an operator"),
        eq | op_eq => (Needed, "`=`"),
        op_draw => (Needed, "`~`"),
        comma => (Needed, "`,`"),
        colon => (Needed, "`:`"),
        to => (Needed, "`->`"),
        lparen => (Needed, "`(`"),
        rparen => (Needed, "`)`"),
        lbracket => (Needed, "`[`"),
        rbracket => (Needed, "`]`"),
        lbrace => (Needed, "`{`"),
        rbrace => (Needed, "`}`"),
        op_or | op_and | op_cmp | op_add | op_sub | op_mul | op_div | op_dot | op_pow | op_range | op_range_eq => {
            (Longer, "an operator")
        }
    })
}

//! Files, namespaces and inheritance: from parsed files to flat models.
//!
//! Every file has a namespace: its own items and those that `use` brings in. The prelude is a namespace of its own,
//! behind all others. A model that `extends` another is flattened: the parent's members, less what is dropped, with
//! what is declared again replaced in place.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{self, Bind, Item, Member, MemberKind};
use crate::diagnostics::{Code, Diagnostic};
use crate::source::{FileId, Sources, Span};
use crate::{LoadError, Loader, parse, prelude};

/// The most files that one model may be spread over.
const MAX_FILES: usize = 256;

/// The most models that one model may inherit through.
const MAX_EXTENDS: usize = 64;

/// Where an item stands: file and place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ItemRef {
    pub file: usize,
    pub item: usize,
}

type Namespace = BTreeMap<String, ItemRef>;

#[derive(Debug, Default)]
pub(crate) struct Program {
    /// By [`FileId`]; empty for files of the prelude, whose items are parsed when they are wanted.
    pub files: Vec<ast::File>,
    /// By [`FileId`]; empty for files of the prelude.
    pub namespaces: Vec<Namespace>,
}

impl Program {
    /// The item of a name in a file: the file's own, then the prelude's.
    pub(crate) fn find(&self, file: FileId, name: &str) -> Option<&Item> {
        match self.namespaces.get(file.0 as usize).and_then(|n| n.get(name)) {
            Some(place) => Some(&self.files[place.file].items[place.item]),
            None => prelude::find(name),
        }
    }

    /// All names that a file can see.
    pub(crate) fn names(&self, file: FileId) -> impl Iterator<Item = &str> {
        let own = self.namespaces.get(file.0 as usize).into_iter().flat_map(|n| n.keys());
        own.map(String::as_str).chain(prelude::names().map(|name| name as &str))
    }
}

pub(crate) fn name_of(item: &Item) -> Option<&ast::Ident> {
    match item {
        Item::Use(_) => None,
        Item::Model(x) => Some(&x.name),
        Item::Block(x) => Some(&x.name),
        Item::Fn(x) => Some(&x.name),
        Item::Dist(x) => Some(&x.name),
        Item::Planner(x) => Some(&x.name),
        Item::Optimizer(x) => Some(&x.name),
        Item::Tasks(x) => Some(&x.name),
    }
}

fn kind_of(item: &Item) -> &'static str {
    match item {
        Item::Use(_) => "a `use`",
        Item::Model(_) => "a model",
        Item::Block(_) => "a block",
        Item::Fn(_) => "a function",
        Item::Dist(_) => "a distribution",
        Item::Planner(_) => "a planner",
        Item::Optimizer(_) => "an optimiser",
        Item::Tasks(_) => "a list of tasks",
    }
}

/// Reads a text and everything it uses. The id of the text itself comes back with the program.
pub(crate) fn load(
    name: &str,
    text: &str,
    loader: &dyn Loader,
    sources: &mut Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> (Program, FileId) {
    let mut program = Program::default();
    for (name, text) in prelude::FILES {
        sources.add(name, text, true);
        program.files.push(ast::File::default());
        program.namespaces.push(Namespace::new());
    }
    // The text itself may be asked for by what it uses: a circle.
    let file_name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let open = file_name.strip_suffix(".wm").map(|module| (module.to_string(), None)).into_iter().collect();
    let mut files = Files { loader, sources, diagnostics, program, modules: BTreeMap::new(), open };
    let id = files.add(name, text);
    (files.program, id)
}

struct Files<'a> {
    loader: &'a dyn Loader,
    sources: &'a mut Sources,
    diagnostics: &'a mut Vec<Diagnostic>,
    program: Program,
    modules: BTreeMap<String, FileId>,
    /// Modules being read, with the `use` that asked for them; the first is the text itself.
    open: Vec<(String, Option<Span>)>,
}

impl Files<'_> {
    fn add(&mut self, name: &str, text: &str) -> FileId {
        let id = self.sources.add(name, text, false);
        let (tree, found) = parse::parse(id, text);
        self.diagnostics.extend(found);
        let file = id.0 as usize;
        let mut namespace = Namespace::new();
        for (item, node) in tree.items.iter().enumerate() {
            let Some(name) = name_of(node) else { continue };
            if let Some(first) = namespace.insert(name.text.clone(), ItemRef { file, item }) {
                let before = name_of(&tree.items[first.item]).map_or(name.span, |n| n.span);
                self.diagnostics.push(
                    Diagnostic::new(Code::DuplicateItem, name.span, format!("`{}` is defined twice", name.text))
                        .label(before, "defined here first")
                        .help("rename one of them"),
                );
            }
        }
        let uses: Vec<ast::Use> =
            tree.items.iter().filter_map(|i| if let Item::Use(u) = i { Some(u.clone()) } else { None }).collect();
        self.program.files.push(tree);
        self.program.namespaces.push(namespace);
        for u in uses {
            self.import(file, &u);
        }
        id
    }

    fn import(&mut self, file: usize, u: &ast::Use) {
        let module = &u.path[0];
        let Some(other) = self.module(module, u.span) else { return };
        let theirs = self.program.namespaces[other.0 as usize].clone();
        match u.path.get(1..) {
            Some([]) | None => {
                for (name, place) in theirs {
                    // What a file brings in itself is not handed on.
                    if place.file == other.0 as usize {
                        self.program.namespaces[file].entry(name).or_insert(place);
                    }
                }
            }
            Some([item]) => match theirs.get(&item.text) {
                Some(place) => {
                    let place = *place;
                    if let Some(mine) = self.program.namespaces[file].insert(item.text.clone(), place)
                        && mine != place
                    {
                        self.diagnostics.push(
                            Diagnostic::new(
                                Code::DuplicateItem,
                                item.span,
                                format!("`{}` is defined in this file already", item.text),
                            )
                            .help("rename one of them, or leave out the `use`"),
                        );
                    }
                }
                None => self.diagnostics.push(
                    Diagnostic::new(Code::NoSuchItem, item.span, format!("`{}` has no item `{}`", module.text, item.text))
                        .suggest(&item.text, theirs.keys().map(String::as_str))
                        .note(format!("it has: {}", list(theirs.keys()))),
                ),
            },
            Some([_, deeper, ..]) => self.diagnostics.push(
                Diagnostic::new(Code::NoSuchItem, deeper.span, "a path has a file and an item, and nothing deeper")
                    .help(format!("write `use {}::{}`", module.text, u.path[1].text)),
            ),
        }
    }

    fn module(&mut self, module: &ast::Ident, span: Span) -> Option<FileId> {
        if let Some((_, first)) = self.open.iter().find(|(name, _)| *name == module.text) {
            let circle: Vec<&str> = self.open.iter().map(|(n, _)| n.as_str()).skip_while(|n| *n != module.text).collect();
            let shown = format!("{} -> {}", circle.join(" -> "), module.text);
            let d = Diagnostic::new(Code::ImportCycle, span, format!("`{}` is being read already", module.text))
                .note(format!("the circle is {shown}"))
                .help("move what both files need into a third");
            self.diagnostics.push(match first {
                Some(first) => d.label(*first, "asked for here first"),
                None => d,
            });
            return None;
        }
        if let Some(id) = self.modules.get(&module.text) {
            return Some(*id);
        }
        if self.sources.files.len() >= MAX_FILES {
            self.diagnostics.push(Diagnostic::new(
                Code::TooLarge,
                span,
                format!("this model is spread over more than {MAX_FILES} files"),
            ));
            return None;
        }
        let loaded = match self.loader.load(&module.text) {
            Ok(loaded) => loaded,
            Err(error) => {
                self.diagnostics.push(load_error(&error, module));
                return None;
            }
        };
        self.open.push((module.text.clone(), Some(span)));
        let id = stacker::maybe_grow(256 << 10, 4 << 20, || self.add(&loaded.name, &loaded.text));
        self.open.pop();
        self.modules.insert(module.text.clone(), id);
        Some(id)
    }
}

fn load_error(error: &LoadError, module: &ast::Ident) -> Diagnostic {
    let name = &module.text;
    match error {
        LoadError::NotFound { known } => {
            let d = Diagnostic::new(Code::ImportNotFound, module.span, format!("there is no file `{name}.wm`"))
                .suggest(name, known.iter().map(String::as_str));
            if known.is_empty() {
                d.help("`use` looks in the folder of the model and in `--root` folders")
            } else {
                d.note(format!("there are: {}", list(known)))
            }
        }
        LoadError::Outside { path } => {
            Diagnostic::new(Code::ImportOutside, module.span, format!("`{name}` lies outside the given folders"))
                .note(format!("it is really `{path}`"))
                .help("copy the file, or name its folder with `--root`")
        }
        LoadError::Unreadable { path, reason } => {
            Diagnostic::new(Code::ImportNotFound, module.span, format!("`{path}` cannot be read")).note(reason.clone())
        }
        LoadError::NotUtf8 { path, valid_up_to } => {
            Diagnostic::new(Code::NotUtf8, module.span, format!("`{path}` is not UTF-8 text"))
                .note(format!("the first byte that is not text stands at offset {valid_up_to}"))
                .help("save the file as UTF-8")
        }
    }
}

fn list<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<String> = names.into_iter().map(|n| format!("`{}`", n.as_ref())).collect();
    if names.is_empty() { "nothing".to_string() } else { names.join(", ") }
}

/// A model with all it inherits. Members that hold several declarations (`dim Q = 8, C = 32`) are split.
#[derive(Debug, Clone)]
pub(crate) struct Flat {
    pub name: ast::Ident,
    pub members: Vec<Member>,
    /// The model's own text: members from elsewhere are inherited.
    pub span: Span,
    /// What bringing them together took: members, once for every model that they came through.
    pub inherited: usize,
}

impl Flat {
    /// Whether something stands in the text of the model itself.
    pub(crate) fn owns(&self, span: Span) -> bool {
        self.span.contains(span)
    }
}

/// Flattens a model of a file. `None` after an error that leaves nothing to check.
pub(crate) fn flatten(program: &Program, file: FileId, model: &ast::Model, diagnostics: &mut Vec<Diagnostic>) -> Option<Flat> {
    let mut inherited = 0;
    let members = inherit(program, file, model, &mut Vec::new(), &mut inherited, diagnostics)?;
    Some(Flat { name: model.name.clone(), members, span: model.span, inherited })
}

fn inherit<'a>(
    program: &'a Program,
    file: FileId,
    model: &'a ast::Model,
    chain: &mut Vec<&'a ast::Ident>,
    inherited: &mut usize,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<Member>> {
    if let Some(first) = chain.iter().position(|name| name.span == model.name.span) {
        // Told of the circle and not of the model that led to it: from the first of them in the text.
        let circle = &mut chain[first..];
        let start = (0..circle.len()).min_by_key(|i| circle[*i].span).unwrap_or(0);
        circle.rotate_left(start);
        let names: Vec<String> = circle.iter().chain(&circle[..1]).map(|name| format!("`{}`", name.text)).collect();
        diagnostics.push(
            Diagnostic::new(Code::ExtendsCycle, circle[0].span, names.join(" extends "))
                .help("one of the models must stand on its own"),
        );
        return None;
    }
    if let Some(first) = chain.first().filter(|_| chain.len() > MAX_EXTENDS) {
        diagnostics.push(
            Diagnostic::new(
                Code::TooLarge,
                first.span,
                format!("`{}` inherits through more than {MAX_EXTENDS} models", first.text),
            )
            .help("let it extend an earlier one of them"),
        );
        return None;
    }
    chain.push(&model.name);
    let mut members = Vec::new();
    if let Some(parent) = &model.extends {
        match program.find(file, &parent.text) {
            Some(Item::Model(base)) => {
                members = inherit(program, base.span.file, base, chain, inherited, diagnostics)?;
            }
            other => {
                let models = program.names(file).filter(|n| matches!(program.find(file, n), Some(Item::Model(_))));
                let mut d = Diagnostic::new(Code::UnknownParent, parent.span, format!("there is no model `{}`", parent.text))
                    .suggest(&parent.text, models);
                if other.is_some() {
                    d = d.note(format!("`{}` is {}, not a model", parent.text, other.map_or("nothing", kind_of)));
                } else if d.helps.is_empty() {
                    d = d.help(format!("bring it in with `use FILE::{}`", parent.text));
                }
                diagnostics.push(d);
                return None;
            }
        }
    }
    *inherited += members.len() + model.members.len();
    let mut alive: Vec<bool> = vec![true; members.len()];
    // Where a parent's member stands, a child's takes its place, so that the order of the text stays.
    let mut replaced: BTreeMap<usize, Vec<Member>> = BTreeMap::new();
    let mut added = Vec::new();
    let mut keys: BTreeMap<(&'static str, String), Vec<usize>> = BTreeMap::new();
    for (i, m) in members.iter().enumerate() {
        keys.entry(key(m)).or_default().push(i);
    }
    let own: Vec<Member> = model.members.iter().cloned().flat_map(split).collect();
    for member in own {
        if let MemberKind::Drop { kind, names } = &member.kind {
            for name in names {
                let gone = keys.get(&(drop_key(&kind.text), name.text.clone())).cloned().unwrap_or_default();
                let gone: Vec<usize> = gone.into_iter().filter(|i| drop_matches(&kind.text, &members[*i]) && alive[*i]).collect();
                if gone.is_empty() {
                    let known: Vec<String> = keys
                        .iter()
                        .filter(|((k, _), is)| {
                            *k == drop_key(&kind.text) && is.iter().any(|i| drop_matches(&kind.text, &members[*i]))
                        })
                        .map(|((_, n), _)| n.clone())
                        .collect();
                    let d = Diagnostic::new(
                        Code::NothingToDrop,
                        name.span,
                        format!("there is no {} `{}` to drop", kind.text, name.text),
                    );
                    // The right name of another kind, or a slip of the hand.
                    let other = keys.get(&(drop_key(&kind.text), name.text.clone()));
                    let other = other.or_else(|| keys.iter().find(|((_, n), _)| *n == name.text).map(|(_, is)| is));
                    let other = other.and_then(|is| is.first());
                    diagnostics.push(match other.map(|i| drop_word(&members[*i])) {
                        Some(word) if word != kind.text => d.help(format!("did you mean `drop {word} {}`?", name.text)),
                        _ if model.members.iter().any(|m| key(m).1 == name.text) => {
                            d.help("the model declares it itself: leave it out there")
                        }
                        _ => d.suggest(&name.text, known.iter().map(String::as_str)),
                    });
                }
                for i in gone {
                    alive[i] = false;
                }
            }
            continue;
        }
        match keys.get(&key(&member)).and_then(|is| is.first()) {
            Some(&at) => replaced.entry(at).or_default().push(member),
            None => added.push(member),
        }
    }
    let mut result = Vec::with_capacity(members.len() + added.len());
    let mut taken: BTreeSet<(&'static str, String)> = BTreeSet::new();
    for (i, member) in members.into_iter().enumerate() {
        if let Some(new) = replaced.remove(&i) {
            taken.insert(key(&member));
            result.extend(new.into_iter().map(|m| merge(&member, m)));
        } else if alive[i] && !taken.contains(&key(&member)) {
            result.push(member);
        }
    }
    result.extend(added);
    chain.pop();
    Some(result)
}

/// `train` and `evaluate` are changed setting by setting; everything else is replaced whole.
fn merge(parent: &Member, child: Member) -> Member {
    fn binds(parent: &[Bind], child: Vec<Bind>) -> Vec<Bind> {
        let mut all: Vec<Bind> = parent.iter().filter(|p| !child.iter().any(|c| c.name.text == p.name.text)).cloned().collect();
        all.extend(child);
        all
    }
    let span = child.span;
    let kind = match (&parent.kind, child.kind) {
        (MemberKind::Train(p), MemberKind::Train(c)) => MemberKind::Train(binds(p, c)),
        (MemberKind::Evaluate(p), MemberKind::Evaluate(c)) => MemberKind::Evaluate(binds(p, c)),
        (_, kind) => kind,
    };
    Member { kind, span }
}

/// The key of a member: its kind and name. Members of one key replace each other.
fn key(member: &Member) -> (&'static str, String) {
    let named = |kind, name: &ast::Ident| (kind, name.text.clone());
    match &member.kind {
        MemberKind::Input(x) => named("input", &x[0].name),
        MemberKind::Action { .. } => ("action", String::new()),
        MemberKind::Dims(x) => named("dim", &x[0].name),
        MemberKind::Consts(x) => named("const", &x[0].name),
        MemberKind::Latent { name, .. } => named("latent", name),
        MemberKind::Schedule(x) => named("schedule", &x.name),
        MemberKind::Memory(x) => named("memory", &x.name),
        MemberKind::Net(x) => named("net", &x.name),
        MemberKind::Param { decl, .. } => named("param", &decl.name),
        MemberKind::Slow { nets, .. } => named("slow", &nets[0]),
        MemberKind::Running { name, .. } => named("running", name),
        MemberKind::Fn(x) => named("fn", &x.name),
        MemberKind::Source { .. } => ("source", String::new()),
        MemberKind::Loss(x) => named("loss", &x.name),
        MemberKind::Metric(x) => named("metric", &x.place.name),
        MemberKind::Record(x) => named("equation", &x.place.name),
        MemberKind::Planner(x) => named("planner", &x.name),
        MemberKind::Act(_) => ("act", String::new()),
        MemberKind::Optimizer(x) => named("optimizer", &x.name),
        MemberKind::Train(_) => ("train", String::new()),
        MemberKind::Evaluate(_) => ("evaluate", String::new()),
        MemberKind::Diagnose(_) => ("diagnose", String::new()),
        MemberKind::Tasks(_) | MemberKind::TasksUse(_) => ("tasks", String::new()),
        MemberKind::Drop { .. } => ("drop", String::new()),
        MemberKind::Equation(x) => named("equation", &x.place.name),
    }
}

fn drop_key(kind: &str) -> &'static str {
    match kind {
        "net" | "head" => "net",
        "loss" => "loss",
        "metric" => "metric",
        "fn" => "fn",
        "equation" | "record" => "equation",
        "param" => "param",
        "memory" => "memory",
        "latent" => "latent",
        "running" => "running",
        "schedule" => "schedule",
        "const" => "const",
        "dim" => "dim",
        "planner" => "planner",
        "optimizer" => "optimizer",
        "slow" => "slow",
        "input" => "input",
        // Singletons have no name of their own.
        _ => "",
    }
}

/// The word that drops a member.
fn drop_word(member: &Member) -> &'static str {
    match &member.kind {
        MemberKind::Net(net) if net.head => "head",
        MemberKind::Record(_) => "record",
        _ => key(member).0,
    }
}

fn drop_matches(kind: &str, member: &Member) -> bool {
    match &member.kind {
        MemberKind::Net(net) => (kind == "head") == net.head,
        MemberKind::Record(_) => kind == "record",
        MemberKind::Equation(_) => kind == "equation",
        _ => true,
    }
}

/// One member for each declaration.
fn split(member: Member) -> Vec<Member> {
    let span = member.span;
    let one = |kind| Member { kind, span };
    match member.kind {
        MemberKind::Input(xs) => xs.into_iter().map(|x| one(MemberKind::Input(vec![x]))).collect(),
        MemberKind::Dims(xs) => xs.into_iter().map(|x| one(MemberKind::Dims(vec![x]))).collect(),
        MemberKind::Consts(xs) => xs.into_iter().map(|x| one(MemberKind::Consts(vec![x]))).collect(),
        MemberKind::Slow { nets, setting } => {
            nets.into_iter().map(|n| one(MemberKind::Slow { nets: vec![n], setting: setting.clone() })).collect()
        }
        kind => vec![one(kind)],
    }
}

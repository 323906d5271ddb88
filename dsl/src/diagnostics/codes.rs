//! Every diagnostic the front end can give: its code, its name, and the page `wmc help CODE` prints.
//!
//! A page is a Markdown file under `explain/`: what the code means, then a block fenced as
//! ```` ```wm wrong ```` that gives it and one fenced as ```` ```wm right ```` that checks clean. Tests hold the
//! pages to that; `explain/README.md` says how they are written.

use super::Severity;

/// The model that the examples of the pages build on: what they `use tiny::Tiny` from.
pub const TINY: &str = include_str!("explain/tiny.wm");

/// A page of `wmc help`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub code: Code,
    pub page: &'static str,
}

/// A model text from a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    pub right: bool,
    pub text: String,
}

macro_rules! codes {
    ($($variant:ident $id:literal $severity:ident $title:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $(#[doc = $title] $variant,)* }

        /// All codes, in the order of their numbers.
        pub const CODES: &[Code] = &[$(Code::$variant,)*];

        impl Code {
            /// `E0203`.
            pub fn id(self) -> &'static str {
                match self { $(Code::$variant => $id,)* }
            }

            /// Its title, a few words.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }

            pub fn severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$severity,)* }
            }

            pub fn explanation(self) -> Explanation {
                match self { $(Code::$variant => Explanation { code: self, page: include_str!(concat!("explain/", $id, ".md")) },)* }
            }
        }
    };
}

codes! {
    // Reading the text.
    NotUtf8 "E0001" Error "a file that is not UTF-8",
    FileTooLarge "E0002" Error "a file that is too large",
    TooDeep "E0003" Error "nesting that is too deep",
    BadCharacter "E0004" Error "a character the language does not have",
    BadNumber "E0005" Error "a number that cannot be read",
    UnclosedString "E0006" Error "a text without its closing quote",
    // Syntax, files, inheritance.
    Syntax "E0101" Error "something else was expected",
    Unclosed "E0102" Error "a bracket that is never closed",
    StrayClosing "E0103" Error "a closing bracket without its opening one",
    ReservedWord "E0104" Error "a word of the language used as a name",
    DuplicateItem "E0105" Error "two items of one name",
    ImportNotFound "E0106" Error "a file that `use` cannot find",
    ImportCycle "E0107" Error "files that use each other in a circle",
    ImportOutside "E0108" Error "a file outside the given folders",
    NoSuchItem "E0109" Error "an item that the used file does not have",
    UnknownParent "E0110" Error "a model that extends an unknown one",
    ExtendsCycle "E0111" Error "models that extend each other in a circle",
    NothingToDrop "E0112" Error "a `drop` of something that is not there",
    NoModel "E0113" Error "a file without a model",
    // Names, axes, calls.
    UnknownName "E0201" Error "an unknown name",
    DuplicateName "E0202" Error "a name declared twice",
    AxesMismatch "E0203" Error "axes that do not line up",
    RepeatedAxis "E0204" Error "one axis twice in one value",
    UnknownAxis "E0205" Error "an unknown axis",
    SizeMismatch "E0206" Error "sizes that do not fit",
    UnknownField "E0207" Error "an unknown field",
    AmbiguousName "E0208" Error "a parameter that could be several things",
    WrongArguments "E0209" Error "arguments that do not fit the call",
    WrongKind "E0210" Error "a value of the wrong kind",
    NotCallable "E0211" Error "a call of something that is not a function",
    UnknownFold "E0212" Error "an unknown fold",
    UnboundSize "E0213" Error "a size that only a task gives",
    NotStatic "E0214" Error "a value that must be known when compiling",
    RequireFailed "E0215" Error "a requirement that does not hold",
    NothingShared "E0216" Error "a product over no shared axis",
    BareBlock "E0217" Error "a block called outside a net",
    OutputUnknown "E0218" Error "a block whose output shape is unknown",
    ParameterClash "E0219" Error "two parameters of one path",
    Recursion "E0220" Error "a function that calls itself",
    TooLarge "E0221" Error "a model that grows without bound",
    NoReturn "E0222" Error "a body that returns nothing",
    EnsembleIndex "E0223" Error "an ensemble used without its index",
    UnknownMethod "E0224" Error "a method the distribution does not have",
    NotADistribution "E0225" Error "a draw from something that is no distribution",
    OverMissing "E0226" Error "a call that must say over which axis",
    BatchAxis "E0227" Error "the batch as an axis",
    // Time.
    OutOfDomain "E0301" Error "a read outside a domain",
    EmptyDomain "E0302" Error "an equation that holds nowhere",
    UnknownIndex "E0303" Error "an index that nothing binds",
    NotAnIndex "E0304" Error "a subscript that is not an index",
    WrongIndexCount "E0305" Error "the wrong number of subscripts",
    DefinedTwice "E0306" Error "two equations for the same index",
    Unbounded "E0307" Error "an index without a range",
    NotPointwise "E0308" Error "a read of another step of an on-policy source",
    SelfReference "E0309" Error "a value that needs itself",
    TwoIndices "E0310" Error "a recurrence along two indices at once",
    BothDirections "E0311" Error "a recurrence in both directions",
    ActFixedStep "E0312" Error "acting on a fixed step",
    // Gradients.
    GradNotScalar "E0401" Error "the gradient of something that is not a scalar",
    GradStopped "E0402" Error "the gradient through a stop",
    GradIndependent "E0403" Error "the gradient by something it does not depend on",
    GradThroughScan "E0404" Error "the gradient through a recurrence",
    GradTarget "E0405" Error "the gradient by something that is not a variable",
    GradOtherPoints "E0406" Error "the gradient of a value that reads other samples or steps",
    // Losses, optimisers, settings.
    NotScalar "E0501" Error "a loss that is not a scalar",
    NoOptimizer "E0502" Error "a parameter without an optimiser",
    TwoOptimizers "E0503" Error "a parameter with two optimisers",
    UnknownOptimizer "E0504" Error "an unknown optimiser",
    ScheduleRange "E0505" Error "a schedule out of range",
    UnknownSetting "E0506" Error "an unknown setting",
    BadSetting "E0507" Error "a setting out of range",
    MissingSection "E0508" Error "a part that every model needs",
    NothingToTrain "E0509" Error "an optimiser on something without parameters",
    NotASchedule "E0510" Error "a schedule of something else than progress",
    FieldType "E0511" Error "a field of the data with the wrong type",
    FieldMissing "E0512" Error "a field that the task does not give",
    UnknownDim "E0513" Error "a size for a dim that does not exist",
    OptimizerCycle "E0514" Error "optimisers that wait for each other",
    // Planning and acting.
    NoScore "E0601" Error "a planner without a score",
    ScoreShape "E0602" Error "a score that is not one number",
    NoAction "E0603" Error "a planner that ignores its actions",
    NoGuess "E0604" Error "a planner that needs a guess",
    ActMissing "E0605" Error "an `act` without `train` or `eval`",
    ActShape "E0606" Error "an action of the wrong shape",
    ActFuture "E0607" Error "acting on what is not known yet",
    ActStatistic "E0608" Error "acting on a statistic of the batch",
    RecordReplay "E0609" Error "a record of a replay source",
    ActPlace "E0610" Error "acting on the place in a segment",
    // Cost.
    TooMuchMemory "E0701" Error "more memory than there is",
    TooMany "E0702" Error "a count out of range",
    SizeOverflow "E0703" Error "a size that cannot be counted",
    // Diagnostics.
    SeriesShape "E0801" Error "a series that does not fit",
    // Warnings.
    Unreached "W0301" Warning "parameters that no loss reaches",
    Unused "W0302" Warning "something declared and never used",
    TwoPaths "W0401" Warning "a gradient along two paths",
    FieldUnknown "W0501" Warning "a field that no task gives",
}

impl Example {
    /// The files of the example. The first is the one to check; a line `// ---- blocks.wm` starts another.
    pub fn files(&self) -> Vec<(String, String)> {
        let mut files = vec![("main.wm".to_string(), String::new())];
        for line in self.text.lines() {
            match line.strip_prefix("// ---- ").filter(|name| name.ends_with(".wm")) {
                Some(name) => files.push((name.to_string(), String::new())),
                None => {
                    if let Some((_, text)) = files.last_mut() {
                        text.push_str(line);
                        text.push('\n');
                    }
                }
            }
        }
        files
    }
}

impl Code {
    pub fn parse(id: &str) -> Option<Code> {
        CODES.iter().copied().find(|c| c.id().eq_ignore_ascii_case(id))
    }
}

impl Explanation {
    /// The model texts of the page, wrong ones and right ones.
    pub fn examples(&self) -> Vec<Example> {
        let mut examples = Vec::new();
        let mut current: Option<Example> = None;
        for line in self.page.lines() {
            match (&mut current, line.trim()) {
                (None, "```wm wrong") => current = Some(Example { right: false, text: String::new() }),
                (None, "```wm right") => current = Some(Example { right: true, text: String::new() }),
                (Some(_), "```") => examples.extend(current.take()),
                (Some(example), _) => {
                    example.text.push_str(line);
                    example.text.push('\n');
                }
                (None, _) => {}
            }
        }
        examples
    }
}

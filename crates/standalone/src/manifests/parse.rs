//! Parses the text of one file.
//!
//! In: text, and whether it is JSON. Out: the objects in it, or the line and the reason why it does not parse.
//!
//! One document that does not parse puts the whole file out: a half-written file must not count as half of its objects
//! deleted. One object that cannot be used puts out that object alone.
//!
//! YAML is read as version 1.2: `no` and `on` are text, as are numbers in quotes. `kubectl` reads version 1.1, in which
//! they are booleans; a label `country: no` is then refused by the cluster, and works here.

use serde::de::DeserializeSeed as _;
use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error as YamlError, MessageFormatter as _, UserMessageFormatter};

use super::documents::{self, Document};
use super::read::FILE_BYTES_MAX;
use super::select::Selection;
use super::value::{Allowance, TOO_MANY_ALIASES};

/// Maps and lists inside of each other. No field of an object that we read lies deeper than ten; and each level costs
/// stack.
const DEPTH_MAX: usize = 64;

/// What is said about more. JSON may be nested twice as deep, which is its parser's own limit.
const TOO_DEEP: &str = "is nested deeper than any manifest: remove the inner part";

/// What aliases may copy in one file. Manifests that use them at all name a set of labels once or twice.
const ALIASED_EVENTS_MAX: usize = 50_000;

/// What aliases may copy in each document of a file, however many documents it has.
const ALIASED_EVENTS_MIN: usize = 250;

/// The languages of manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Yaml,
    Json,
}

/// Why a file does not parse.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Where, counted from 1; 0 for the whole file.
    pub(super) line: usize,
    /// Why, and what helps.
    pub(super) reason: String,
}

impl Failure {
    /// The objection, where there is one, is the better reason: the parser only passed it on.
    fn because(self, objection: Option<&str>) -> Self {
        Self { reason: objection.map_or(self.reason, str::to_owned), ..self }
    }
}

/// The objects in a text.
pub(super) fn parse(text: &str, language: Language) -> Result<Selection, Failure> {
    let mut allowance = Allowance::of_file(text.len());
    let mut selection = Selection::default();
    let documents = documents_of(text, language)?;
    // The parser counts per document; thousands of them must not each have all of it.
    let aliased_max = (ALIASED_EVENTS_MAX / documents.len().max(1)).max(ALIASED_EVENTS_MIN);
    for document in documents {
        let value = match language {
            Language::Yaml => {
                let options = yaml_options(aliased_max, DuplicateKeyPolicy::Error);
                yaml(document, options, &mut allowance)?
            }
            Language::Json => json(document, &mut allowance)?,
        };
        selection.take(document.line, value);
    }
    Ok(selection.finish())
}

/// The one document of a text in YAML, which may be JSON too, and the keys that stand twice in it.
pub(super) fn parse_one(text: &str) -> Result<(Value, Vec<String>), Failure> {
    let mut allowance = Allowance::of_file(text.len()).noting_twice();
    let mut values = Vec::new();
    for document in documents::yaml(text) {
        let options = yaml_options(ALIASED_EVENTS_MAX, DuplicateKeyPolicy::LastWins);
        values.push((document.line, yaml(document, options, &mut allowance)?));
    }
    let mut values = values.into_iter().filter(|(_, value)| !value.is_null());
    match (values.next(), values.next()) {
        (None, _) => Err(Failure { line: 0, reason: "is empty".into() }),
        (Some((_, value)), None) => Ok((value, allowance.into_twice())),
        (Some(_), Some((line, _))) => {
            Err(Failure { line, reason: "holds a second document: leave one".into() })
        }
    }
}

fn documents_of(text: &str, language: Language) -> Result<Vec<Document<'_>>, Failure> {
    match language {
        Language::Yaml => Ok(documents::yaml(text)),
        Language::Json => documents::json(text).map_err(|error| json_failure(1, &error)),
    }
}

fn json(document: Document<'_>, allowance: &mut Allowance) -> Result<Value, Failure> {
    let mut deserializer = serde_json::Deserializer::from_str(document.text);
    let value = allowance.deserialize(&mut deserializer);
    value.map_err(|error| json_failure(document.line_first, &error).because(allowance.objection()))
}

fn json_failure(line_first: usize, error: &serde_json::Error) -> Failure {
    let whole = error.to_string();
    // The line that it names is counted from the start of the document.
    let reason = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(reason, _)| reason);
    Failure { line: line_first + error.line().saturating_sub(1), reason: passed_on("JSON", reason) }
}

fn yaml(
    document: Document<'_>,
    options: serde_saphyr::Options,
    allowance: &mut Allowance,
) -> Result<Value, Failure> {
    let value =
        serde_saphyr::with_deserializer_from_str_with_options(document.text, options, |deserializer| {
            allowance.deserialize(deserializer)
        });
    value.map_err(|error| yaml_failure(document, &error).because(allowance.objection()))
}

fn yaml_options(aliased_max: usize, duplicate_keys: DuplicateKeyPolicy) -> serde_saphyr::Options {
    let bytes_max = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            // Counted by the allowance, over all documents.
            max_nodes: usize::MAX,
            max_events: usize::MAX,
            max_total_scalar_bytes: bytes_max,
            max_aliases: aliased_max,
            max_anchors: aliased_max,
            max_recorded_anchor_events: aliased_max,
            max_recorded_anchor_bytes: bytes_max / 4,
            // What aliases cost is bounded; how often one name is used is the author's business.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: aliased_max,
            max_replay_stack_depth: DEPTH_MAX,
        },
        duplicate_keys: duplicate_keys,
        emit_comments: false,
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}

fn yaml_failure(document: Document<'_>, error: &YamlError) -> Failure {
    let line = error.location().and_then(|location| usize::try_from(location.line()).ok());
    let line = line.map_or(document.line, |line| document.line_first + line.saturating_sub(1));
    Failure { line, reason: yaml_reason(error) }
}

fn yaml_reason(error: &YamlError) -> String {
    match innermost(error) {
        YamlError::Budget { breach, .. } => breach_reason(breach),
        YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasReplayStackDepthExceeded { .. }
        | YamlError::AliasReplayCounterOverflow { .. } => TOO_MANY_ALIASES.into(),
        error => passed_on("YAML", &UserMessageFormatter.format_message(error)),
    }
}

/// The error itself, without the place where an alias named what holds it.
fn innermost(mut error: &YamlError) -> &YamlError {
    while let YamlError::AliasError { error: inner, .. } | YamlError::WithSnippet { error: inner, .. } = error
    {
        error = inner;
    }
    error
}

fn breach_reason(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Depth { .. } => TOO_DEEP.into(),
        BudgetBreach::Aliases { .. }
        | BudgetBreach::Anchors { .. }
        | BudgetBreach::MergeKeys { .. }
        | BudgetBreach::RecordedAnchorEvents { .. }
        | BudgetBreach::RecordedAnchorBytes { .. } => TOO_MANY_ALIASES.into(),
        other => format!("is more than is read of one file ({other:?}): split it into several files"),
    }
}

/// What a parser says, passed on to people. Both parsers have a limit of their own for nesting, and the same words.
fn passed_on(language: &str, message: &str) -> String {
    match message {
        "recursion limit exceeded" => TOO_DEEP.into(),
        message => format!("is not {language}: {}", clean(message)),
    }
}

/// A parser's message, on one line and of bounded length: it may quote what it read.
fn clean(message: &str) -> String {
    const LONGEST: usize = 300;
    let mut plain = message.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut clean: String = plain.by_ref().take(LONGEST).collect();
    if plain.next().is_some() {
        clean.push('…');
    }
    clean
}

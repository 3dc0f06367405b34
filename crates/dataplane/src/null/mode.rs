//! The mode as the rest of the program sees it.

use model::Promises;
use serde_json::{Value, json};

use super::{Null, leftover, lines};
use crate::Leaving;
use crate::leftovers::Leftovers;
use crate::mode::{Deployment, Mode, ModeSettings, ModeSpec, OpenError, OpenRequest, Opened, RenderRequest};
use crate::settings::{Commands, Field, Kind, Setting, Values};

/// The mode, as a value.
pub const MODE: Mode = Mode::new(&Spec);

pub(super) const NAME: &str = "null";

/// null.
#[derive(Debug)]
struct Spec;

const LABEL: &str = "null-label";

const SETTINGS: &[Setting] = &[Setting {
    flag: LABEL,
    kind: Kind::Text { value_name: "LABEL", parse: parse_label },
    help: "Mode null: what `portway status` shows of it",
    heading: None,
    commands: Commands::RULES,
    field: Some(Field {
        path: "nullMode.label",
        why: "mode null, which is for tests",
        is_better: true,
        must: Some("must be up to 16 lower-case letters"),
    }),
}];

fn parse_label(text: &str) -> Result<String, String> {
    let is_label = (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase());
    let refusal = || format!("`{}` is no label: it has 1 to 16 lower-case letters", text.escape_default());
    is_label.then(|| text.to_owned()).ok_or_else(refusal)
}

fn label(values: &Values) -> &str {
    values.text(LABEL).unwrap_or("none")
}

impl ModeSpec for Spec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "For tests: keeps the table in memory and writes no rule"
    }

    fn semantics(&self) -> Promises {
        Promises::default()
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Opened, OpenError> {
        let record = Some(leftover::record(request.run_dir));
        let dataplane = Box::new(Null { record, ..Null::default() });
        Ok(Opened { dataplane, drift: Vec::new(), program: None })
    }

    fn render(&self, request: &RenderRequest<'_>) -> String {
        let head = format!("# label {}\n", label(&request.settings.own));
        let lines = lines(request.table).into_iter().map(|line| line + "\n");
        [head].into_iter().chain(lines).collect()
    }

    fn leftovers(&self) -> Box<dyn Leftovers> {
        Box::new(leftover::Record)
    }

    fn has_status(&self) -> bool {
        true
    }

    fn status(&self, settings: &ModeSettings, _: Option<Leaving>) -> Option<Value> {
        Some(json!({ "label": label(&settings.own) }))
    }

    fn status_lines(&self, section: &Value) -> Vec<(&'static str, String)> {
        let label = section["label"].as_str().unwrap_or_default();
        vec![("Label", label.to_owned())]
    }

    fn values_of_status(&self, section: &Value) -> Values {
        let mut values = Values::default();
        if let Some(label) = section["label"].as_str() {
            values.set(LABEL, vec![label.to_owned()]);
        }
        values
    }

    fn counts_for_metrics(&self) -> bool {
        true
    }

    fn deployments(&self) -> &'static [Deployment] {
        &[]
    }

    fn simulate(&self, settings: &ModeSettings) -> Vec<Box<dyn crate::sim::SimulatedMode>> {
        super::sim::simulate(settings)
    }

    fn is_test_only(&self) -> bool {
        true
    }
}

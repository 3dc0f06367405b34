//! Flags, fields of the document, and feature gates: from the tables that the program itself walks.

use config::kubeproxy::{
    Change, Effect, FIELDS, FLAGS, Field, Flag, GATES, Gate, LEAKED, OBSOLETE_FIELDS, ObsoleteField, Purpose,
    Status,
};

use crate::markdown::table;

fn word(status: Status) -> &'static str {
    match status {
        Status::Same => "same",
        Status::Better => "better",
        Status::NotOffered => "not offered",
    }
}

/// A flag that sets fields compares as they do.
fn of_flag(flag: &Flag) -> Vec<String> {
    let (status, why) = flag.standing();
    let (sets, here) = match flag.purpose {
        Purpose::Sets(fields) => {
            (fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", "), word(status))
        }
        Purpose::Command => (String::new(), word(status)),
        Purpose::Obsolete => (String::new(), "obsolete: accepted with a warning"),
        Purpose::Own => (String::new(), "ours"),
    };
    vec![format!("`--{}`", flag.name), sets, here.to_owned(), why.to_owned()]
}

/// Those of libraries are one row.
fn of_leaked() -> Vec<String> {
    let names = LEAKED.iter().map(|flag| format!("`--{}`", flag.name)).collect::<Vec<_>>().join(", ");
    let here = "obsolete: accepted with a warning".to_owned();
    vec![names, String::new(), here, "they were never kube-proxy's: leave them out".to_owned()]
}

fn of_field(field: &Field) -> Vec<String> {
    let change = match field.change {
        Change::Live => "at once",
        Change::Restart => "after a restart",
    };
    vec![format!("`{}`", field.path), word(field.status).to_owned(), change.to_owned(), field.why.to_owned()]
}

fn of_obsolete(field: &ObsoleteField) -> Vec<String> {
    let here = "obsolete: a warning".to_owned();
    vec![format!("`{}`", field.path), here, String::new(), field.why.to_owned()]
}

fn of_gate(gate: &Gate) -> Vec<String> {
    let here = match gate.effect {
        Effect::Obeyed => "same",
        Effect::AlwaysOn => "better: always on",
        Effect::Nothing => "not offered",
    };
    vec![format!("`{}`", gate.name), here.to_owned(), gate.why.to_owned()]
}

pub(crate) fn section() -> String {
    let flags = table(&["flag", "sets", "here", "why"], FLAGS.iter().map(of_flag).chain([of_leaked()]));
    let fields = FIELDS
        .iter()
        .filter(|field| !field.is_test_only())
        .map(of_field)
        .chain(OBSOLETE_FIELDS.iter().map(of_obsolete));
    let fields = table(&["field", "here", "a change counts", "why"], fields);
    let gates = table(&["gate", "here", "why"], GATES.iter().map(of_gate));
    format!(
        "## Flags\n\nOf `kube-proxy` and `portway kube-proxy`. A flag that sets a field means what the field means.\n\n{flags}\n\
         ## Fields of `KubeProxyConfiguration`\n\n\
         Upstream ends when its file changes, and starts anew; here a change counts as the table says.\n\n{fields}\n\
         ## Feature gates\n\n{gates}"
    )
}

#[test]
fn a_field_of_a_mode_has_a_row_without_an_edit_here_and_one_of_a_mode_for_tests_is_not_published() {
    let of_null = Field::at("nullMode.label").expect("the mode null has it");
    assert_eq!(of_field(of_null)[..2], ["`nullMode.label`".to_owned(), "better".to_owned()]);
    assert!(of_null.is_test_only() && !section().contains("nullMode"));
}

#[test]
fn what_is_not_offered_says_why() {
    for field in FIELDS.iter().filter(|field| field.status != Status::Same) {
        assert!(!field.why.is_empty(), "{}", field.path);
    }
    for flag in FLAGS.iter().filter(|flag| flag.standing().0 != Status::Same) {
        assert!(!flag.standing().1.is_empty(), "--{}", flag.name);
    }
}

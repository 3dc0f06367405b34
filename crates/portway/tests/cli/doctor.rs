//! `portway doctor` with files, on whatever host the tests run.

use crate::harness::Place;

const NODES: &str = "\
apiVersion: v1
kind: Node
metadata: { name: somewhere }
status: { addresses: [{ type: InternalIP, address: 203.0.113.7 }] }
";

#[test]
fn a_name_that_no_node_has_is_told_with_the_names_that_there_are() {
    let place = Place::with(NODES);
    let said = place.portway("doctor --node-name nowhere").out;
    assert!(said.contains("possible: node-name"), "{said}");
    assert!(said.contains("`nowhere`, which is no Node (there are somewhere)"), "{said}");
    assert!(said.contains("ip-forward"), "every check is listed: {said}");
}

#[test]
fn programs_get_every_check_and_finding_as_json() {
    let place = Place::with(NODES);
    let outcome = place.portway("doctor --node-name nowhere -o json");
    let value = outcome.json();
    let status = |name: &str| {
        let checks = value["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).map(|check| check["status"].clone())
    };
    assert_eq!(status("node-name"), Some("possible".into()), "{value}");
    assert_eq!((status("ip-forward").is_some(), &value["mode"]), (true, &"nftables".into()), "{value}");
    let findings = value["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["check"] == "node-name").unwrap();
    assert!(found["fix"].as_str().unwrap().starts_with("--node-name"), "{found}");
    let userspace = place.portway("doctor --mode userspace -o json");
    assert!(!userspace.out.contains("ip-forward"), "nothing is forwarded there: {}", userspace.out);
}

#[test]
fn a_malformed_question_is_told_as_such() {
    Place::with(NODES).portway("doctor --mode nftable").ends_with(2);
    Place::with(NODES).portway("doctor -o csv").ends_with(2);
}

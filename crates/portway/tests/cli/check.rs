//! `portway check` and `portway render`.

use crate::harness::Place;

#[test]
fn the_examples_are_in_order() {
    let place = Place::new();
    let out = place.on_examples("check").fine();
    assert!(out.starts_with("All is in order: 10 Services, 18 Pods, 2 Nodes"), "{out}");
}

#[test]
fn checking_writes_nothing() {
    let place = Place::with_example("mysql.yaml");
    place.portway("check").fine();
    assert!(!place.state().exists(), "{} was made", place.state().display());
}

#[test]
fn every_problem_is_listed_under_its_file_or_object() {
    let place = Place::with_example("mysql.yaml");
    place.write("broken.yaml", "kind: Service\nmetadata: {name: [");
    place.write(
        "web.yaml",
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {sessionAffinity: Sometimes, ports: [{port: 99999}]}}",
    );
    let said = place.portway("check").ends_with(1);
    said.says(&[
        "manifests/broken.yaml\n",
        "Service default/web (manifests/web.yaml:1)\n",
        "  spec.ports[0].port `99999`: ",
        "  spec.sessionAffinity `Sometimes`: ",
        "3 problems: 1 with files, 2 with objects.",
    ]);
}

#[test]
fn modes_say_that_they_cannot_be_rendered_yet() {
    let place = Place::new();
    for mode in ["nftables", "iptables", "ipvs", "userspace"] {
        place
            .on_examples(&format!("render --mode {mode}"))
            .refused(1, &[&format!("mode `{mode}` cannot be rendered yet")]);
    }
    place
        .on_examples("render --mode nftable")
        .refused(2, &["unknown mode `nftable`: did you mean `nftables`?"]);
}

//! No object can make the model panic, and none can take the others down: arbitrary JSON goes in, a table comes out.

mod support;

use model::object::{self, Read};
use model::{Cluster, Event, ForwardingTable};
use serde_json::{Value, json};
use support::{Random, any_object, config, fact};

const CASES: usize = 120_000;

#[test]
fn arbitrary_objects_are_data() {
    let (mut facts, mut refused, mut reports) = (0, 0, 0);
    let mut r = Random::new(7);
    let mut cluster = Cluster::new(config(&mut r));
    let mut table = ForwardingTable::of(&cluster);
    for case in 0..CASES {
        let mut object = any_object(&mut r);
        for _ in 0..=r.below(4) {
            damage(&mut r, &mut object);
        }
        match object::read(&object) {
            Read::Fact(fact) => {
                facts += 1;
                let changed = cluster.apply(Event::Apply(fact));
                table.update(&cluster, &changed);
            }
            Read::Refused(report) => {
                refused += 1;
                assert!(!report.to_string().contains('\n'), "a report is one line: {report}");
            }
            Read::OtherKind => {}
        }
        if case % 1_000 == 0 {
            reports += cluster.reports().count() + table.reports().len();
            assert!(table == ForwardingTable::of(&cluster), "case {case}");
        }
    }
    assert!(
        facts > CASES / 3 && refused > 0 && reports > 0,
        "{facts} facts, {refused} refused, {reports} reports"
    );
    eprintln!("counted: {CASES} arbitrary objects, seed 7: {facts} read, {refused} refused by name");
}

#[test]
fn damage_to_one_object_does_not_reach_another() {
    let mut r = Random::new(8);
    for seed in 0..2_000 {
        let good = fact(&json!({
            "kind": "Service", "metadata": {"name": "good", "namespace": "safe", "creationTimestamp": "2001-01-01T00:00:00Z"},
            "spec": {"clusterIP": "10.96.9.9", "ports": [{"port": 80}]}}));
        let slice = fact(&json!({
            "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "good", "namespace": "safe", "labels": {"kubernetes.io/service-name": "good"}},
            "ports": [{"name": "", "port": 8080}], "endpoints": [{"addresses": ["10.244.9.9"]}]}));
        let mut cluster = Cluster::new(config(&mut r));
        cluster.apply(Event::Apply(good));
        cluster.apply(Event::Apply(slice));
        for _ in 0..5 {
            let mut object = any_object(&mut r);
            damage(&mut r, &mut object);
            if let Read::Fact(fact) = object::read(&object) {
                cluster.apply(Event::Apply(fact));
            }
        }
        let table = ForwardingTable::of(&cluster);
        let good = table.ports().find(|port| port.id().service.as_str() == "safe/good").expect("it is there");
        assert!(good.routes[0].inside.pool().is_some_and(|pool| pool.endpoints().len() == 1), "seed {seed}");
        assert!(good.reports().is_empty());
    }
}

/// Replaces a random part of `value` by something that does not belong there.
fn damage(r: &mut Random, value: &mut Value) {
    if r.one_in(25) {
        *value = strange(r);
        return;
    }
    match value {
        Value::Object(map) if !map.is_empty() => {
            let key = map.keys().nth(r.below(map.len())).expect("the index is below the length").clone();
            if key == "kind" && !r.one_in(20) {
                damage(r, value);
            } else if r.one_in(12) {
                map.remove(&key);
            } else {
                damage(r, &mut map[&key]);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = r.below(items.len());
            damage(r, &mut items[index]);
        }
        _ => *value = strange(r),
    }
}

fn strange(r: &mut Random) -> Value {
    match r.below(14) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(99_999_999_999_u64),
        4 => json!(1.5),
        5 => json!(""),
        6 => json!("Ünï\u{0}\u{1b}[31m\n\"' {}"),
        7 => json!("x".repeat(5_000)),
        8 => json!([]),
        9 => json!({}),
        10 => json!([[["deep"]], {"a": {"b": null}}, 3]),
        11 => json!({"name": {"name": ["name"]}, "ip": 3, "port": "http"}),
        12 => json!("999.1.1.1/99"),
        _ => json!("::ffff:127.0.0.1"),
    }
}

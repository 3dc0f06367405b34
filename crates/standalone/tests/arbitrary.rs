//! No object, however strange, makes us panic, and equal objects always give equal answers.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod common;

use common::*;
use serde_json::{Value, json};
use standalone::objects::{Change, Kind, ObjectKey};

const CASES: u64 = 5_000;

#[test]
fn no_object_makes_us_panic() {
    let mut dice = Dice(1);
    let folder = Folder::with_ranges(&["10.96.0.0/24", "fd00:96::/120"], &["192.0.2.0/28"]);
    let mut cluster = folder.open_dry();
    let mut events = 0;
    for case in 0..CASES {
        let mut object = templates()[dice.below(5)].clone();
        for _ in 0..=dice.below(4) {
            spoil(&mut object, &mut dice);
        }
        if !object["metadata"].is_object() {
            continue;
        }
        object["metadata"]["name"] = format!("o{}", dice.below(8)).into();
        let change = match ObjectKey::of(Kind::parse(object["kind"].as_str().unwrap()).unwrap(), &object) {
            Ok(key) if dice.below(8) == 0 => Change::Delete(key),
            Ok(_) => apply(object),
            Err(_) => continue,
        };
        events += cluster.apply(std::slice::from_ref(&change)).len();
        assert_eq!(cluster.apply(&[change]), [], "case {case}: the same again tells nothing new");
    }
    eprintln!("counted: {CASES} strange objects, {events} events");
}

fn templates() -> [Value; 5] {
    let service = json!({
        "kind": "Service",
        "metadata": { "name": "o", "labels": { "a": "b" }, "creationTimestamp": null },
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "PreferDualStack", "selector": { "app": "web" }, "externalTrafficPolicy": "Local",
            "loadBalancerIP": "192.0.2.3", "healthCheckNodePort": 30001, "trafficDistribution": "PreferClose",
            "ports": [
                { "name": "a", "port": 80, "targetPort": "http", "nodePort": 30002 },
                { "name": "b", "port": 53, "protocol": "UDP", "targetPort": 5353 }
            ]
        },
        "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.5", "ipMode": "VIP" }] } }
    });
    let pod = json!({
        "kind": "Pod",
        "metadata": { "name": "o", "labels": { "app": "web" }, "annotations": { "portway.io/weight": "3" } },
        "spec": {
            "nodeName": "o1",
            "containers": [{ "ports": [{ "name": "http", "containerPort": 8080 }] }],
            "initContainers": [{ "restartPolicy": "Always", "ports": [] }]
        },
        "status": {
            "phase": "Running", "podIP": "10.244.0.1", "podIPs": [{ "ip": "10.244.0.1" }, { "ip": "fd00::1" }],
            "conditions": [{ "type": "Ready", "status": "True" }]
        }
    });
    let node = json!({
        "kind": "Node", "metadata": { "name": "o", "labels": { "topology.kubernetes.io/zone": "z" } }
    });
    let range =
        json!({ "kind": "ServiceCIDR", "metadata": { "name": "o" }, "spec": { "cidrs": ["10.9.0.0/28"] } });
    [service.clone(), service, pod, node, range]
}

/// Puts something strange in some place, or takes the place away. The kind stays.
fn spoil(value: &mut Value, dice: &mut Dice) {
    let is_here = dice.below(5) == 0;
    match value {
        Value::Object(map) if !is_here && !map.is_empty() => {
            let key = map.keys().nth(dice.below(map.len())).cloned().unwrap();
            if key == "kind" {
                return;
            }
            if dice.below(8) == 0 {
                map.remove(&key);
            } else {
                spoil(&mut map[&key], dice);
            }
        }
        Value::Array(items) if !is_here && !items.is_empty() => {
            let at = dice.below(items.len());
            if dice.below(8) == 0 { items.push(items[at].clone()) } else { spoil(&mut items[at], dice) }
        }
        Value::Object(map) if map.contains_key("kind") || map.contains_key("name") => {}
        _ => *value = strange(dice),
    }
}

fn strange(dice: &mut Dice) -> Value {
    let values = [
        json!(null),
        json!(0),
        json!(-1),
        json!(80),
        json!(30003),
        json!(65536),
        json!(1e300),
        json!(true),
        json!(""),
        json!("None"),
        json!("ClusterIP"),
        json!("NodePort"),
        json!("10.96.0.1"),
        json!("10.96.0.255"),
        json!("fd00:96::7"),
        json!("::/0"),
        json!("0.0.0.0/0"),
        json!("192.0.2.15"),
        json!("\u{0}\n/é"),
        json!("x".repeat(300)),
        json!([]),
        json!({}),
        json!([[{}]]),
        json!({ "ip": 7 }),
    ];
    values[dice.below(values.len())].clone()
}

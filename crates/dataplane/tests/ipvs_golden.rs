//! The whole text of what IPVS mode writes for the example of the documents: 10.10.0.1:8410, with two pods behind it.
//!
//! `PORTWAY_BLESS=1` rewrites it.
#![allow(clippy::unwrap_used, reason = "it is a test, helpers included")]

mod iptables_guides;

use std::path::Path;

use dataplane::ipvs::{Options, render};
use iptables_guides::{plain, service, slice, table};
use model::Family;
use serde_json::json;

#[test]
fn the_documents_example_is_written_as_they_show_it() {
    let spec = json!({"clusterIPs": ["10.10.0.1"], "ports": [{"port": 8410}]});
    let ports = json!([{"port": 12_345}]);
    let objects =
        [service("default", "web", &spec), slice("default", "web", &ports, &["10.2.17.53", "10.2.17.54"])];
    let text = render(&table(plain(), &objects), Family::V4, &Options::default());
    for line in [
        "-A -t 10.10.0.1:8410 -s rr",
        "-a -t 10.10.0.1:8410 -r 10.2.17.53:12345 -m -w 1",
        "-a -t 10.10.0.1:8410 -r 10.2.17.54:12345 -m -w 1",
        "address add 10.10.0.1/32 dev kube-ipvs0",
        "add PORTWAY-CLUSTER-IP 10.10.0.1,tcp:8410",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ipvs_golden/two-pods.txt");
    if std::env::var_os("PORTWAY_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "PORTWAY_BLESS=1 rewrites {}", file.display());
}

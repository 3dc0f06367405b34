//! The test-only mode `null` has one flag, one field of the config file, one metric, one leftover and one line of the status. All of
//! them work, though nothing outside its folder and the registry names it: a mode is one folder and one line.

use super::place;
use crate::common::portway_plain;

const SERVE: &str = "--mode null --null-label mine --metrics-bind-address 127.0.0.1:10249";

#[test]
fn root_a_mode_in_one_folder_shows_its_status_its_metric_and_its_leftover() {
    let Some(place) = place() else { return };
    place.ip("link set lo up");
    let mut running = place.start_with(SERVE);
    running.wait_for("portway is in sync");
    place.portway("status").ends_with(0).says(&["Mode:", "null", "Label:", "mine"]);
    assert_eq!(place.portway("status -o json").json()["null"]["label"], "mine");
    place.until("syncs are counted", || {
        place.metric("portway_null_syncs_total").is_some_and(|count| count > 0.0)
    });
    assert_eq!(running.terminate(), Some(0));
    let told = "the file of the mode null stays: `portway cleanup --mode null` removes it";
    let other = place.portway("cleanup").to_string();
    assert!(other.contains(told), "{other}");
    place.portway("cleanup --mode null").ends_with(0).says(&["Removed the file of the mode null."]);
    let other = place.portway("cleanup").to_string();
    assert!(!other.contains(told), "{other}");
}

#[test]
fn root_another_mode_takes_over_from_it() {
    let Some(place) = place() else { return };
    let mut null = place.start_with(SERVE);
    null.wait_for("portway is in sync");
    null.kill();
    let running = place.start_with("--mode nftables");
    let line = running.wait_for_log("removed what another mode left");
    assert!(line.contains("the file of the mode null"), "{line}");
}

#[test]
fn root_its_field_of_the_config_file_is_read_and_checked() {
    let Some(place) = place() else { return };
    let config = |label: &str| {
        let head =
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: \"null\"\n";
        std::fs::write(place.path("config.yaml"), format!("{head}nullMode:\n  label: {label}\n")).unwrap();
        format!("--config {}", place.path("config.yaml").display())
    };
    let running = place.start_with(&config("told"));
    running.wait_for("portway is in sync");
    assert_eq!(place.portway("status -o json").json()["null"]["label"], "told");
    drop(running);
    let refused = place.portway_from(&format!("run {}", config("NotALabel")));
    refused.refused(1, &["nullMode.label", "must be up to 16 lower-case letters"]);
}

#[test]
fn it_renders_what_it_would_keep() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let rendered = portway_plain(&format!("render --mode null --null-label mine --from {examples}")).fine();
    let (head, lines) = rendered.split_once('\n').unwrap();
    assert_eq!(head, "# label mine");
    assert!(lines.lines().any(|line| line.starts_with("kube-system/kube-dns:dns/udp ")), "{rendered}");
}

#[test]
fn its_flag_is_told_and_checked() {
    portway_plain("run --help").says(&["--null-label <LABEL>", "what `portway status` shows of it"]);
    portway_plain("run --from nowhere --mode null --null-label UPPER").refused(2, &["`UPPER` is no label"]);
    portway_plain("run --from nowhere --null-label mine")
        .refused(2, &["`--null-label` means nothing in mode `nftables`", "`--mode null`"]);
}

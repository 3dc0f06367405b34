//! Options, help, completions, colours, logs: what all commands share.

use std::process::Stdio;

use crate::harness::{Place, examples};

#[test]
fn the_version_names_the_release_compared_with() {
    assert_eq!(Place::new().plain("--version").fine(), "portway 0.1.0 (compared with kube-proxy 1.37)\n");
}

#[test]
fn help_has_examples_for_each_command() {
    let place = Place::new();
    for command in [
        "",
        "get",
        "describe",
        "explain",
        "check",
        "render",
        "run",
        "status",
        "diff",
        "cleanup",
        "completions",
    ] {
        let said = place.plain(&format!("{command} --help")).ends_with(0);
        said.says(&["Examples:\n", "portway "]);
    }
}

#[test]
fn completions_are_written_for_each_shell() {
    let place = Place::new();
    for (shell, word) in
        [("bash", "complete -F"), ("zsh", "#compdef portway"), ("fish", "complete -c portway")]
    {
        let said = place.plain(&format!("completions {shell}")).ends_with(0);
        said.says(&[word, "nftables", "masquerade-all"]);
    }
    place.plain("completions bsh").refused(2, &["unknown shell `bsh`: did you mean `bash`?"]);
}

#[test]
fn malformed_options_are_refused_with_the_way_out() {
    let place = Place::new();
    for (arguments, words) in [
        ("--service-cidr 10.96.0.0/40", ["`10.96.0.0/40` is no network", "`10.96.0.0/12`"]),
        ("--cluster-cidr 10.244.0.0/16,ten", ["`ten` is no network", "`10.96.0.0/12`"]),
        ("--node-ip 10.0.0", ["`10.0.0` is no address", "`192.0.2.10`"]),
        ("--node-port-range 32767-30000", ["`32767-30000` is no range of ports", "`30000-32767`"]),
        ("--nodeport-addresses first", ["`first`", "`primary`"]),
        ("--detect-local-mode ClusterCIRD", ["`ClusterCIRD`", "did you mean `ClusterCIDR`?"]),
        ("--detect-local-mode BridgeInterface", ["needs a name", "`--pod-bridge-interface NAME`"]),
        ("--log-format jsn", ["unknown log format `jsn`", "`json`"]),
        ("--node-name a/b", ["`a/b` is no name", "letters"]),
    ] {
        place.on_examples(&format!("get services {arguments}")).refused(2, &words);
    }
}

#[test]
fn a_missing_source_is_refused_with_the_way_out() {
    let place = Place::new();
    place.plain("get services").refused(2, &["`--from FILE|DIR`", "PORTWAY_FROM"]);
    place.plain("get services --from nowhere.yaml").refused(1, &["nowhere.yaml"]);
}

#[test]
fn a_source_may_come_from_the_environment() {
    let place = Place::new();
    let said = Place::run(place.command("get services").env("PORTWAY_FROM", examples()));
    said.ends_with(0).says(&["mysql-service"]);
}

#[test]
fn options_may_stand_before_or_after_the_command() {
    let place = Place::with_example("mysql.yaml");
    let before = place.plain("--from manifests --node-name a get routes").fine();
    let after = place.plain("get routes --from manifests --node-name a").fine();
    assert_eq!(before, after);
}

#[test]
fn colours_stay_away_from_pipes() {
    let place = Place::new();
    let question = "explain outside 10.0.0.5:30964 --node-name a";
    assert!(!place.on_examples(question).fine().contains('\x1b'));
    assert!(place.on_examples(&format!("{question} --color always")).fine().contains('\x1b'));
    let refused = place.on_examples("--color always get services nobody-here-by-this-name");
    assert!(refused.err.contains("\x1b[31merror"), "{refused}");
}

#[test]
fn warnings_are_json_when_logs_are() {
    let place = Place::with_example("mysql.yaml");
    place.write("broken.yaml", "kind: [");
    let said = place.portway("get services --log-format json").ends_with(0);
    let line = said.err.lines().next().unwrap_or_default();
    let event: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {said}"));
    assert_eq!(event["level"], "WARN", "{said}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    let mut command = place.command("completions bash");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn warnings_have_one_style() {
    let place = Place::with_example("mysql.yaml");
    std::fs::write(place.state(), "a file stands where the state folder belongs").unwrap();
    let said = place.portway("get services").ends_with(0);
    assert!(said.err.starts_with("warning: cannot look at "), "{said}");
    assert_eq!(said.err.lines().count(), 1, "{said}");
}

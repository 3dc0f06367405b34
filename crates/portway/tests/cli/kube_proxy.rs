//! `kube-proxy` as a command line: flags, the config file, and what is written of it. Nothing here needs root.

use std::process::Stdio;

use crate::harness::{Outcome, Place, golden};

/// Runs the program under upstream's name, by a link.
fn kube_proxy(place: &Place, arguments: &str) -> Outcome {
    let link = place.path("kube-proxy");
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_portway"), &link).unwrap();
    }
    let mut command = std::process::Command::new(&link);
    command.args(arguments.split_whitespace()).current_dir(place.path("")).stdin(Stdio::null());
    command.env_remove("RUST_LOG").env_remove("KUBERNETES_SERVICE_HOST");
    Place::run(&mut command)
}

#[test]
fn the_default_document_is_written_and_read_again_as_the_same() {
    let place = Place::new();
    let said = kube_proxy(&place, "--write-config-to=first.yaml").ends_with(0);
    said.says(&["Wrote configuration to: first.yaml"]);
    let first = std::fs::read_to_string(place.path("first.yaml")).unwrap();
    // The mode for tests has a section, which no program that is handed out has.
    let of_null = "nullMode:\n  label: \"\"\n";
    assert!(first.contains(of_null), "{first}");
    golden("kube-proxy-default.yaml", &first.replace(of_null, ""));
    kube_proxy(&place, "--config=first.yaml --write-config-to=second.yaml").ends_with(0);
    assert_eq!(first, std::fs::read_to_string(place.path("second.yaml")).unwrap());
}

#[test]
fn flags_reach_the_document_and_a_file_goes_before_them() {
    let place = Place::new();
    let written = |arguments: &str| {
        let said = kube_proxy(&place, &format!("{arguments} --write-config-to=out.yaml")).ends_with(0);
        (std::fs::read_to_string(place.path("out.yaml")).unwrap(), said.err)
    };
    let (by_flags, _) = written("--proxy-mode nftables --cluster_cidr=10.1.0.0/16 --masquerade-all -v=4");
    for line in
        ["mode: nftables", "clusterCIDR: 10.1.0.0/16", "verbosity: 4", "masqueradeAll: true", "- primary"]
    {
        assert!(by_flags.contains(line), "no {line} in\n{by_flags}");
    }
    std::fs::write(place.path("in.yaml"), by_flags.replace("mode: nftables", "mode: ipvs\nmoed: x")).unwrap();
    let (by_file, warnings) = written("--config=in.yaml --proxy-mode=iptables --hostname-override=Node-1");
    for line in ["mode: ipvs", "hostnameOverride: node-1"] {
        assert!(by_file.contains(line), "no {line} in\n{by_file}");
    }
    for words in ["unknown field `moed`: did you mean `mode`?", "`--proxy-mode` passed over"] {
        assert!(warnings.contains(words), "no {words} in\n{warnings}");
    }
}

/// Who has no way to an API server, and is told that, has come past the ports.
#[test]
fn ports_of_mode_userspace_keep_only_that_mode_from_starting() {
    let place = Place::new();
    let document = |mode: &str| {
        let text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
                    portRange: 30000-32767\n";
        std::fs::write(place.path("ports.yaml"), format!("{text}mode: {mode}\n")).unwrap();
    };
    let over = ["`portRange: 30000-32767` lies over the node ports 30000-32767"];
    document("nftables");
    kube_proxy(&place, "--config=ports.yaml").ends_with(2).complains(&["API server"]);
    place.plain("run --config ports.yaml").ends_with(2).complains(&["API server"]);
    place.plain("run --config ports.yaml --mode userspace").ends_with(1).complains(&over);
    document("userspace");
    kube_proxy(&place, "--config=ports.yaml").ends_with(1).complains(&over);
    place.plain("run --config ports.yaml").ends_with(1).complains(&over);
    let words = ["`--proxy-port-range 30000-30001` lies over the node ports"];
    place.plain("run --config ports.yaml --proxy-port-range 30000-30001").ends_with(2).complains(&words);
}

#[test]
fn what_is_wrong_is_refused_before_anything_is_done() {
    let place = Place::new();
    kube_proxy(&place, "--proxy-mod=ipvs").refused(2, &["did you mean `--proxy-mode`?"]);
    kube_proxy(&place, "start").refused(2, &["`start` is no flag"]);
    kube_proxy(&place, "--config=nowhere").refused(1, &["the config file `nowhere` cannot be read"]);
    kube_proxy(&place, "--proxy-mode=ebpf --oom-score-adj=5000").refused(
        1,
        &[
            "KubeProxyConfiguration.mode: Invalid value: \"ebpf\"",
            "KubeProxyConfiguration.oomScoreAdj: Invalid value: 5000",
        ],
    );
    std::fs::write(place.path("service.yaml"), "apiVersion: v1\nkind: Service\n").unwrap();
    kube_proxy(&place, "--config=service.yaml").refused(1, &["`service.yaml`", "`apiVersion: v1` is not"]);
    place.plain("run --config service.yaml").refused(1, &["`service.yaml`", "`apiVersion: v1` is not"]);
}

#[test]
fn help_and_version_are_told_under_either_name() {
    let place = Place::new();
    assert_eq!(kube_proxy(&place, "--version").fine(), "Portway v0.1.0 (compared with kube-proxy 1.37)\n");
    assert_eq!(
        kube_proxy(&place, "--version=raw").fine(),
        "Portway v0.1.0 (compared with kube-proxy 1.37)\n"
    );
    for words in ["--iptables-localhost-nodeports", "[iptables.syncPeriod, nftables.syncPeriod]", "-v, --v"] {
        kube_proxy(&place, "-h").ends_with(0).says(&[words]);
    }
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_portway"));
    Place::run(command.args(["kube-proxy", "--help"])).ends_with(0).says(&["Usage: kube-proxy"]);
    place.plain("--help").ends_with(0).says(&["kube-proxy"]);
}

#[test]
fn without_a_cluster_it_says_where_services_could_come_from() {
    let said = kube_proxy(&Place::new(), "--proxy-mode=nftables").ends_with(2);
    said.complains(&[
        "`--kubeconfig FILE` or `--master URL`",
        "`clientConnection.kubeconfig` in the file of `--config`",
    ]);
    assert!(!said.err.contains("--from"), "kube-proxy has no such flag: {said}");
}

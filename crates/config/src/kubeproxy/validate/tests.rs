//! What upstream refuses, and what it takes: one row for each rule.

use super::super::line::Given;
use super::*;

fn errors_of(line: &str) -> Vec<String> {
    let given = Given::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let chosen = super::super::choose(&given.expect("they are flags"), None).expect("it can be read");
    errors(&chosen.document, chosen.document.mode(dataplane::iptables::MODE))
}

#[test]
fn what_upstream_refuses_is_refused_with_the_place_of_the_field() {
    for (line, expected) in [
        ("--proxy-mode=nftable", "mode: Invalid value: \"nftable\": must be iptables"),
        ("--proxy-mode=ipvs --feature-gates=KubeProxyIPVS=false", "mode: Invalid value: \"ipvs\": needs"),
        (
            "--iptables-masquerade-bit=32",
            "iptables.masqueradeBit: Invalid value: 32: must be within the range [0, 31]",
        ),
        (
            "--proxy-mode=ipvs --iptables-masquerade-bit=3",
            "iptables.masqueradeBit: Invalid value: 3: must be none",
        ),
        ("--iptables-sync-period=0", "iptables.syncPeriod: Invalid value: \"0s\": must be greater than 0"),
        ("--iptables-min-sync-period=-1s", "iptables.minSyncPeriod: Invalid value: \"-1s\""),
        (
            "--iptables-min-sync-period=1m",
            "iptables.syncPeriod: Invalid value: \"30s\": must be greater than or equal to iptables.minSyncPeriod",
        ),
        ("--proxy-mode=nftables --iptables-sync-period=0", "nftables.syncPeriod: Invalid value"),
        ("--proxy-mode=ipvs --ipvs-scheduler=best", "ipvs.scheduler: Invalid value: \"best\""),
        (
            "--proxy-mode=ipvs --ipvs-exclude-cidrs=10.0.0.0/8,ten",
            "ipvs.excludeCIDRs[1]: Invalid value: \"ten\"",
        ),
        ("--proxy-mode=ipvs --ipvs-udp-timeout=-1s", "ipvs.udpTimeout: Invalid value: \"-1s\""),
        ("--conntrack-min=-1", "conntrack.min: Invalid value: -1"),
        ("--conntrack-udp-timeout=-1s", "conntrack.udpTimeout: Invalid value: \"-1s\""),
        ("--bind-address=here", "bindAddress: Invalid value: \"here\": not a valid textual"),
        ("--healthz-bind-address=localhost:80", "healthzBindAddress: Invalid value: \"localhost:80\""),
        ("--metrics-bind-address=127.0.0.1:0", "metricsBindAddress: Invalid value"),
        (
            "--healthz-bind-address=[fd00:1::5] --healthz-port=10256",
            "healthzBindAddress: Invalid value: \"[fd00:1::5]\": must be IP:port",
        ),
        ("--metrics-bind-address=[::]", "metricsBindAddress: Invalid value: \"[::]\": must be IP:port"),
        (
            "--cluster-cidr=10.244.0.0",
            "clusterCIDR: Invalid value: \"10.244.0.0\": must be a valid CIDR block",
        ),
        (
            "--cluster-cidr=10.0.0.0/8,11.0.0.0/8",
            "clusterCIDR: Invalid value: \"10.0.0.0/8,11.0.0.0/8\": must be one CIDR",
        ),
        ("--detect-local-mode=Guess", "detectLocalMode: Invalid value: \"Guess\""),
        (
            "--detect-local-mode=BridgeInterface",
            "detectLocal.bridgeInterface: Invalid value: \"\": cannot be empty",
        ),
        ("--detect-local-mode=InterfaceNamePrefix", "detectLocal.interfaceNamePrefix: Invalid value"),
        ("--nodeport-addresses=primary,primary", "nodePortAddresses[1]: Duplicate value: \"primary\""),
        (
            "--nodeport-addresses=10.0.0.1",
            "nodePortAddresses[0]: Invalid value: \"10.0.0.1\": must be a valid CIDR",
        ),
        ("--oom-score-adj=1001", "oomScoreAdj: Invalid value: 1001: must be within the range [-1000, 1000]"),
        ("--config-sync-period=0", "configSyncPeriod: Invalid value: \"0s\""),
        ("--kube-api-burst=-1", "clientConnection.burst: Invalid value: -1"),
        ("--show-hidden-metrics-for-version=1.20", "showHiddenMetricsForVersion: Invalid value: \"1.20\""),
        (
            "--log-flush-frequency=-1s",
            "logging.flushFrequency: Invalid value: \"-1s\": must be greater than 0",
        ),
        ("--logging-format=xml", "logging.format: Invalid value: \"xml\": must be text or json"),
        ("--logging-format=json --vmodule=a=1", "logging.vmodule: Invalid value"),
        ("--log-text-split-stream", "logging.options.text: Invalid value"),
        ("--feature-gates=MultiCIDRServiceAllocator=false", "featureGates: Invalid value"),
    ] {
        let errors = errors_of(line);
        assert_eq!(errors.len(), 1, "{line}: {errors:#?}");
        assert!(errors[0].starts_with(&format!("KubeProxyConfiguration.{expected}")), "{errors:#?}");
    }
}

#[test]
fn what_upstream_takes_is_taken() {
    for line in [
        "",
        "--proxy-mode=userspace",
        "--iptables-min-sync-period=0",
        "--cluster-cidr=10.0.0.0/8,fd00::/48",
        "--detect-local-mode=NodeCIDR --cluster-cidr=nonsense",
        "--nodeport-addresses=10.0.0.0/8,10.0.0.0/8,primary,localhost,all",
        "--ipvs-scheduler=nobody-asks",
        "--healthz-port=0",
        "--bind-address=",
        "--log-text-split-stream --feature-gates=LoggingAlphaOptions=true",
        "--show-hidden-metrics-for-version=1.36",
    ] {
        assert_eq!(errors_of(line), Vec::<String>::new(), "{line}");
    }
}

/// A flag cannot have a blank in these tests, a file can.
#[test]
fn an_address_or_network_with_a_blank_is_refused_as_upstream_refuses_it() {
    let usual = Document::usual;
    for (document, path) in [
        (Document { cluster_cidr: "10.0.0.0/8, fd00::/64".into(), ..usual() }, "clusterCIDR"),
        (Document { bind_address: "10.0.0.1 ".into(), ..usual() }, "bindAddress"),
        (
            Document { node_port_addresses: vec!["10.0.0.0/8".into(), " 11.0.0.0/8".into()], ..usual() },
            "nodePortAddresses[1]",
        ),
        (
            Document { healthz_bind_address: " 10.0.0.1".into(), ..Document::default() }.with_defaults(),
            "healthzBindAddress",
        ),
    ] {
        let errors = errors(&document, Some(dataplane::iptables::MODE));
        assert_eq!(errors.len(), 1, "{path}: {errors:#?}");
        assert!(
            errors[0].starts_with(&format!("KubeProxyConfiguration.{path}: Invalid value")),
            "{errors:#?}"
        );
    }
}

#[test]
fn all_errors_are_told_together() {
    assert_eq!(errors_of("--proxy-mode=x --bind-address=y --oom-score-adj=9999").len(), 3);
}

/// Upstream does not look at it any more, whatever a file of old has there.
#[test]
fn a_range_of_ports_is_looked_at_in_mode_userspace_alone() {
    let of = |mode| errors(&Document { port_range: "many".into(), ..Document::usual() }, Some(mode));
    for mode in [dataplane::iptables::MODE, dataplane::nftables::MODE, dataplane::ipvs::MODE] {
        assert_eq!(of(mode), Vec::<String>::new(), "{mode}");
    }
    assert!(of(dataplane::userspace::MODE)[0].starts_with("KubeProxyConfiguration.portRange: Invalid value"));
}

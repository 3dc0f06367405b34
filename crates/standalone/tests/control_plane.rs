//! What Services are given, and what they keep: each test is a small story on a folder of its own.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod common;

use common::*;
use standalone::ipam::StoreError;
use standalone::objects::Change;

#[test]
fn a_service_keeps_its_address_when_the_store_is_opened_again() {
    let folder = Folder::new();
    // One that the store has to remember: a new search would find another.
    drop(folder.with(&[service("web", "clusterIP: 10.96.0.42")]));
    assert_eq!(folder.with(&[service("web", "{}")]).field("web", "/spec/clusterIP"), "10.96.0.42");
    assert_eq!(folder.with(&[service("web", "{}")]).field("web", "/spec/clusterIP"), "10.96.0.42");
}

#[test]
fn two_empty_stores_give_the_same_address() {
    let address = || Folder::new().with(&[service("web", "{}")]).field("web", "/spec/clusterIP");
    assert_eq!(address(), address());
}

#[test]
fn an_address_is_written_into_all_fields_that_a_cluster_would_fill() {
    let folder = Folder::new();
    let cluster = folder.with(&[service("web", "{}")]);
    let address = cluster.field("web", "/spec/clusterIP");
    assert_eq!(cluster.field("web", "/spec/clusterIPs"), format!("[\"{address}\"]"));
    assert_eq!(cluster.field("web", "/spec/ipFamilies"), "[\"IPv4\"]");
    assert_eq!(cluster.field("web", "/metadata/creationTimestamp"), "2026-01-31T12:00:00Z");
}

#[test]
fn headless_and_external_name_services_get_nothing() {
    let folder = Folder::new();
    let cluster = folder.with(&[
        service("db", "clusterIP: None"),
        service("far", "type: ExternalName, externalName: a.example"),
    ]);
    assert_eq!(cluster.field("db", "/spec/clusterIP"), "None");
    assert_eq!(cluster.field("far", "/spec/clusterIP"), "");
    assert_eq!(cluster.reports(), [""; 0]);
}

#[test]
fn the_age_of_a_service_is_counted_from_when_it_was_first_seen() {
    let folder = Folder::new();
    drop(folder.with(&[service("web", "{}")]));
    let mut cluster = folder.open_at(NOON + 3600);
    cluster.apply(&[service("web", "{}"), service("new", "{}")]);
    assert_eq!(cluster.field("web", "/metadata/creationTimestamp"), "2026-01-31T12:00:00Z");
    assert_eq!(cluster.field("new", "/metadata/creationTimestamp"), "2026-01-31T13:00:00Z");
}

#[test]
fn a_service_that_comes_back_gets_its_old_address() {
    let folder = Folder::new();
    let mut cluster = folder.with(&[service("web", "clusterIP: 10.96.0.42")]);
    cluster.apply(&[gone("web")]);
    cluster.apply(&[service("web", "{}")]);
    assert_eq!(cluster.field("web", "/spec/clusterIP"), "10.96.0.42");
    drop(cluster);
    drop(folder.with(&[service("other", "{}")]));
    assert_eq!(folder.with(&[service("web", "{}")]).field("web", "/spec/clusterIP"), "10.96.0.42");
}

#[test]
fn an_absent_holder_yields_to_a_wanted_address() {
    let folder = Folder::new();
    drop(folder.with(&[service("web", "clusterIP: 10.96.0.42")]));
    let mut cluster = folder.with(&[service("other", "clusterIP: 10.96.0.42")]);
    assert_eq!(cluster.field("other", "/spec/clusterIP"), "10.96.0.42");
    cluster.apply(&[service("web", "{}")]);
    assert_ne!(cluster.field("web", "/spec/clusterIP"), "10.96.0.42");
}

#[test]
fn dual_stack_services_get_one_address_of_each_family() {
    let folder = Folder::dual_stack();
    let cluster = folder.with(&[
        service("single", "{}"),
        service("six", "ipFamilies: [IPv6]"),
        service("prefer", "ipFamilyPolicy: PreferDualStack"),
        service("require", "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6]"),
        service("both", "ipFamilies: [IPv6, IPv4]"),
    ]);
    let families = |name: &str| cluster.field(name, "/spec/ipFamilies");
    assert_eq!(families("single"), r#"["IPv4"]"#);
    assert_eq!(families("six"), r#"["IPv6"]"#);
    assert_eq!(families("prefer"), r#"["IPv4","IPv6"]"#);
    assert_eq!(families("require"), r#"["IPv6","IPv4"]"#);
    assert_eq!(families("both"), r#"["IPv6","IPv4"]"#);
    assert!(cluster.field("six", "/spec/clusterIP").starts_with("fd00:96::"));
    assert!(cluster.field("prefer", "/spec/clusterIPs/1").starts_with("fd00:96::"));
    assert!(cluster.field("require", "/spec/clusterIPs/1").starts_with("10.96."));
    assert_eq!(cluster.reports(), [""; 0]);
}

#[test]
fn a_service_that_requires_two_families_is_reported_where_there_is_one() {
    let folder = Folder::new();
    let cluster = folder.with(&[service("web", "ipFamilyPolicy: RequireDualStack")]);
    assert!(cluster.field("web", "/spec/clusterIP").starts_with("10.96."));
    assert_reported(
        &cluster,
        &["Service default/web: spec.ipFamilyPolicy `RequireDualStack`", "--service-cidr"],
    );
    let cluster = folder.with(&[service("web", "ipFamilyPolicy: PreferDualStack")]);
    assert_eq!(cluster.reports(), [""; 0]);
}

#[test]
fn a_wanted_address_goes_to_the_earlier_service() {
    let folder = Folder::new();
    let mut cluster = folder.with(&[service("b", "clusterIP: 10.96.0.7")]);
    cluster.apply(&[service("a", "clusterIP: 10.96.0.7")]);
    assert_eq!(cluster.field("b", "/spec/clusterIP"), "10.96.0.7");
    assert_eq!(cluster.field("a", "/spec/clusterIP"), "", "no other address takes its place");
    assert_reported(
        &cluster,
        &["Service default/a: spec.clusterIP `10.96.0.7`", "belongs to Service default/b"],
    );
    cluster.apply(&[gone("b")]);
    assert_eq!(cluster.field("a", "/spec/clusterIP"), "10.96.0.7", "it takes over when the holder is gone");
    assert_eq!(cluster.reports(), [""; 0]);
}

#[test]
fn of_two_services_that_want_one_address_the_older_wins() {
    let created = |name: &str, year: u32| {
        service_with(name, "clusterIP: 10.96.0.7", &format!("creationTimestamp: \"{year}-01-01T00:00:00Z\""))
    };
    let cluster = Folder::new();
    let cluster = cluster.with(&[created("a", 2021), created("b", 2020)]);
    assert_eq!(cluster.field("b", "/spec/clusterIP"), "10.96.0.7");
    assert_eq!(cluster.field("a", "/spec/clusterIP"), "");
}

#[test]
fn an_address_outside_the_range_is_refused_with_the_way_out() {
    let folder = Folder::new();
    let mut cluster = folder.with(&[service("web", "clusterIP: 172.20.0.9")]);
    assert_eq!(cluster.field("web", "/spec/clusterIP"), "");
    assert_reported(&cluster, &["spec.clusterIP `172.20.0.9`: is not one of 10.96.0.0/16", "--service-cidr"]);
    cluster.apply(&[service_cidr("more", "172.20.0.0/24")]);
    assert_eq!(cluster.field("web", "/spec/clusterIP"), "172.20.0.9", "a ServiceCIDR object is a range too");
    assert_eq!(cluster.reports(), [""; 0]);
}

#[test]
fn network_and_broadcast_addresses_are_nobodys() {
    let folder = Folder::with_service_cidr("10.96.0.0/29");
    let cluster =
        folder.with(&[service("net", "clusterIP: 10.96.0.0"), service("all", "clusterIP: 10.96.0.7")]);
    assert_eq!(
        (cluster.field("net", "/spec/clusterIP"), cluster.field("all", "/spec/clusterIP")),
        <_>::default()
    );
    assert_eq!(cluster.reports().len(), 2);
}

#[test]
fn a_full_range_evicts_who_is_absent_longest_and_then_reports() {
    let folder = Folder::with_service_cidr("10.96.0.0/29");
    let mut cluster = folder.with(&six());
    let address_of_s3 = cluster.field("s3", "/spec/clusterIP");
    cluster.set_now(NOON + 1);
    cluster.apply(&[gone("s3")]);
    cluster.set_now(NOON + 2);
    cluster.apply(&[gone("s1")]);
    cluster.apply(&[service("x", "{}")]);
    assert_eq!(cluster.field("x", "/spec/clusterIP"), address_of_s3, "s3 is absent longest");
    cluster.apply(&[service("y", "{}"), service("z", "{}")]);
    assert_eq!(cluster.field("z", "/spec/clusterIP"), "");
    assert_reported(
        &cluster,
        &["Service default/z: spec.clusterIP: nothing is left in 10.96.0.0/29", "--service-cidr"],
    );
    cluster.apply(&[gone("y")]);
    assert_ne!(cluster.field("z", "/spec/clusterIP"), "", "who went without asks again");
}

#[test]
fn who_is_absent_longest_is_known_after_a_restart() {
    for (first, second) in [("s4", "s1"), ("s1", "s4")] {
        let folder = Folder::with_service_cidr("10.96.0.0/29");
        let before = folder.with(&six()).field(first, "/spec/clusterIP");
        let without = |names: &[&str]| -> Vec<_> {
            let is_left =
                |change: &Change| !matches!(change, Change::Apply(o) if names.contains(&&*o.key.name));
            six().into_iter().filter(is_left).collect()
        };
        folder.open_at(NOON + 1).apply(&without(&[first]));
        folder.open_at(NOON + 2).apply(&without(&[first, second]));
        let mut cluster = folder.open_at(NOON + 3);
        cluster.apply(&without(&[first, second]));
        cluster.apply(&[service("x", "{}")]);
        assert_eq!(cluster.field("x", "/spec/clusterIP"), before, "{first} left before {second}");
    }
}

#[test]
fn what_another_process_may_serve_is_not_taken_from_it() {
    let folder = Folder::with_service_cidr("10.96.0.0/29");
    let other = folder.with(&six());
    let mut ours = folder.open_at(NOON);
    ours.apply(&[
        service("x", "{}"),
        service("y", &format!("clusterIP: {}", other.field("s2", "/spec/clusterIP"))),
    ]);
    assert_eq!((ours.field("x", "/spec/clusterIP"), ours.field("y", "/spec/clusterIP")), <_>::default());
    assert_reported(&ours, &["belongs to Service default/s2", "another Portway"]);
    drop(other);
    ours.apply(&[]);
    assert_ne!(ours.field("x", "/spec/clusterIP"), "");
    assert_eq!(ours.reports(), [""; 0]);
}

#[test]
fn node_ports_are_given_and_kept() {
    let folder = Folder::new();
    let spec = "type: NodePort, ports: [{port: 53, protocol: UDP, name: u}, {port: 53, name: t}, {port: 80, name: w}]";
    let cluster = folder.with(&[service("dns", spec)]);
    let port = |index: usize| cluster.field("dns", &format!("/spec/ports/{index}/nodePort"));
    assert_eq!(port(0), port(1), "one number serves TCP and UDP");
    assert_ne!(port(0), port(2));
    assert!((30000..=32767).contains(&port(2).parse::<u16>().unwrap()));
    let again = folder.with(&[service("dns", spec)]);
    assert_eq!(port(2), again.field("dns", "/spec/ports/2/nodePort"));
}

#[test]
fn wanted_node_ports_are_checked() {
    let folder = Folder::new();
    let wants = |port: u16| format!("type: NodePort, ports: [{{port: 80, nodePort: {port}}}]");
    let mut cluster = folder.with(&[service("a", &wants(30080)), service("low", &wants(80))]);
    cluster.apply(&[service("b", &wants(30080))]);
    assert_eq!(cluster.field("a", "/spec/ports/0/nodePort"), "30080");
    assert_eq!(cluster.field("b", "/spec/ports/0/nodePort"), "");
    assert_eq!(cluster.field("low", "/spec/ports/0/nodePort"), "");
    assert_reported(
        &cluster,
        &["Service default/b: spec.ports[0].nodePort `30080`: belongs to Service default/a"],
    );
    assert_reported(
        &cluster,
        &["spec.ports[0].nodePort `80`: is not one of 30000-32767", "--node-port-range"],
    );
}

#[test]
fn a_load_balancer_gets_ports_a_health_check_and_an_address() {
    let folder = Folder::with_load_balancer();
    let cluster = folder.with(&[
        service("lb", "type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]"),
        service("bare", "type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]"),
        service("picky", "type: LoadBalancer, loadBalancerIP: 192.0.2.77, ports: [{port: 80}]"),
        service("stray", "type: LoadBalancer, loadBalancerIP: 198.51.100.1, ports: [{port: 80}]"),
    ]);
    assert_ne!(cluster.field("lb", "/spec/ports/0/nodePort"), "");
    assert_ne!(cluster.field("lb", "/spec/healthCheckNodePort"), "");
    assert!(cluster.field("lb", "/status/loadBalancer/ingress/0/ip").starts_with("192.0.2."));
    assert_eq!(cluster.field("lb", "/status/loadBalancer/ingress/0/ipMode"), "VIP");
    assert_eq!(cluster.field("bare", "/spec/ports/0/nodePort"), "");
    assert_eq!(cluster.field("bare", "/spec/healthCheckNodePort"), "");
    assert_eq!(cluster.field("picky", "/status/loadBalancer/ingress/0/ip"), "192.0.2.77");
    assert_eq!(cluster.field("stray", "/status"), "");
    assert_reported(
        &cluster,
        &["Service default/stray: spec.loadBalancerIP `198.51.100.1`", "--load-balancer-cidr"],
    );
}

#[test]
fn without_a_range_for_load_balancers_the_address_is_pending() {
    let folder = Folder::new();
    let cluster =
        folder.with(&[service("lb", "type: LoadBalancer, loadBalancerIP: 192.0.2.77, ports: [{port: 80}]")]);
    assert_eq!(cluster.field("lb", "/status"), "");
    assert_ne!(cluster.field("lb", "/spec/ports/0/nodePort"), "");
    assert_eq!(cluster.reports(), [""; 0]);
}

#[test]
fn a_dry_run_shows_what_would_be_given_and_writes_nothing() {
    let folder = Folder::new();
    let kept = folder.with(&[service("web", "{}")]).field("web", "/spec/clusterIP");
    let before = folder.log();
    let mut dry = folder.open_dry();
    dry.apply(&[service("web", "{}"), service("new", "{}")]);
    assert_eq!(dry.field("web", "/spec/clusterIP"), kept);
    assert_ne!(dry.field("new", "/spec/clusterIP"), "");
    assert_eq!(folder.log(), before);
}

#[test]
fn a_dry_run_makes_no_folder() {
    let folder = Folder::new();
    let mut dry = folder.open_dry();
    dry.apply(&[service("web", "{}")]);
    assert!(!folder.path().exists());
}

#[test]
fn the_ranges_are_an_object_too() {
    let folder = Folder::dual_stack();
    let mut cluster = folder.with(&[]);
    let cidrs = |cluster: &Cluster| cluster.object("ServiceCIDR", "kubernetes")["spec"]["cidrs"].to_string();
    assert_eq!(cidrs(&cluster), r#"["10.96.0.0/16","fd00:96::/112"]"#);
    cluster.apply(&[service_cidr("kubernetes", "10.0.0.0/24")]);
    assert_eq!(cidrs(&cluster), r#"["10.0.0.0/24"]"#);
}

#[test]
fn ranges_that_make_no_sense_are_refused() {
    for (service, balancer, expected) in [
        (&[][..], &[][..], "`--service-cidr` needs a range"),
        (&["10.96.0.0/16", "10.97.0.0/16"], &[], "one of each family"),
        (&["10.96.0.0/16", "fd00::/112", "fd01::/112"], &[], "one of each family"),
        (&["10.96.0.0/16"], &["10.96.3.0/24"], "overlaps `--service-cidr`"),
    ] {
        let folder = Folder::with_ranges(service, balancer);
        let error = folder.try_open().expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_a_way_out() {
    let folder = Folder::new();
    std::fs::write(folder.path(), "a file stands here").unwrap();
    let error = folder.try_open().unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }));
    assert!(error.to_string().contains("--state-dir"), "{error}");
}

#[test]
fn only_the_service_that_needs_a_new_address_waits_for_the_state_folder_and_it_is_named() {
    let folder = Folder::new();
    let mut cluster = folder.with(&[service("a", "{}")]);
    let address = cluster.field("a", "/spec/clusterIP");
    // Nobody, not even root, can make a folder's lock where a folder stands.
    let lock = folder.path().join("lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let two_ports = "ports: [{name: a, port: 80}, {name: b, port: 81}]";
    cluster.apply(&[service("b", "{}"), service("a", two_ports)]);
    let waiting = cluster.0.waiting().expect("the folder cannot be written");
    let names: Vec<String> = waiting.services.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["default/b"]);
    assert_eq!(cluster.field("b", "/spec/clusterIP"), "", "nothing is given that is not on the disk");
    assert_reported(&cluster, &["Service default/b", "spec.clusterIP", "waits until", "lock"]);
    assert_eq!(
        (cluster.field("a", "/spec/clusterIP"), cluster.field("a", "/spec/ports/1/port")),
        (address, "81".into())
    );
    std::fs::remove_dir(&lock).unwrap();
    cluster.apply(&[]);
    assert_ne!(cluster.field("b", "/spec/clusterIP"), "");
    assert_eq!((cluster.0.waiting(), cluster.reports()), (None, Vec::new()));
}

#[test]
fn a_full_disk_gives_nothing() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path()).unwrap();
    // Every write to it fails with "no space left on device". What could not be written is removed again.
    let fill = || std::os::unix::fs::symlink("/dev/full", folder.path().join("allocations.log.new")).unwrap();
    fill();
    let mut cluster = folder.try_open().unwrap();
    fill();
    cluster.apply(&[service("a", "{}"), service("b", "clusterIP: None")]);
    let waiting = cluster.0.waiting().expect("the disk is full").clone();
    let names: Vec<String> = waiting.services.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["default/a"]);
    let reason = waiting.reason;
    assert!(reason.contains("No space left") && reason.contains("--state-dir"), "{reason}");
    assert_eq!(cluster.field("a", "/spec/clusterIP"), "");
    cluster.apply(&[]);
    assert_ne!(cluster.field("a", "/spec/clusterIP"), "", "there is room again");
}

#[test]
fn the_store_is_ours_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    drop(folder.with(&[service("a", "{}")]));
    let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("allocations.log"), mode("lock")), (0o700, 0o600, 0o600));
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(folder.with(&[]).reports(), [""; 0]);
    assert_eq!(mode(""), 0o700, "a folder of our own is closed");
    std::fs::write(folder.path().join("strange"), "").unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_reported(&folder.with(&[]), &["mode `0755`", "--state-dir"]);
}

#[test]
fn one_change_costs_a_few_lines_and_not_the_file() {
    let folder = Folder::new();
    let many: Vec<_> = (0..500).map(|n| service(&format!("s{n}"), "{}")).collect();
    let mut cluster = folder.with(&many);
    let before = folder.log();
    cluster.apply(&[service("one-more", "{}")]);
    let after = folder.log();
    assert!(after.starts_with(&before), "the file is only appended to");
    assert!(after.len() - before.len() < 200, "{} bytes for one Service", after.len() - before.len());
}

#[test]
fn history_is_forgotten_by_and_by() {
    let folder = Folder::new();
    drop(folder.with(&[service("a", "clusterIP: 10.96.0.42")]));
    let mut cluster = folder.with(&[service("a", "{}")]);
    for _ in 0..1000 {
        cluster.apply(&[gone("a")]);
        cluster.apply(&[service("a", "{}")]);
    }
    assert!(folder.log().len() < 60_000, "{} bytes", folder.log().len());
    drop(cluster);
    assert_eq!(folder.with(&[service("a", "{}")]).field("a", "/spec/clusterIP"), "10.96.0.42");
}

#[test]
fn a_store_that_was_removed_under_our_feet_is_written_again() {
    let folder = Folder::new();
    let mut cluster = folder.with(&[service("a", "clusterIP: 10.96.0.42")]);
    std::fs::remove_dir_all(folder.path()).unwrap();
    cluster.apply(&[service("b", "{}")]);
    drop(cluster);
    assert_eq!(folder.with(&[service("a", "{}")]).field("a", "/spec/clusterIP"), "10.96.0.42");
}

#[test]
fn a_wanted_value_that_cannot_be_read_is_reported_and_no_other_takes_its_place() {
    for (spec, report) in [
        ("clusterIP: 5", "spec.clusterIP `5`: is no IP address; the Service has no IP"),
        ("clusterIP: none", "spec.clusterIP `none`: is no IP address; the Service has no IP"),
        ("clusterIPs: 10.96.3.3", "spec.clusterIPs `10.96.3.3`: must be a list"),
        ("clusterIPs: [7]", "spec.clusterIPs[0] `7`: is no IP address"),
    ] {
        let folder = Folder::new();
        let cluster = folder.with(&[service("web", spec)]);
        assert_eq!(cluster.field("web", "/spec/clusterIP"), "", "{spec}");
        assert_eq!(cluster.reports().len(), 1, "{spec}: {:#?}", cluster.reports());
        assert_reported(&cluster, &["Service default/web: ", report]);
    }
    let folder = Folder::with_load_balancer();
    let cluster = folder.with(&[service("lb", "type: LoadBalancer, loadBalancerIP: 7, ports: [{port: 80}]")]);
    assert_eq!(cluster.field("lb", "/status"), "");
    assert_reported(&cluster, &["spec.loadBalancerIP `7`: is no IP address"]);
}

#[test]
fn the_good_part_of_malformed_fields_counts() {
    for (spec, report, field, expected) in [
        ("clusterIPs: [7, 10.96.0.42]", "spec.clusterIPs[0] `7`", "/spec/clusterIP", "10.96.0.42"),
        (
            "clusterIP: 10.96.0.41, clusterIPs: [10.96.0.42]",
            "spec.clusterIP `10.96.0.41`: differs from spec.clusterIPs[0] `10.96.0.42`",
            "/spec/clusterIP",
            "10.96.0.42",
        ),
        ("ipFamilies: IPv4", "spec.ipFamilies `IPv4`: must be a list", "/spec/ipFamilies", "[\"IPv4\"]"),
        ("ipFamilies: [IPv5]", "spec.ipFamilies[0] `IPv5`: must be", "/spec/ipFamilies", "[\"IPv4\"]"),
        ("ipFamilyPolicy: Both", "spec.ipFamilyPolicy `Both`: must be", "/spec/ipFamilies", "[\"IPv4\"]"),
        (
            "publishNotReadyAddresses: \"yes\"",
            "spec.publishNotReadyAddresses `yes`",
            "/spec/ipFamilies",
            "[\"IPv4\"]",
        ),
        (
            "selector: {a: b}, ports: [{port: 80, targetPort: 99999}]",
            "spec.ports[0].targetPort `99999`",
            "/spec/ipFamilies",
            "[\"IPv4\"]",
        ),
        ("ports: []", "spec.ports `[]`: a Service needs a port", "/spec/ipFamilies", "[\"IPv4\"]"),
    ] {
        let folder = Folder::new();
        let cluster = folder.with(&[service("web", spec)]);
        assert_reported(&cluster, &["Service default/web: ", report]);
        assert_eq!(cluster.reports().len(), 1, "{spec}: {:#?}", cluster.reports());
        assert_eq!(cluster.field("web", field), expected, "{spec}");
    }
    let quoted = "type: LoadBalancer, allocateLoadBalancerNodePorts: \"false\", ports: [{port: 80}]";
    let folder = Folder::new();
    let cluster = folder.with(&[service("lb", quoted)]);
    assert_reported(
        &cluster,
        &["spec.allocateLoadBalancerNodePorts `false`: must be true or false, without quotes"],
    );
    assert_ne!(cluster.field("lb", "/spec/ports/0/nodePort"), "");
}

#[test]
fn an_address_that_a_changed_range_takes_away_is_reported() {
    let mut folder = Folder::new();
    let old = folder.with(&[service("web", "{}")]).field("web", "/spec/clusterIP");
    folder.set_service_cidr("10.111.0.0/16");
    let cluster = folder.with(&[service("web", "{}"), service("new", "{}")]);
    let new = cluster.field("web", "/spec/clusterIP");
    assert!(new.starts_with("10.111."), "{new}");
    assert_reported(
        &cluster,
        &[&format!("Service default/web: spec.clusterIP `{old}`"), "--service-cidr", &new],
    );
    assert_eq!(cluster.reports().len(), 1, "{:#?}", cluster.reports());
    drop(cluster);
    assert_eq!(folder.with(&[service("web", "{}")]).reports(), [""; 0], "once is enough");
}

fn six() -> Vec<Change> {
    (1..=6).map(|n| service(&format!("s{n}"), "{}")).collect()
}

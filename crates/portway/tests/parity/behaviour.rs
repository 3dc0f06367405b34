//! What upstream does, mode by mode, beside what we do.

use dataplane::registry;

use crate::markdown::table;
use Verdict::{Better, Same, Without};

/// How a mode does it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// As upstream's mode does it.
    Same,
    /// Otherwise, for the reason in the row.
    Better,
    /// This mode has no such thing, here or there.
    Without,
}

/// Modes that differ from the others in a point, by name.
type Exceptions = &'static [(&'static str, Verdict)];

/// A point: what holds in every mode, but for these; why, where it differs from upstream; and what shows it.
struct Row {
    point: &'static str,
    usual: Verdict,
    exceptions: Exceptions,
    why: &'static str,
    shown: &'static str,
}

const fn same(point: &'static str, shown: &'static str) -> Row {
    Row { point, usual: Same, exceptions: &[], why: "", shown }
}

const fn better(point: &'static str, why: &'static str, shown: &'static str) -> Row {
    of(point, Better, &[], why, shown)
}

const fn of(
    point: &'static str,
    usual: Verdict,
    exceptions: Exceptions,
    why: &'static str,
    shown: &'static str,
) -> Row {
    Row { point, usual, exceptions, why, shown }
}

impl Row {
    fn verdict(&self, mode: &str) -> Verdict {
        let own = self.exceptions.iter().find(|(name, _)| *name == mode);
        own.map_or(self.usual, |(_, verdict)| *verdict)
    }
}

const SERVICES: &[Row] = &[
    same("ClusterIP, over all ready endpoints of all slices", "cluster-ip-spreads-over-pods"),
    same("NodePort", "node-port-answers-on-the-node"),
    same("LoadBalancer: the balancer's IP is served on the node", "load-balancer-ip-is-served-on-the-node"),
    same("`ipMode: Proxy` is left to the balancer", "load-balancer-ip-of-a-proxy-is-left-alone"),
    same("external IPs", "external-ip-is-served-like-a-load-balancer"),
    same(
        "no external IPs, with the feature gate `AllowServiceExternalIPs` off",
        "external-ips-are-not-served-where-the-gate-is-off",
    ),
    same("`allocateLoadBalancerNodePorts: false`", "load-balancer-without-node-port"),
    same(
        "type, node ports, `trafficDistribution` and affinity that change on a live Service",
        "root_services_that_change_while_they_are_served_are_served_as_they_say_now",
    ),
    same("both families, or one", "dual-stack-answers-in-both-families"),
    of("TCP and UDP; SCTP", Same, &[], "userspace: TCP and UDP, as upstream's was", "sctp-service"),
    same("headless Services and ExternalName are not served", "headless-and-external-name-are-not-proxied"),
    same("`service.kubernetes.io/service-proxy-name`", "service-of-another-proxy-is-left-alone"),
    same("`service.kubernetes.io/headless` on slices", "headless-label-counts-on-slices-only"),
    better(
        "two Services claim one address and port",
        "the older keeps it, the other is reported and takes over later; upstream: the last write wins. A function of state is the same on every node",
        "two-services-claim-one-address",
    ),
    better(
        "weights",
        "`portway.io/weights` and `portway.io/weight`, asked for by users; upstream has none",
        "weights-on-the-service",
    ),
    better(
        "an allow-list for external IPs",
        "CVE-2020-8554: whoever may create a Service may otherwise take any address",
        "external-ips-outside-the-allow-list-are-refused",
    ),
];

const ENDPOINTS: &[Row] = &[
    same("ready, serving, terminating; unset conditions", "conditions-that-are-not-said"),
    same("terminating endpoints serve when no other does", "terminating-pods-serve-when-no-other-does"),
    same("zone hints and node hints", "node-hints-come-before-zone-hints"),
    same(
        "endpoints in the host network, from pods, nodes and outside",
        "root_endpoints_in_the_host_network_are_reached_from_everywhere",
    ),
    same("the first address of an endpoint alone is used", "only-the-first-address-of-an-endpoint-is-used"),
    better(
        "an endpoint at an address of a Service, in loopback, link-local, multicast, unspecified or broadcast ranges",
        "refused with a report: such an endpoint turns the node against itself",
        "strange-endpoint-addresses-are-refused",
    ),
    better(
        "an EndpointSlice port without a name",
        "an unnamed port; upstream ignores it, and hand-written slices leave it out",
        "slice-ports-without-name-or-number",
    ),
    better(
        "one object that cannot be read",
        "its good part is served, the bad part reported",
        "malformed-slice-keeps-its-good-part",
    ),
];

const POLICIES: &[Row] = &[
    same(
        "`externalTrafficPolicy: Local` keeps the client's address",
        "local-policy-keeps-the-client-address",
    ),
    of(
        "`externalTrafficPolicy: Local` or `internalTrafficPolicy: Local` without a local endpoint: dropped",
        Same,
        &[("ipvs", Better)],
        "upstream's ipvs mode falls back to all endpoints",
        "local-policy-without-local-endpoint-drops-outside-traffic",
    ),
    of(
        "pods and this host, dialling a frontend with `externalTrafficPolicy: Local`, reach all endpoints",
        Same,
        &[("ipvs", Better)],
        "upstream's ipvs mode has one set of endpoints; here a second virtual server, by mark, has those for the outside",
        "local-policy-has-a-short-cut-for-pods-and-this-host",
    ),
    same("`internalTrafficPolicy: Local`", "internal-policy-local-stays-on-the-node"),
    same("`sessionAffinity: ClientIP` and its time", "affinity-timeout-is-the-services-own"),
    of(
        "affinity is kept over a restart, and lost with another mode",
        Same,
        &[],
        "userspace: lost with a restart too, as upstream's was",
        "root_affinity_outlives_restarts_and_another_iptables_program_but_no_other_mode",
    ),
    same(
        "a rolling update with `externalTrafficPolicy: Local` behind a balancer that asks `healthCheckNodePort`",
        "root_a_rolling_update_behind_a_balancer_that_asks_for_health_fails_no_connection",
    ),
    same("`loadBalancerSourceRanges`", "source-ranges-keep-strangers-from-the-load-balancer"),
    better(
        "`loadBalancerSourceRanges` whose entries cannot be read",
        "nobody but those in readable entries is allowed; upstream allows everybody. A typing mistake must not open a door",
        "malformed-source-range-does-not-open-the-door",
    ),
    same(
        "masquerade: by cluster CIDR, node CIDR, bridge, interface prefix",
        "masquerade-by-interface-prefix",
    ),
    same("masqueradeAll", "masquerade-all-hides-pods-too"),
    same(
        "traffic of no Service keeps its source, also with masqueradeAll",
        "traffic-of-no-service-keeps-its-source",
    ),
    better(
        "hairpin of an endpoint whose `nodeName` is not set",
        "masqueraded; upstream's nftables mode does not, and hand-written slices leave it out",
        "hairpin-is-masqueraded",
    ),
    better(
        "`nodePortAddresses` of one family only",
        "the other family has the mode's default; upstream: all addresses (docs/decisions/0005)",
        "node-port-networks-count-per-family",
    ),
    of(
        "node ports on localhost answer this host alone",
        Same,
        &[("iptables", Better)],
        "upstream's iptables rules lead a neighbour's packet for 127.0.0.1 to an endpoint (CVE-2020-8558)",
        "root_nobody_else_reaches_node_ports_on_localhost",
    ),
    of(
        "node ports on localhost without `route_localnet`",
        Better,
        &[],
        "CVE-2020-8558; upstream sets it in iptables mode by default and leaves it set",
        "root_node_ports_answer_on_localhost",
    ),
];

const REFUSALS: &[Row] = &[
    same("a Service without endpoints refuses at once", "service-without-endpoints-refuses"),
    of(
        "a refused TCP connection is answered with a reset",
        Same,
        &[("nftables", Better)],
        "ICMP errors are rate limited, and a lost one is a timeout (docs/decisions/0010)",
        "root_a_service_without_endpoints_refuses_at_once",
    ),
    of(
        "refusals of this host's own packets, of source ranges without endpoints, of node ports",
        Same,
        &[("iptables", Better)],
        "as in every other mode; crates/dataplane/src/iptables/README.md has a row for each",
        "this-host-is-refused-like-its-clients",
    ),
    of(
        "a packet that is translated to an address and port for which another Service has no endpoint",
        Without,
        &[("iptables", Same)],
        "refused by upstream's rule, though `fate()` says otherwise (docs/decisions/0014)",
        "dead-service-next-to-a-living-one",
    ),
];

const KERNEL: &[Row] = &[
    same(
        "a UDP client that keeps its socket follows its pod: ready, on another port, replaced; at every frontend, under every policy",
        "root_a_kept_udp_socket_follows_its_pod_at_every_frontend",
    ),
    same(
        "large payloads pass every frontend unchanged: 3 MB over TCP, a fragmented datagram of 60,000 bytes",
        "root_large_payloads_pass_every_frontend_unchanged",
    ),
    better(
        "stale flows",
        "UDP and SCTP, also of deleted Services, node ports on this node's addresses; upstream: UDP, when endpoints change, node ports by port alone (docs/decisions/0003)",
        "stale-flows-of-a-deleted-service",
    ),
    better(
        "a TCP client of a Pod that has vanished",
        "is reset at its next packet (`--vanished-tcp reset`); upstream's waits for about 15 minutes (docs/decisions/0024)",
        "root_clients_of_a_vanished_pod_are_reset_and_all_others_go_on",
    ),
    of(
        "a change costs what it changes",
        Better,
        &[],
        "docs/benchmarks.md; upstream's iptables mode prints all Services in each full sync",
        "a_replaced_endpoint_writes_its_own_chains",
    ),
    of(
        "the kernel's refusal of one Service",
        Better,
        &[],
        "that one stays as it was and is reported; upstream's whole sync fails",
        "root_userspace_names_the_service_that_no_port_is_left_for",
    ),
    of(
        "others who write into our tables",
        Better,
        &[],
        "noticed and repaired: nftables at once, others by comparison; upstream: iptables alone, by a canary",
        "root_what_others_do_to_our_tables_is_noticed_and_repaired",
    ),
    of(
        "a hand-over from one process to the next",
        Better,
        &[],
        "`--take-over`: no gap, and connections that userspace mode carries go on; upstream has none",
        "root_a_hand_over_disturbs_nobody",
    ),
    of(
        "rules of another mode, upstream's or ours, are removed, also without an iptables program",
        Better,
        &[],
        "no connection is dropped; upstream cleans up other modes' rules at its start",
        "root_taking_over_from_upstreams_chains_in_iptables_legacy_disturbs_nobody",
    ),
    of(
        "endpoints that wait for their connections",
        Without,
        &[("ipvs", Better), ("userspace", Same)],
        "found again after a restart, and limited by `--ipvs-drain-limit`; upstream forgets them, and has no limit",
        "root_endpoints_that_drain_are_found_again_after_a_crash",
    ),
    of(
        "cleanup",
        Same,
        &[("ipvs", Better), ("userspace", Better)],
        "ipvs: ours and upstream's alone, all sets, former settings; upstream removes all virtual servers and leaves IPv6 sets",
        "root_a_cleanup_leaves_nothing_and_gives_settings_back",
    ),
    of(
        "a TCP segment far ahead of the window",
        Same,
        &[("nftables", Better)],
        "upstream's nftables mode lets it pass, and the client resets its connection; here it is dropped by its source, and replies that alone are routed over the node pass. iptables mode drops what is invalid and forwarded, as upstream; in iptables and ipvs mode, masqueraded connections and those of the node itself are still reset, and `--conntrack-tcp-be-liberal` helps (docs/decisions/0029)",
        "root_a_stray_segment_resets_no_connection",
    ),
    of(
        "`--ipvs-interface`, `portway.io/ipvs-scheduler`",
        Without,
        &[("ipvs", Better)],
        "an interface of the operator's choice, a scheduler for each Service; asked for by users",
        "root_a_service_gets_every_scheduler_that_the_kernel_has",
    ),
    of(
        "nfacct objects",
        Without,
        &[("iptables", Better)],
        "none are made: each rule counts by itself, with either program and without a module, and the two that upstream's metrics are about are read",
        "root_what_a_move_to_nftables_would_change_is_counted",
    ),
];

const CLUSTER: &[Row] = &[
    better(
        "a change of ServiceCIDRs",
        "acted upon at once; upstream waits up to an hour",
        "service_cidrs_count_at_once_when_they_come",
    ),
    better(
        "a change of the Node: IPs, pod CIDR, zone, deletion",
        "followed; upstream exits",
        "node-object-that-goes-and-comes",
    ),
    better(
        "an older picture from a stale server",
        "refused until the server has caught up, or for ten minutes; upstream takes it after a new list, and never notices where a watch goes on",
        "an_older_picture_is_refused_until_the_server_has_caught_up",
    ),
    better(
        "a program of `users[].user.exec` that hangs",
        "ended after 30 s with all that it started, and named with its last words; upstream waits for ever",
        "a_program_that_hangs_is_killed_and_named",
    ),
    better(
        "`/healthz` before the first sync went well, a sync that hangs, a program that fights for our tables",
        "red after 2 × syncPeriod of failures: a node without rules should get no clients; upstream stays green, or does not notice",
        "syncs_that_fail_for_two_periods_turn_red_and_one_that_goes_well_green",
    ),
    better(
        "`/healthz` of a node that never had rules, while the source tells nothing",
        "red after 2 × syncPeriod, and `/livez` green, since a restart would not help; upstream stays green. Rules of an earlier life, of another mode and of upstream count",
        "a_node_that_never_had_rules_and_hears_nothing_is_bare_after_two_periods_until_the_first_sync",
    ),
    better(
        "readiness of a pod in a rolling update",
        "`portway status --ready` is true when the rules of this very process are in force, so a broken image stops the update; upstream has HTTP alone, which two pods of a node share",
        "root_in_a_rolling_update_a_pod_is_ready_only_while_its_own_rules_are_in_force",
    ),
    better(
        "SIGHUP",
        "reads manifests and config file again; upstream ends",
        "root_sighup_has_kube_proxy_read_its_config_file_again",
    ),
    better(
        "a port in use",
        "tried again every second, and told in status, metrics and Events; upstream: every 5 s",
        "root_a_port_in_use_is_told_and_taken_later_or_ends_the_start",
    ),
    better(
        "`healthCheckNodePort`: endpoints of weight 0",
        "not counted: they get no new connection",
        "health-check-counts-local-endpoints",
    ),
    better(
        "a setting of the connection tracker that cannot be written",
        "a warning; upstream ends. Rules matter more than limits",
        "root_settings_are_made_that_were_asked_for",
    ),
    better(
        "the configuration file changes",
        "what can change without a restart does, and the rest is said; upstream exits",
        "root_a_changed_config_map_counts_without_a_restart",
    ),
    same(
        "`clusterCIDR` of a family in which this node has no address: told, and refused on a host of one family",
        "pods_of_the_other_family_are_told_and_refused_where_there_is_no_other_family",
    ),
    same(
        "addresses of a family that this host does not have are told, and that of the node itself is refused",
        "addresses_of_the_other_family_are_told_where_there_is_one_family",
    ),
    better(
        "`spec.podCIDRs` of the other family in detectLocalMode NodeCIDR",
        "reported on the Node, and followed when it changes; upstream ends",
        "a_node_whose_pod_networks_are_of_the_other_family_is_reported_where_pods_are_known_by_them",
    ),
    better(
        "without a cluster",
        "the same program, from files: `--from`; ports for health and metrics stay closed unless named",
        "root_without_options_nothing_listens_and_nothing_is_set",
    ),
];

const GROUPS: [(&str, &[Row]); 6] = [
    ("Services", SERVICES),
    ("Endpoints", ENDPOINTS),
    ("Policies and addresses", POLICIES),
    ("Refusals", REFUSALS),
    ("In the kernel", KERNEL),
    ("In a cluster", CLUSTER),
];

fn word(verdict: Verdict) -> String {
    match verdict {
        Same => "same",
        Better => "better",
        Without => "–",
    }
    .to_owned()
}

pub(crate) fn section() -> String {
    let row = |row: &Row| {
        let verdicts = registry::product_modes().map(|mode| word(row.verdict(mode.name()))).collect();
        [vec![row.point.to_owned()], verdicts, vec![row.why.to_owned(), format!("`{}`", row.shown)]].concat()
    };
    let names: Vec<&str> = registry::product_modes().map(|mode| mode.name()).collect();
    let head = [&["point"], &names[..], &["why", "shown by"]].concat();
    let groups = GROUPS.map(|(name, rows)| format!("### {name}\n\n{}", table(&head, rows.iter().map(row))));
    format!("## Behaviour\n\n{}", groups.join("\n"))
}

pub(crate) fn shown_by() -> impl Iterator<Item = &'static str> {
    rows().map(|row| row.shown)
}

fn rows() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().flat_map(|(_, rows)| rows.iter())
}

#[test]
fn a_mode_that_differs_says_why() {
    for row in rows() {
        let differs = row.usual == Better || row.exceptions.iter().any(|(_, verdict)| *verdict == Better);
        assert!(!differs || !row.why.is_empty(), "{}", row.point);
    }
}

#[test]
fn exceptions_are_of_modes_that_exist_and_differ() {
    let names: Vec<&str> = registry::product_modes().map(|mode| mode.name()).collect();
    for row in rows() {
        for (name, verdict) in row.exceptions {
            assert!(names.contains(name), "{}: there is no mode `{name}`", row.point);
            assert!(*verdict != row.usual, "{}: `{name}` is no exception", row.point);
            let count = row.exceptions.iter().filter(|(other, _)| other == name).count();
            assert_eq!(count, 1, "{}: `{name}` has two verdicts", row.point);
        }
    }
}

#[test]
fn a_mode_that_no_row_names_has_a_verdict_in_each() {
    assert!(rows().all(|row| row.verdict("newcomer") == row.usual));
    let differing = rows().filter(|row| !row.exceptions.is_empty()).count();
    assert!(differing > 0 && rows().count() > 2 * differing, "a verdict that holds for most is a good guess");
}

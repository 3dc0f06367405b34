//! `--config` of `explain` and `render`: the settings of a kube-proxy's config file, without a running portway.

use crate::harness::Place;

const OBJECTS: &str = "\
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, clusterIP: 10.96.0.20, selector: {app: web}, ports: [{port: 80, nodePort: 30080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
status: {podIP: 10.244.2.7}
";

fn place(fields: &str) -> Place {
    let place = Place::with(OBJECTS);
    let kind = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    std::fs::write(place.path("config.conf"), format!("{kind}{fields}")).unwrap();
    place
}

#[test]
fn explain_answers_with_the_settings_of_a_config_file() {
    let ask = "explain node 127.0.0.1:30080 --node-ip 192.0.2.10 --config config.conf";
    let place = place("mode: iptables\niptables: {localhostNodePorts: false}\n");
    let said = place.portway(ask).ends_with(0);
    said.says(&["Untouched"]);
    let said = place.portway(&format!("{ask} --iptables-localhost-nodeports")).ends_with(0);
    said.says(&["10.244.2.7:80"]);
    let on = self::place("mode: iptables\niptables: {localhostNodePorts: true}\n");
    on.portway(ask).ends_with(0).says(&["10.244.2.7:80"]);
}

#[test]
fn explain_takes_the_choices_about_packets_from_a_config_file_and_options_override_them() {
    let place = place("mode: iptables\nclusterCIDR: 10.244.0.0/16\nnodePortAddresses: [198.51.100.0/24]\n");
    let ask = "--node-ip 192.0.2.10 --config config.conf";
    let inside = place.portway(&format!("explain 10.244.1.5 10.96.0.20:80 {ask}")).ends_with(0);
    inside.says(&["(not masqueraded)"]);
    let given = place.portway(&format!("explain 10.244.1.5 10.96.0.20:80 {ask} --masquerade-all"));
    given.ends_with(0).says(&["(masqueraded)"]);
    let node_port = format!("explain outside 192.0.2.10:30080 {ask}");
    place.portway(&node_port).ends_with(0).says(&["Untouched"]);
    let given = place.portway(&format!("{node_port} --nodeport-addresses 192.0.2.0/24")).ends_with(0);
    given.says(&["10.244.2.7:80"]);
}

#[test]
fn render_writes_with_the_settings_of_a_config_file_and_its_mode_is_overridden() {
    let place = place("mode: iptables\niptables: {masqueradeBit: 7}\nclusterCIDR: 10.244.0.0/16\n");
    let rules = place.portway("render --config config.conf").ends_with(0);
    rules.says(&["KUBE-SVC-", "0x000080/0x000080", "! -s 10.244.0.0/16"]);
    let rules = place.portway("render --config config.conf --mode nftables").ends_with(0);
    rules.says(&["table ip kube-proxy"]);
}

/// What the user saw: `render` printed a rule that was not in force.
#[test]
fn render_drops_no_invalid_packet_where_the_config_file_makes_the_tracker_liberal() {
    for (field, drops) in [("true", false), ("false", true)] {
        let liberal = format!("conntrack: {{tcpBeLiberal: {field}}}");
        let place = place(&format!("mode: iptables\nnodePortAddresses: [primary]\n{liberal}\n"));
        let rules = place.portway("render --config config.conf").fine();
        assert_eq!(rules.contains("--ctstate INVALID -j DROP"), drops, "{rules}");
    }
}

#[test]
fn explain_names_the_protocol_where_sctp_is_not_served_on_localhost() {
    let place = Place::with(&OBJECTS.replace("{port: 80, ", "{port: 80, protocol: SCTP, "));
    let ask = "explain node 127.0.0.1:30080/sctp --mode iptables --node-ip 192.0.2.10";
    place.portway(ask).ends_with(0).says(&["Untouched", "at 127.0.0.1 only TCP and UDP are served"]);
}

#[test]
fn a_config_file_that_cannot_be_used_is_refused_with_the_way_out() {
    let place = place("mode: iptable\n");
    let render = "render --config config.conf";
    place.portway(render).refused(1, &["the config file `config.conf` cannot be used", "iptable"]);
    place.portway("render --config none.conf").refused(1, &["none.conf"]);
    place.plain(render).refused(2, &["`--config` needs manifests: add `--from FILE|DIR`"]);
}

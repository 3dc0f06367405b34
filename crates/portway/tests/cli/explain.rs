//! `portway explain`: the packets of the user's documents, and the words that a question may be asked in.

use crate::harness::{Outcome, Place, golden};

fn shares(said: &Outcome) -> Vec<(String, f64)> {
    let json = said.json();
    let endpoints = json["endpoints"].as_array().unwrap_or_else(|| panic!("{said}"));
    let share =
        |e: &serde_json::Value| (e["pod"].as_str().unwrap_or("?").to_owned(), e["share"].as_f64().unwrap());
    endpoints.iter().map(share).collect()
}

#[test]
fn both_mysql_pods_get_half_of_the_connections() {
    let place = Place::with_example("mysql.yaml");
    let said = place.portway("explain 10.244.1.5 mysql-service:3306 --node-name a").ends_with(0);
    said.says(&[
        "192.168.125.129:3306   mysql-0   50 % (1/2)",
        "192.168.125.131:3306   mysql-1   50 % (1/2)",
    ]);
    assert_eq!(said.err, "");
    let said = place.portway("explain 10.244.1.5 mysql-service:3306 -o json");
    assert_eq!(shares(&said), [("mysql-0".to_owned(), 0.5), ("mysql-1".to_owned(), 0.5)]);
}

#[test]
fn both_mysql_pods_still_do_with_a_broken_file_beside() {
    let place = Place::with_example("mysql.yaml");
    place.write("broken.yaml", "kind: Service\nmetadata: {name: [");
    let said = place.portway("explain outside 192.0.2.10:30964 --node-ip 192.0.2.10 -o json").ends_with(0);
    assert_eq!(shares(&said), [("mysql-0".to_owned(), 0.5), ("mysql-1".to_owned(), 0.5)]);
    said.complains(&["warning: manifests/broken.yaml"]);
}

#[test]
fn answers_are_written_for_people() {
    let place = Place::new();
    for (name, arguments) in [
        ("node-port", "explain outside 10.0.0.5:30964"),
        ("hairpin", "explain pod/device-5b6d58dc76-dk4kq device:8080 --cluster-cidr 172.17.0.0/16"),
        ("no-endpoints", "explain 10.244.1.5 10.0.0.5:30239"),
        ("dns", "explain 10.244.1.5 10.96.0.10:53/udp --cluster-cidr 10.244.0.0/16"),
        ("undefined-port", "explain 10.244.1.5 10.96.0.10:80"),
        ("ping", "explain node 10.96.0.10"),
        ("untouched", "explain 10.244.1.5 198.51.100.7:443"),
        ("sticky-local", "explain outside 10.0.0.5:30080"),
        ("weighted", "explain coredns-a default/api:80"),
        ("ipvs", "explain 10.244.1.5 10.96.0.10 --mode ipvs"),
        ("userspace", "explain outside 10.0.0.5:30080 --mode userspace"),
    ] {
        let out = place.on_examples(&format!("{arguments} --node-name a")).fine();
        golden(&format!("explain-{name}.txt"), &out);
    }
}

#[test]
fn an_answer_for_programs_says_all_that_people_are_told() {
    let place = Place::new();
    let json = place.on_examples("explain 10.244.1.5 kube-system/kube-dns:dns -o json --node-name a").json();
    assert_eq!(json["packet"]["protocol"], "udp", "{json:#}");
    assert_eq!(json["fate"], "OneOf", "{json:#}");
    assert_eq!(json["service"], "kube-system/kube-dns", "{json:#}");
    place.on_examples("explain 10.244.1.5 api -o yaml").ends_with(0).says(&["fate: OneOf\n"]);
    assert!(json["why"][0].as_str().is_some_and(|why| why.contains("spec.clusterIPs")), "{json:#}");
}

#[test]
fn both_families_are_dialled_in_their_own() {
    let place = Place::with_example("dual-stack.yaml");
    let dual = "--service-cidr 10.96.0.0/12,fd00:10:96::/112 --node-name a";
    let said = place.portway(&format!("explain fd00:10:244:1::9 web:http {dual}")).ends_with(0);
    said.says(&["[fd00:10:244:1::20]:8080", "web-0", "[fd00:10:244:2::20]:8080", "web-1"]);
    place
        .portway(&format!("explain pod/web-0 web:80 {dual}"))
        .ends_with(0)
        .says(&["10.244.2.20:8080", "web-1"]);
}

#[test]
fn the_service_at_1_2_3_4_leads_to_10_1_0_8() {
    let place = Place::with(
        "{apiVersion: v1, kind: Service, metadata: {name: sample}, spec: {clusterIP: 1.2.3.4, ports: [{port: 8888}]}}\n---\n\
         {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, ports: [{port: 8080}], \
         metadata: {name: sample-1, labels: {kubernetes.io/service-name: sample}}, endpoints: [{addresses: [10.1.0.8]}]}\n",
    );
    let said = place.portway("explain 10.1.0.9 1.2.3.4:8888 --service-cidr 1.2.3.0/24").ends_with(0);
    said.says(&["Goes to this endpoint.", "10.1.0.8:8080   <unknown>   100 % (1/1)"]);
    assert_eq!(said.err, "");
}

#[test]
fn reports_on_the_service_are_told_with_the_answer() {
    let place = Place::with_example("weighted.yaml");
    let text = std::fs::read_to_string(crate::harness::examples().join("weighted.yaml")).unwrap();
    place.write("services.yaml", text.replace("api-canary=1", "api-canary=many"));
    let said = place.portway("explain 10.244.1.5 api:80").ends_with(0);
    said.says(&["75 % (3/4)", "Reports\n", "`api-canary=many`"]);
}

#[test]
fn a_missing_interface_is_noticed() {
    let place = Place::with_example("mysql.yaml");
    let by_bridge = "--detect-local-mode BridgeInterface --pod-bridge-interface cni0";
    let question = format!("explain 10.244.1.5 mysql-service:3306 {by_bridge}");
    place.portway(&question).ends_with(0).says(&["Note: ", "`--interface NAME`", "this node (masqueraded)"]);
    let said = place.portway(&format!("{question} --interface cni0")).ends_with(0);
    said.says(&["through cni0", "10.244.1.5 (not masqueraded)"]);
}

#[test]
fn what_cannot_be_asked_is_refused_with_the_way_out() {
    let place = Place::new();
    for (question, code, words) in [
        ("10.244.1 10.96.0.10:53", 2, ["`10.244.1`", "`pod/NAME`"]),
        ("10.244.1.5 10.96.0.10:99999", 2, ["`10.96.0.10:99999`", "`10.96.0.10:53/udp`"]),
        ("10.244.1.5 10.96.0.10:53/upd", 2, ["`10.96.0.10:53/upd`", "`10.96.0.10:53/udp`"]),
        ("10.244.1.5 10.96.0.10/udp", 2, ["`10.96.0.10/udp`", "no port"]),
        ("10.244.1.5 mysql-servic:3306", 1, ["`mysql-servic`", "`mysql-service`"]),
        ("10.244.1.5 kube-dns", 1, ["which port", "`dns-tcp` (53/tcp)"]),
        ("10.244.1.5 kube-dns:http", 1, ["`http`", "`dns` (53/udp)"]),
        ("pod/mysql-9 10.96.0.10:53", 1, ["`mysql-9`", "`mysql-0`"]),
        ("fd00::1 10.96.0.10:53", 1, ["`fd00::1` is IPv6", "`10.96.0.10` is IPv4"]),
        (
            "10.244.1.5 10.96.0.10:53 --mode nftable",
            2,
            ["unknown mode `nftable`: ", "did you mean `nftables`?"],
        ),
    ] {
        place.on_examples(&format!("explain {question}")).refused(code, &words);
    }
}

#[test]
fn a_protocol_that_a_service_has_not_is_said() {
    let place = Place::new();
    place
        .on_examples("explain 8.8.8.8 web/udp")
        .refused(1, &["Service default/web has no UDP port: it has `http` (80/tcp)"]);
}

#[test]
fn somebody_outside_is_nobody_of_the_cluster() {
    let place = Place::with(
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {externalIPs: [203.0.113.3], ports: [{port: 80}]}}\n---\n\
         {apiVersion: v1, kind: Node, metadata: {name: a}, status: {addresses: [{type: InternalIP, address: 203.0.113.1}]}}\n\
         ---\n{apiVersion: v1, kind: Pod, metadata: {name: p}, status: {podIP: 203.0.113.2}}\n",
    );
    let source = |more: &str| {
        let question = format!("explain outside 203.0.113.3:80 --node-name a -o json {more}");
        place.portway(&question).json()["packet"]["source"].clone()
    };
    assert_eq!(source(""), "203.0.113.4");
    assert_eq!(source("--cluster-cidr 203.0.113.0/24"), "198.51.100.1");
}

#[test]
fn the_node_that_judges_is_the_readers_business() {
    let place = Place::new();
    let said = place.on_examples("explain pod/mysql-1 mysql-service:3306 --node-name a").ends_with(0);
    said.says(&["Note: Pod default/mysql-1 runs on node b", "`--node-name b`"]);
    let json = place.on_examples("explain pod/mysql-1 mysql-service:3306 --node-name c -o json").json();
    let notes: Vec<&str> =
        json["notes"].as_array().unwrap().iter().filter_map(|note| note.as_str()).collect();
    assert!(notes[0].contains("no Node of that name") && notes[0].contains("`--node-name a`"), "{json:#}");
    assert!(notes[1].contains("runs on node b"), "{json:#}");
    let own = place.on_examples("explain pod/mysql-0 mysql-service:3306 --node-name a").fine();
    assert!(!own.contains("Note"), "{own}");
}

#[test]
fn who_names_an_address_that_is_no_frontend_is_said() {
    let place = Place::with(
        "{apiVersion: v1, kind: Service, metadata: {name: lb}, spec: {type: LoadBalancer, ports: [{port: 80}]}, \
         status: {loadBalancer: {ingress: [{ip: 192.0.2.7, ipMode: Proxy}]}}}\n---\n\
         {apiVersion: v1, kind: Service, metadata: {name: ext}, spec: {externalIPs: [198.51.100.9], ports: [{port: 80}]}}\n\
         ---\n{apiVersion: v1, kind: Service, metadata: {name: far}, spec: {type: NodePort, clusterIP: 172.20.0.9, \
         ports: [{port: 80, nodePort: 30080}]}}\n",
    );
    let shared = "--node-ip 192.0.2.10 --allowed-external-ips 192.0.2.0/24";
    for (destination, words) in [
        ("192.0.2.7:80", ["Note: Service default/lb names it (status.loadBalancer.ingress)", "ipMode Proxy"]),
        ("198.51.100.9:80", ["Note: Service default/ext names it (spec.externalIPs", "but: "]),
        (
            "172.20.0.9:80",
            ["Note: Service default/far names it (spec.clusterIP)", "is not one of 10.96.0.0/12"],
        ),
        (
            "192.0.2.10:30080",
            ["Note: Service default/far names the port (spec.ports[0].nodePort)", "no cluster IP"],
        ),
    ] {
        place.portway(&format!("explain 203.0.113.9 {destination} {shared}")).ends_with(0).says(&words);
    }
}

/// `web` and `mail` share an external IP, `lb` has a load balancer's; each has a cluster IP.
fn with_addresses_from_outside() -> Place {
    let service = |name: &str, ip: &str, spec: &str, status: &str| {
        format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {{clusterIP: {ip}, {spec}}}, status: {{{status}}}}}\n---\n"
        )
    };
    let external = "externalIPs: [192.168.99.9, 'fd00:99::9']";
    let both = "clusterIPs: [10.96.0.20, 'fd00:10:96::20'], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack";
    let ingress = "loadBalancer: {ingress: [{ip: 192.168.99.7}]}";
    let web = format!("{both}, {external}, ports: [{{name: http, port: 80}}, {{name: https, port: 443}}]");
    let mail = "externalIPs: [192.168.99.9], ports: [{port: 25}]";
    let lb = "type: LoadBalancer, ports: [{port: 53, protocol: UDP}]";
    Place::with(
        &[
            service("web", "10.96.0.20", &web, ""),
            service("mail", "10.96.0.21", mail, ""),
            service("lb", "10.96.0.22", lb, ingress),
        ]
        .concat(),
    )
}

#[test]
fn an_address_from_outside_without_a_port_is_said_to_be_a_services_and_how_to_ask_for_a_port() {
    let place = with_addresses_from_outside();
    let dual = "--service-cidr 10.96.0.0/12,fd00:10:96::/112";
    for (question, words) in [
        (
            "203.0.113.9 192.168.99.9",
            &[
                "a ping of 192.168.99.9",
                "Untouched",
                "1. 192.168.99.9 is an external IP of Service default/mail (spec.externalIPs)",
                "2. 192.168.99.9 is an external IP of Service default/web (spec.externalIPs)",
                "3. a packet without a port, such as a ping, is for no port of a Service",
                "Note: An address without a port is taken for a ping.",
                "`192.168.99.9:25/tcp` for Service default/mail, `192.168.99.9:80/tcp` for Service default/web",
            ][..],
        ),
        (
            "203.0.113.9 192.168.99.7",
            &[
                "1. 192.168.99.7 is a load balancer IP of Service default/lb (status.loadBalancer.ingress)",
                "`192.168.99.7:53/udp` for Service default/lb",
            ],
        ),
        ("2001:db8::9 fd00:99::9", &["`[fd00:99::9]:80/tcp` for Service default/web"]),
    ] {
        let said = place.portway(&format!("explain {question} {dual}")).ends_with(0);
        said.says(words);
        assert!(!said.out.contains("belongs to no Service"), "{said}");
    }
    let json = place.portway("explain 203.0.113.9 192.168.99.7 -o json").json();
    assert_eq!(json["service"], "default/lb", "{json:#}");
    assert!(json["why"][0].as_str().is_some_and(|why| why.contains("Service default/lb")), "{json:#}");
    assert!(json["notes"].to_string().contains("192.168.99.7:53/udp"), "{json:#}");
}

#[test]
fn an_address_from_outside_with_a_port_that_no_service_has_is_said_to_be_a_services() {
    let said = with_addresses_from_outside().portway("explain 203.0.113.9 192.168.99.7:80").ends_with(0);
    said.says(&[
        "is a load balancer IP of Service default/lb",
        "2. no Service has this port there (spec.ports)",
    ]);
    assert!(!said.out.contains("belongs to no Service") && !said.out.contains("without a port"), "{said}");
}

#[test]
fn an_endpoint_of_this_nodes_own_address_is_said_to_see_the_source_and_nothing_else() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: NodePort, selector: {app: web}, ports: [{port: 80, nodePort: 30080}]}\n";
    let pod = |name: &str, ip: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: web}}}}\nstatus: {{podIP: {ip}}}\n"
        )
    };
    let ask = "explain outside 192.0.2.10:30080 --node-ip 192.0.2.10 --node-name a";
    let alone = Place::with(&(service.to_owned() + &pod("host", "192.0.2.10")));
    let said = alone.portway(ask).ends_with(0);
    said.says(&["(not masqueraded)", "the source is kept: the endpoint has an address of this node"]);
    assert!(!said.out.contains("masqueraded, because"), "{said}");
    let beside = Place::with(&(service.to_owned() + &pod("host", "192.0.2.10") + &pod("far", "10.244.2.7")));
    beside.portway(ask).ends_with(0).says(&[
        "this node (masqueraded)",
        "masqueraded, because spec.externalTrafficPolicy is Cluster",
        "but endpoints with an address of this node see the source",
    ]);
}

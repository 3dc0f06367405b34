//! `portway get`: kubectl's tables, objects as JSON and YAML, and our own routes.

use crate::harness::{Place, created, golden};

fn service(name: &str, spec: &str, created: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  creationTimestamp: \"{created}\"\nspec: {spec}\n"
    )
}

#[test]
fn services_are_listed_as_in_the_first_document() {
    let kubernetes = service("kubernetes", "{clusterIP: 10.254.0.1, ports: [{port: 443}]}", &created(9, 0));
    let ssh = service(
        "ssh-service1",
        r#"{clusterIP: 10.254.132.107, selector: {ssh-service: "true"}, ports: [{port: 2222, targetPort: 22}]}"#,
        &created(3, 2),
    );
    let place = Place::with(&(kubernetes + &ssh));
    let out = place.portway("get service -o wide --service-cidr 10.254.0.0/16").fine();
    golden("get-services-ssh.txt", &out);
}

#[test]
fn services_are_listed_as_in_the_second_document() {
    let of = |name: &str, kind: &str, ip: &str, node_port: &str| {
        format!(
            "{{type: {kind}, clusterIP: {ip}, selector: {{app: {name}}}, ports: [{{port: 8080{node_port}}}]}}"
        )
    };
    let place = Place::with(
        &[
            service(
                "device",
                &of("device", "NodePort", "10.102.64.24", ", nodePort: 31748"),
                &created(5, 19),
            ),
            service("gateway", &of("gateway", "ClusterIP", "10.99.126.231", ""), &created(2, 1)),
            service("traffic", &of("traffic", "ClusterIP", "10.100.159.228", ""), &created(2, 19)),
            service(
                "kubernetes",
                "{clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}",
                &created(7, 7),
            ),
        ]
        .concat(),
    );
    golden("get-services-device.txt", &place.portway("get svc -o wide").fine());
}

#[test]
fn pods_are_listed_as_in_the_second_document() {
    let pod = |name: &str, restarts: u32, age: &str, ip: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, creationTimestamp: \"{age}\"}}, \
             spec: {{nodeName: minikube, containers: [{{name: main, image: main}}]}}, \
             status: {{phase: Running, podIPs: [{{ip: {ip}}}], \
             containerStatuses: [{{name: main, ready: true, restartCount: {restarts}}}]}}}}\n"
        )
    };
    let place = Place::with(
        &[
            pod("device-5b6d58dc76-ddtsm", 0, &created(0, 8), "172.17.0.10"),
            pod("device-5b6d58dc76-dk4kq", 0, &created(2, 23), "172.17.0.5"),
            pod("gateway-594c8d6cb5-25mc6", 7, &created(2, 5), "172.17.0.8"),
            pod("traffic-68cbcb88b9-qqrtk", 0, &created(3, 0), "172.17.0.9"),
        ]
        .concat(),
    );
    golden("get-pods-device.txt", &place.portway("get pods -o wide").fine());
}

/// The cells of a table without the column AGE, which is another one each time.
fn without_ages(table: &str) -> String {
    let split = |line: &str| -> Vec<String> {
        line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let rows: Vec<Vec<String>> = table.lines().map(split).collect();
    let age = rows.first().and_then(|heading| heading.iter().position(|cell| cell == "AGE"));
    let row = |row: Vec<String>| {
        let kept =
            row.into_iter().enumerate().filter(|(column, _)| Some(*column) != age).map(|(_, cell)| cell);
        kept.collect::<Vec<_>>().join(" | ") + "\n"
    };
    rows.into_iter().map(row).collect()
}

#[test]
fn every_resource_of_the_examples_is_listed() {
    let place = Place::new();
    for resource in ["services", "endpoints", "endpointslices", "pods", "nodes", "routes"] {
        let out = place.on_examples(&format!("get {resource} -A -o wide --node-name a")).fine();
        golden(&format!("get-{resource}.txt"), &without_ages(&out));
    }
}

#[test]
fn aliases_of_kubectl_are_understood() {
    let place = Place::new();
    for (alias, name) in
        [("svc", "services"), ("service", "services"), ("ep", "endpoints"), ("po", "pods"), ("no", "nodes")]
    {
        let (short, long) = (format!("get {alias} -A"), format!("get {name} -A"));
        assert_eq!(
            without_ages(&place.on_examples(&short).fine()),
            without_ages(&place.on_examples(&long).fine())
        );
    }
}

#[test]
fn one_object_is_printed_by_itself_and_several_as_a_list() {
    let place = Place::new();
    let one = place.on_examples("get service mysql-service -o json").json();
    assert_eq!(one["kind"], "Service");
    assert!(one["spec"]["clusterIP"].as_str().is_some_and(|ip| ip.starts_with("10.")), "{one}");
    let many = place.on_examples("get services device gateway -o json").json();
    assert_eq!(many["kind"], "List");
    assert_eq!(many["items"].as_array().map(Vec::len), Some(2));
    let routes = place.on_examples("get routes mysql-service -o json").json();
    assert_eq!(routes["items"][0]["inside"]["endpoints"].as_array().map(Vec::len), Some(2), "{routes}");
}

#[test]
fn yaml_can_be_read_back() {
    let place = Place::with_example("mysql.yaml");
    let yaml = place.portway("get services -o yaml").fine();
    let again = Place::with(&yaml);
    assert_eq!(again.portway("get services -o yaml").fine(), yaml);
    assert!(
        yaml.contains("mysql-service: \"true\""),
        "a text that looks like a boolean stays a text:\n{yaml}"
    );
}

#[test]
fn an_assigned_cluster_ip_is_the_same_in_two_runs() {
    let place = Place::with_example("mysql.yaml");
    let ip = || place.portway("get service mysql-service -o json").json()["spec"]["clusterIP"].clone();
    let first = ip();
    assert!(first.is_string(), "{first}");
    assert_eq!(ip(), first);
}

#[test]
fn a_load_balancer_is_pending_until_there_is_a_range_for_it() {
    let place = Place::with_example("load-balancer.yaml");
    place.portway("get services shop").ends_with(0).says(&["<pending>"]);
    let ranged = place.portway("get services shop --load-balancer-cidr 198.51.100.0/28").ends_with(0);
    ranged.says(&["198.51.100."]);
}

#[test]
fn nothing_found_is_said_and_is_no_error() {
    let place = Place::new();
    assert_eq!(place.portway("get services").fine(), "No resources found in default namespace.\n");
    assert_eq!(place.portway("get services -n prod").fine(), "No resources found in prod namespace.\n");
    assert_eq!(place.portway("get pods -A").fine(), "No resources found.\n");
    assert_eq!(place.portway("get nodes").fine(), "No resources found.\n");
    place
        .on_examples("get service wbe")
        .refused(1, &["no Service `wbe` in namespace `default`: did you mean `web`?"]);
}

#[test]
fn strange_objects_are_shown_as_far_as_they_go() {
    let place = Place::with(
        r#"
{apiVersion: v1, kind: Service, metadata: {name: a, labels: [1], annotations: {x: "\u001b[31mred"}}, spec: 5}
---
{apiVersion: v1, kind: Service, metadata: {name: b}, spec: {ports: x, clusterIPs: [1, {}], selector: [], type: Weird}}
---
{apiVersion: v1, kind: Service, metadata: {name: c, creationTimestamp: 7}, spec: {ports: [{port: "80"}, 5, null], clusterIP: None}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: [], status: {podIPs: 5, conditions: {}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n}, status: {addresses: 5}, spec: {unschedulable: "yes"}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, endpoints: [5, {addresses: [x]}], ports: [{}, 7],
 metadata: {name: s, labels: {kubernetes.io/service-name: a}}}
"#,
    );
    for resource in ["services", "endpoints", "endpointslices", "pods", "nodes", "routes"] {
        for format in ["wide", "json", "yaml"] {
            place.portway(&format!("get {resource} -A -o {format}")).ends_with(0);
        }
    }
    let described = place.portway("describe service").ends_with(0).out;
    assert!(!described.contains('\x1b'), "an object cannot colour a terminal: {described:?}");
    place.portway("check").ends_with(1).says(&["spec.type `Weird`", "Pod default/p", "Node n"]);
}

#[test]
fn a_broken_file_is_a_warning_and_the_others_are_shown() {
    let place = Place::with_example("mysql.yaml");
    place.write("broken.yaml", "kind: Service\n  metadata: [");
    let said = place.portway("get services").ends_with(0);
    said.says(&["mysql-service"]);
    assert!(said.err.starts_with("warning: manifests/broken.yaml"), "{said}");
}

#[test]
fn what_cannot_be_read_is_not_shown_as_if_it_counted() {
    let place = Place::with(
        r"
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: Weird, selector: {app: 5}, externalIPs: [x, 192.0.2.7],
 ports: [{port: 99999}, {port: 80, protocol: TPC}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: b}, spec: {clusterIP: none, ports: [{port: 80}]}}
",
    );
    let said = place.portway("get services -o wide").ends_with(0);
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<_> = said.out.lines().skip(1).map(cells).collect();
    assert_eq!(rows[0][1], "ClusterIP", "{said}");
    assert_eq!(rows[0][3..5], ["192.0.2.7", "<invalid>/TCP,80/<invalid>"], "{said}");
    assert_eq!(rows[0][6], "<invalid>", "{said}");
    assert_eq!(rows[1][2], "<none>", "{said}");
    place.portway("describe service b").ends_with(0).says(&["IP:                       <none>\n"]);
    place
        .portway("check")
        .ends_with(1)
        .says(&["spec.clusterIP `none`: is no IP address; the Service has no IP."]);
}

#[test]
fn refused_endpoints_are_not_listed_and_the_others_by_address() {
    let place = Place::with(
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}\n---\n\
         {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, ports: [{port: 8080}], \
         metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}, \
         endpoints: [{addresses: [10.1.0.10]}, {addresses: [10.1.0.9]}, {addresses: [127.0.0.1]}, {addresses: [fd00::9]}]}\n",
    );
    let said = place.portway("get endpoints web").ends_with(0);
    said.says(&["10.1.0.9:8080,10.1.0.10:8080 "]);
    assert!(!said.out.contains("127.0.0.1") && !said.out.contains("fd00"), "{said}");
    assert_eq!(said.err, "warning: 2 problems with objects: see `portway check`\n");
    let described = place.portway("describe service web").ends_with(0);
    described.says(&["Endpoints:                10.1.0.9:8080,10.1.0.10:8080\n"]);
}

#[test]
fn objects_for_programs_always_say_their_namespace() {
    let place = Place::new();
    assert_eq!(place.on_examples("get service web -o json").json()["metadata"]["namespace"], "default");
    let pods = place.on_examples("get pods -A -o json").json();
    let namespaces = pods["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["namespace"].clone());
    assert!(namespaces.into_iter().all(|namespace| namespace.is_string()), "{pods}");
    assert!(place.on_examples("get node a -o json").json()["metadata"]["namespace"].is_null());
}

#[test]
fn a_pod_that_has_ended_is_completed() {
    let place = Place::with(
        "{apiVersion: v1, kind: Pod, metadata: {name: job}, spec: {containers: [{name: main}]}, \
         status: {phase: Succeeded, podIP: 10.1.0.9}}",
    );
    let out = place.portway("get pods").fine();
    let cells: Vec<&str> = out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells[..3], ["job", "0/1", "Completed"]);
}

#[test]
fn paths_that_are_all_refused_are_an_error() {
    let place = Place::new();
    place.write("broken.yaml", "kind: Service\n  metadata: [");
    place
        .plain("get services --from manifests/broken.yaml")
        .refused(1, &["manifests/broken.yaml:2: is not YAML", "nothing of it is in force"]);
    place.plain("get services --from /dev/null").refused(1, &["/dev/null: is a device"]);
    let beside = place.plain("get services --from manifests/broken.yaml --from manifests").ends_with(0);
    beside.complains(&["warning: manifests/broken.yaml"]);
}

#[test]
fn an_address_that_a_changed_range_will_take_away_is_said_before_the_run() {
    let place = Place::with_example("mysql.yaml");
    place.remember();
    let old = place.portway("get service mysql-service -o json").json()["spec"]["clusterIP"].clone();
    let said = place.portway("get services --service-cidr 10.150.0.0/16").ends_with(0);
    said.complains(&["warning: 1 problem with an object: see `portway check`"]);
    let said = place.portway("check --service-cidr 10.150.0.0/16").ends_with(1);
    said.says(&[&format!("spec.clusterIP `{}`: was its own", old.as_str().unwrap())]);
    assert_eq!(place.portway("get services").fine().matches(old.as_str().unwrap()).count(), 1);
}

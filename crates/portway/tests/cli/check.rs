//! `portway check` and `portway render`.

use crate::harness::Place;

#[test]
fn the_examples_are_in_order() {
    let place = Place::new();
    let out = place.on_examples("check").fine();
    assert!(out.starts_with("All is in order: 10 Services, 18 Pods, 2 Nodes"), "{out}");
}

#[test]
fn checking_writes_nothing() {
    let place = Place::with_example("mysql.yaml");
    place.portway("check").fine();
    assert!(!place.state().exists(), "{} was made", place.state().display());
}

#[test]
fn every_problem_is_listed_under_its_file_or_object() {
    let place = Place::with_example("mysql.yaml");
    place.write("broken.yaml", "kind: Service\nmetadata: {name: [");
    place.write(
        "web.yaml",
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {sessionAffinity: Sometimes, ports: [{port: 99999}]}}",
    );
    let said = place.portway("check").ends_with(1);
    said.says(&[
        "manifests/broken.yaml\n",
        "Service default/web (manifests/web.yaml:1)\n",
        "  spec.ports[0].port `99999`: ",
        "  spec.sessionAffinity `Sometimes`: ",
        "3 problems: 1 with files, 2 with objects.",
    ]);
}

#[test]
fn modes_are_rendered_and_an_unknown_one_is_refused() {
    let place = Place::new();
    let text = place.on_examples("render --mode nftables").fine();
    assert!(text.contains("table ip kube-proxy") && text.contains("table ip6 kube-proxy"), "{text}");
    for (family, address) in [("ipv4", "10.111.43.24"), ("ipv6", "KUBE-SERVICES")] {
        let text = place.on_examples(&format!("render --mode iptables --family {family}")).fine();
        assert!(text.contains("*nat\n:KUBE-SERVICES - [0:0]\n") && text.contains(address), "{text}");
    }
    for (family, address) in [("ipv4", "10.111.43.24"), ("ipv6", "KUBE-PORTALS-CONTAINER")] {
        let text = place.on_examples(&format!("render --mode userspace --family {family}")).fine();
        assert!(text.starts_with("# The proxy's ports, from 40000 on, are examples"), "{text}");
        assert!(text.contains(":KUBE-PORTALS-CONTAINER - [0:0]\n") && text.contains(address), "{text}");
    }
    for (family, words) in [("ipv4", "-A -t 10.111.43.24:3306 -s rr\n"), ("ipv6", "PORTWAY-6-LOCAL")] {
        let text = place.on_examples(&format!("render --mode ipvs --family {family}")).fine();
        assert!(text.contains(":PORTWAY-OUTSIDE - [0:0]\n") && text.contains(words), "{text}");
    }
    let chosen =
        place.on_examples("render --mode ipvs --ipvs-scheduler lc --ipvs-interface flannel.1").fine();
    for words in ["-A -t 10.111.43.24:3306 -s lc\n", "address add 10.111.43.24/32 dev flannel.1\n"] {
        assert!(chosen.contains(words), "no {words} in {chosen}");
    }
    place
        .on_examples("render --mode nftable")
        .refused(2, &["unknown mode `nftable`: did you mean `nftables`?"]);
}

#[test]
fn a_weight_of_nobody_is_found() {
    let place = Place::with_example("weighted.yaml");
    let text = std::fs::read_to_string(crate::harness::examples().join("weighted.yaml")).unwrap();
    place.write("services.yaml", text.replace("api-canary=1", "api-canary=1,api-gone=2,10.9.9.9=3"));
    let said = place.portway("check").ends_with(1);
    said.says(&[
        "metadata.annotations[portway.io/weights] `api-gone=2`: no endpoint",
        "`10.9.9.9=3`",
        "2 problems",
    ]);
    assert_eq!(place.portway("get services").ends_with(0).err, "", "pods come and go");
}

#[test]
fn slices_without_effect_do_not_count_as_in_force() {
    let slice = |name: &str, label: &str, family: &str| {
        format!(
            "---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: {family}, ports: [{{port: 80}}], \
             metadata: {{name: {name}, labels: {{{label}}}}}, endpoints: [{{addresses: [10.1.0.9]}}]}}\n"
        )
    };
    let label = "kubernetes.io/service-name: web";
    let place = Place::with(
        &[
            "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}\n",
            &slice("good", label, "IPv4"),
            &slice("lonely", "", "IPv4"),
            &slice("named", label, "FQDN"),
            &slice("early", "kubernetes.io/service-name: later", "IPv4"),
        ]
        .concat(),
    );
    place
        .portway("check")
        .ends_with(1)
        .says(&["in force: 1 Service, 1 EndpointSlice (without effect: 3 EndpointSlices)."]);
}

#[test]
fn each_problem_is_listed_once_and_in_the_order_of_fields() {
    let ports: Vec<String> = (0..12).map(|n| format!("{{name: p{n}, port: 0}}")).collect();
    let place = Place::with(&format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: web}}, spec: {{clusterIP: 5, loadBalancerSourceRanges: 5, \
         ports: [{}]}}}}",
        ports.join(", ")
    ));
    let out = place.portway("check").ends_with(1).out;
    let lines: Vec<&str> = out.lines().filter(|line| line.starts_with("  spec.")).collect();
    let mut once = lines.clone();
    once.dedup();
    assert_eq!(lines, once, "{out}");
    let place_of = |field: &str| lines.iter().position(|line| line.contains(field)).unwrap();
    assert!(place_of("ports[2]") < place_of("ports[10]"), "{out}");
}

#[test]
fn an_unknown_ipvs_scheduler_is_refused_by_name_wherever_one_looks() {
    let place = Place::new();
    place.write(
        "web.yaml",
        "{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {portway.io/ipvs-scheduler: lest}}, \
         spec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}}",
    );
    let words = "metadata.annotations[portway.io/ipvs-scheduler] `lest`: no IPVS scheduler has this name; it must be one of rr, wrr, lc,";
    place.portway("check").ends_with(1).says(&[words, "1 problem: 0 with files, 1 with objects."]);
    place.portway("describe service web").says(&[words]);
    let rendered = place.portway("render --mode ipvs").ends_with(0);
    rendered.says(&["-A -t 10.96.0.9:80 -s rr\n"]);
    assert!(rendered.err.contains("1 problem with an object: see `portway check`"), "{rendered}");
}

//! `portway describe service`, against the outputs in the user's documents.

use crate::harness::{Place, golden};

const SSH: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: ssh-service1, labels: {name: ssh, role: service}}
spec:
  type: LoadBalancer
  clusterIP: 10.254.132.107
  selector: {ssh-service: "true"}
  ports: [{port: 2222, targetPort: 22, nodePort: 30239}]
"#;

const REDIS: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: redis-sentinel, labels: {name: sentinel, role: service}}
spec:
  clusterIP: 10.254.142.111
  selector: {redis-sentinel: "true"}
  ports: [{port: 26379}]
"#;

#[test]
fn ssh_service1_is_described_as_in_the_documents() {
    let place = Place::with(SSH);
    let out = place.portway("describe service ssh-service1 --service-cidr 10.254.0.0/16").fine();
    golden("describe-ssh-service1.txt", &out);
}

#[test]
fn redis_sentinel_is_described_as_in_the_documents() {
    let place = Place::with(REDIS);
    let out = place.portway("describe service redis-sentinel --service-cidr 10.254.0.0/16").fine();
    golden("describe-redis-sentinel.txt", &out);
}

#[test]
fn several_ports_each_show_their_endpoints() {
    let place = Place::new();
    golden("describe-kube-dns.txt", &place.on_examples("describe svc kube-dns -n kube-system").fine());
}

#[test]
fn more_than_three_endpoints_are_counted() {
    let place = Place::with_example("mysql.yaml");
    for number in 2..5 {
        let pod = format!(
            r#"{{apiVersion: v1, kind: Pod, metadata: {{name: mysql-{number}, labels: {{mysql-service: "true"}}}},
                status: {{podIP: 192.168.125.14{number}}}}}"#
        );
        place.write(&format!("pod-{number}.yaml"), pod);
    }
    place.portway("describe service mysql-service").ends_with(0).says(&[":3306 + 2 more...\n"]);
}

#[test]
fn reports_follow_the_usual_lines() {
    let place = Place::with(
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {sessionAffinity: Sometimes, ports: [{port: 80}]}}",
    );
    let said = place.portway("describe service web").ends_with(0);
    said.says(&["Events:", "Reports:", "spec.sessionAffinity `Sometimes`"]);
}

#[test]
fn a_service_that_is_not_there_is_refused_with_the_way_out() {
    let place = Place::new();
    place
        .on_examples("describe service mysql-servic")
        .refused(1, &["`mysql-servic`", "did you mean `mysql-service`?"]);
    place.on_examples("describe service kube-dns").refused(1, &["`kube-dns`", "add `-n kube-system`"]);
    place.on_examples("describe service nowhere-near").refused(1, &["`portway get services -A` lists all"]);
    place.on_examples("describe pod mysql-0").refused(2, &["unknown resource `pod`"]);
}

//! The userspace mode as people run it: carried, counted, refused by name, repaired, ended.
//!
//! The node and its pods are addresses of one namespace's loopback device; traffic stays there.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Place, Running, has_program, skipped};

const NODE: &str = "192.0.2.1";
const POD: &str = "10.244.0.2";
const MODE: &str = "--mode userspace --iptables-program nft --node-ip 192.0.2.1";
const PATIENCE: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(60);

/// A Service of this name with one endpoint.
fn service(name: &str, address: &str, port: u16, protocol: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {{type: NodePort, clusterIP: {address}, \
         ports: [{{port: 80, nodePort: {port}, protocol: {protocol}}}]}}}}\n---\n\
         {{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, \
         metadata: {{name: {name}-1, labels: {{kubernetes.io/service-name: {name}}}}}, \
         ports: [{{port: 8080, protocol: {protocol}}}], endpoints: [{{addresses: [{POD}]}}]}}\n"
    )
}

fn web() -> String {
    service("web", "10.96.0.80", 30080, "TCP")
}

/// A node with one pod, which answers in capitals; `None`, with the reason, where that cannot be.
pub(super) fn node() -> Option<Place> {
    if !has_program("iptables-nft") || !has_program("ip") {
        return skipped("the program `iptables-nft` or `ip` is not installed");
    }
    let place = Place::new()?;
    place.ip("link set lo up");
    for address in [NODE, POD] {
        place.ip(&format!("addr add {address}/32 dev lo"));
    }
    place.ip("route add default dev lo");
    place.write("web.yaml", &web());
    let pod = place.inside(|| TcpListener::bind((POD, 8080)).unwrap());
    // It ends with the process: the namespace goes with the test.
    thread::spawn(move || {
        for stream in pod.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    Some(place)
}

fn answer(mut stream: TcpStream) {
    let mut room = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut room) {
        if stream.write_all(&room[..count].to_ascii_uppercase()).is_err() {
            return;
        }
    }
}

fn dial(place: &Place, to: &str) -> std::io::Result<TcpStream> {
    let to: SocketAddr = to.parse().unwrap();
    place.inside(move || {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    })
}

/// What comes back of `hello`.
fn say(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.write_all(b"hello")?;
    let mut room = [0; 5];
    stream.read_exact(&mut room)?;
    Ok(String::from_utf8_lossy(&room).into_owned())
}

pub(super) fn is_served(place: &Place, to: &str) -> bool {
    dial(place, to).and_then(|mut stream| say(&mut stream)).is_ok_and(|said| said == "HELLO")
}

fn start(place: &Place, arguments: &str) -> Running {
    let running = place.start_with(&format!("{MODE} {arguments}"));
    running.wait_for("portway is in sync");
    running
}

/// A portway that was told to end, and waits for this connection.
fn about_to_end(place: &Place) -> (Running, TcpStream) {
    let running = start(place, "");
    let mut open = dial(place, "10.96.0.80:80").unwrap();
    assert_eq!(say(&mut open).unwrap(), "HELLO");
    running.signal("TERM");
    running.wait_for_log("1 connections are carried by this process");
    (running, open)
}

pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "it is not so that {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn status(place: &Place) -> serde_json::Value {
    place.portway("status -o json").json()
}

#[test]
fn root_userspace_carries_connections_and_counts_them() {
    let Some(place) = node() else { return };
    let _running = start(&place, "");
    let mut open = dial(&place, "10.96.0.80:80").unwrap();
    assert_eq!(say(&mut open).unwrap(), "HELLO");
    for to in ["192.0.2.1:30080", "127.0.0.1:30080"] {
        assert!(is_served(&place, to), "{to}");
    }
    until("what has ended is counted", || status(&place)["relay"]["carried"]["active"] == 1);
    let carried = &status(&place)["relay"]["carried"];
    assert_eq!(
        (&carried["connections"], &carried["bytesIn"], &carried["bytesOut"]),
        (&3.into(), &15.into(), &15.into())
    );
    let routes = place.portway("get routes -o wide").fine();
    assert!(
        routes.contains("CARRIED") && routes.contains("2 connections (1 now), 10 B in, 10 B out"),
        "{routes}"
    );
    assert!(routes.contains("10.244.0.2:8080: 2 connections (1 now)"), "{routes}");
    let by_localhost = routes.lines().find(|line| line.contains("*:30080")).unwrap();
    assert!(by_localhost.contains("1 connections (0 now), 5 B in, 5 B out"), "{routes}");
    let text = place.portway("status").fine();
    assert!(text.contains("userspace, by iptables-nft") && text.contains("3 connections (1 now)"), "{text}");
}

#[test]
fn root_userspace_refuses_sctp_by_name_and_serves_the_others() {
    let Some(place) = node() else { return };
    place.write("signal.yaml", &service("signal", "10.96.0.81", 30081, "SCTP"));
    let running = start(&place, "");
    assert!(is_served(&place, "10.96.0.80:80"));
    let refused = status(&place)["refused"].to_string();
    assert!(refused.contains("default/signal") && refused.contains("SCTP"), "{refused}");
    assert_eq!(running.logged("cannot carry SCTP"), 1);
}

#[test]
fn root_userspace_names_the_service_that_no_port_is_left_for() {
    let Some(place) = node() else { return };
    // One port is enough for one service port; node ports on localhost need none of them.
    let _running = start(&place, "--proxy-port-range 40000 --sync-period 1s");
    assert!(is_served(&place, "10.96.0.80:80"));
    place.write("zeta.yaml", &service("zeta", "10.96.0.82", 30082, "TCP"));
    until("it is told", || status(&place)["refused"].to_string().contains("default/zeta"));
    let refused = status(&place)["refused"].to_string();
    assert!(refused.contains("--proxy-port-range"), "it says what to do: {refused}");
    assert!(is_served(&place, "10.96.0.80:80"), "the other one works");
    place.remove("web.yaml");
    until("the port is free, and the other one has it", || is_served(&place, "10.96.0.82:80"));
}

#[test]
fn root_userspace_refuses_a_range_over_the_node_ports() {
    let Some(place) = node() else { return };
    let outcome = place.portway_from(&format!("run {MODE} --proxy-port-range 32000-33000"));
    outcome.refused(2, &["--proxy-port-range 32000-33000", "node ports 30000-32767"]);
}

#[test]
fn root_userspace_tells_of_a_node_port_that_another_program_has() {
    let Some(place) = node() else { return };
    let other = place.inside(|| TcpListener::bind("0.0.0.0:30080").unwrap());
    let running = start(&place, "");
    assert!(is_served(&place, "192.0.2.1:30080"), "the rules lead there all the same");
    let warned = status(&place)["warned"].to_string();
    assert!(warned.contains("default/web") && warned.contains("30080"), "{warned}");
    assert!(running.logged("another program has") >= 1);
    drop(other);
    drop(running);
    // While portway runs, nobody else gets the port.
    let _running = start(&place, "");
    until("the port is held", || place.inside(|| TcpListener::bind("192.0.2.1:30080").is_err()));
    let held = place.inside(|| UdpSocket::bind("192.0.2.1:30080").is_ok());
    assert!(held, "only the protocol of the Service is held");
}

#[test]
fn root_userspace_repairs_what_others_take_away() {
    let Some(place) = node() else { return };
    let _running = start(&place, "--sync-period 1s");
    let iptables = |arguments: &str| drop(place.tool("iptables-nft", arguments));
    for damage in ["-t nat -F KUBE-PORTALS-HOST", "-t nat -F", "-t nat -D OUTPUT 1", "-F"] {
        iptables(damage);
        until("it is repaired", || {
            is_served(&place, "10.96.0.80:80")
                && place
                    .portway_from("diff --mode userspace --iptables-program nft --node-ip 192.0.2.1")
                    .has_ended_with(0)
        });
    }
    assert_ne!(status(&place)["drift"]["repairs"], 0);
}

#[test]
fn root_userspace_waits_for_connections_when_it_is_told_to_end() {
    let Some(place) = node() else { return };
    let (mut running, mut open) = about_to_end(&place);
    assert_eq!(say(&mut open).unwrap(), "HELLO", "it goes on");
    let mut late = dial(&place, "10.96.0.80:80").unwrap();
    assert_eq!(say(&mut late).unwrap(), "HELLO", "new ones are served");
    drop(open);
    until("it ends with the last connection of before, however many came later", || !running.is_running());
    is_reset(&mut late);
}

#[test]
fn root_userspace_told_twice_ends_at_once_and_resets_what_it_carried() {
    let Some(place) = node() else { return };
    let (mut running, mut open) = about_to_end(&place);
    running.signal("TERM");
    until("it ends", || !running.is_running());
    is_reset(&mut open);
}

/// A client must not take a part of an answer for the whole.
fn is_reset(stream: &mut TcpStream) {
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
}

#[test]
fn root_userspace_that_is_about_to_end_hands_over_when_it_is_asked() {
    let Some(place) = node() else { return };
    let (mut old, mut open) = about_to_end(&place);
    let new = place.start_with(&format!("{MODE} --take-over"));
    new.wait_for("portway is in sync");
    assert!(new.logged("going on with") == 1, "it has the sockets of the old one");
    assert!(is_served(&place, "10.96.0.80:80"));
    assert_eq!(say(&mut open).unwrap(), "HELLO", "what the old one carries goes on");
    drop(open);
    until("the old one ends", || !old.is_running());
    assert!(is_served(&place, "10.96.0.80:80"));
}

#[test]
fn root_userspace_drains_a_removed_service_with_a_limit() {
    let Some(place) = node() else { return };
    let _running = start(&place, "--drain-timeout 2s");
    let mut open = dial(&place, "10.96.0.80:80").unwrap();
    assert_eq!(say(&mut open).unwrap(), "HELLO");
    place.remove("web.yaml");
    until("new connections are not served", || !is_served(&place, "127.0.0.1:30080"));
    assert_eq!(say(&mut open).unwrap(), "HELLO", "what is open goes on");
    let carried = &status(&place)["relay"]["carried"];
    assert_eq!(carried["active"], 1, "and is counted: {carried}");
    until("the limit cuts it", || say(&mut open.try_clone().unwrap()).is_err());
}

#[test]
fn root_userspace_cleanup_leaves_nothing() {
    let Some(place) = node() else { return };
    let before = place.tool("iptables-nft-save", "");
    let mut running = start(&place, "");
    running.terminate();
    place.portway("cleanup --mode userspace").fine();
    let after = place.tool("iptables-nft-save", "");
    assert!(!after.contains("KUBE-"), "before:\n{before}\nafter:\n{after}");
}

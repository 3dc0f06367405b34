//! Graceful termination: an endpoint that goes keeps its TCP connections, and gets no new ones.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use playground::{Ask, Family, Held, Protocol, patient};

use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::PATIENCE;

use crate::cases::ALL;

/// Round robin over three endpoints: a fourth would have been met.
const ASKED: usize = 8;
/// The kernel forgets a connection that was reset after 10 seconds, and it is looked for every 5.
const FORGOTTEN: Duration = Duration::from_secs(20);

pub(crate) fn root_an_endpoint_that_goes_keeps_its_connections_and_gets_no_new_ones(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    for family in Family::ALL {
        let to = web.held_cluster_ip(family);
        let mut held = hold(&stage, to);
        let gone = held.reply().server.clone();
        stage.apply(&web.clone().on(&without(&gone)));
        assert_eq!(stage.weights("a", to).get(&gone), Some(&0), "{gone}: {:?}", stage.weights("a", to));
        assert!(!servers(&stage, to).contains(&gone), "{gone} gets new connections");
        goes_on(&mut held, &gone);
        assert!(stage.status("a").section().unwrap()["draining"].as_u64() > Some(0));
        stage.apply(&web);
        assert_eq!(stage.weights("a", to).get(&gone), Some(&1), "{gone} is back");
        assert!(servers(&stage, to).contains(&gone), "{gone} gets no new connections");
        goes_on(&mut held, &gone);
    }
}

/// Whoever was killed while endpoints drained, the next one goes on: with the connections, and with waiting for their end.
pub(crate) fn root_endpoints_that_drain_are_found_again_after_a_crash(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let to = web.held_cluster_ip(Family::V4);
    let held = Resettable::open(&stage, to);
    let gone = held.server.clone();
    stage.apply(&web.clone().on(&without(&gone)));
    stage.kill("a");
    assert_eq!(stage.weights("a", to).get(&gone), Some(&0));
    stage.start("a");
    stage.wait_for_sync("a");
    assert_eq!(stage.weights("a", to).get(&gone), Some(&0), "{gone} goes on draining");
    assert!(!servers(&stage, to).contains(&gone), "{gone} gets new connections");
    held.reset();
    until_within(FORGOTTEN, "nothing is left of it", || !stage.weights("a", to).contains_key(&gone));
}

pub(crate) fn root_an_endpoint_drains_no_longer_than_the_limit(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.with(&["--ipvs-drain-limit", "8s"]).stage(&[&web]) else { return };
    let to = web.held_cluster_ip(Family::V4);
    let mut held = hold(&stage, to);
    let gone = held.reply().server.clone();
    let begun = Instant::now();
    stage.apply(&web.clone().on(&without(&gone)));
    goes_on(&mut held, &gone);
    until("its time is over", || !stage.weights("a", to).contains_key(&gone));
    assert!(begun.elapsed() >= Duration::from_secs(8), "it had {:?}", begun.elapsed());
    let outcome = held.ping(Duration::from_secs(2));
    assert!(!outcome.is_answered(), "the connection went on: {outcome}");
}

fn hold(stage: &Stage, to: SocketAddr) -> Held {
    Held::open(stage.place("client-a"), Protocol::Tcp, to, &Ask::within(PATIENCE)).unwrap()
}

fn goes_on(held: &mut Held, server: &str) {
    let outcome = held.ping(PATIENCE);
    assert_eq!(outcome.server(), Some(server), "{outcome}");
}

fn without(gone: &str) -> Vec<&'static str> {
    ALL.into_iter().filter(|pod| *pod != gone).collect()
}

/// Who answers new connections.
fn servers(stage: &Stage, to: SocketAddr) -> BTreeSet<String> {
    (0..ASKED).map(|_| hold(stage, to).reply().server.clone()).collect()
}

/// A connection that ends with a reset: one that ends in order is remembered for two minutes.
struct Resettable {
    stream: TcpStream,
    server: String,
}

impl Resettable {
    fn open(stage: &Stage, to: SocketAddr) -> Self {
        let dial = || TcpStream::connect_timeout(&to, patient(PATIENCE)).unwrap();
        let mut stream = stage.place("client-a").run(dial).unwrap();
        stream.set_read_timeout(Some(patient(PATIENCE))).unwrap();
        let mut first = [0; 512];
        let length = stream.read(&mut first).unwrap();
        let said = String::from_utf8_lossy(&first[..length]).into_owned();
        Self { stream, server: said.split(' ').next().unwrap_or_default().to_owned() }
    }

    /// A socket that is closed with something unread resets its connection.
    fn reset(mut self) {
        use std::io::Write as _;
        self.stream.write_all(b"who?\n").unwrap();
        self.stream.peek(&mut [0; 1]).unwrap();
    }
}

#[track_caller]
fn until_within(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    until(what, || {
        assert!(begun.elapsed() < patient(limit), "it is not so that {what}");
        is_so()
    });
}

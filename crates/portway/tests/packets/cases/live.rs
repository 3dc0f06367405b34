//! Changes while traffic runs: no connection fails.
//!
//! `PORTWAY_CONNECTIONS` says how many connections there are at least, 10,000 when it does not.

use std::time::Duration;

use playground::{Ask, Balancer, Family, Held, Load, Ports, Protocol, Stats, Work, many};

use crate::manifest::{HELD_PORT, Service};
use crate::stage::{Setting, Stage, until};
use crate::talk::{PATIENCE, enough, none_failed, turns};

use super::ALL;

/// So many connections end before a server is stopped: by then none of the old rules' is on its way. Each client has two at a time.
const LULL: u64 = 100;
const LULL_MIN: u64 = 10;
/// A client has 55,000 ports, which it takes at random.
const FRESH_PORTS: u64 = 5_000;
/// At most 500 connections in a second, of each client.
const BETWEEN_SLOW_ONES: Duration = Duration::from_millis(4);
/// A machine that is told fewer connections is slow: portway must have its turn there, too.
const BREATH: Duration = Duration::from_millis(10);
const LULL_LIMIT: Duration = Duration::from_secs(30);

/// At first a server is stopped as soon as the rules no longer lead to it, so that a connection that does is refused.
pub(crate) fn root_endpoints_come_and_go_without_a_failed_connection(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let traffic = Traffic::start(&stage, &web);
    let mut turns = ALL.iter().cycle();
    while !traffic.is_enough() {
        let pod = turns.next().unwrap();
        let rest: Vec<_> = ALL.into_iter().filter(|other| other != pod).collect();
        stage.apply(&web.clone().on(&rest));
        traffic.go_on();
        if traffic.is_from_fresh_ports() {
            stage.playground.stop_serving(pod);
            traffic.go_on();
            stage.playground.serve(pod, &Ports::default()).unwrap();
        }
        stage.apply(&web);
        traffic.go_on();
    }
    traffic.end(&stage);
    keeps_what_is_open(&mut stage, &web);
}

pub(crate) fn root_services_come_and_go_beside_one_that_serves(setting: &Setting) {
    const TURNS: u32 = 20;
    let web = Service::new("web", 1).on(&["web-a-0", "web-b-0"]);
    let others: Vec<_> = (2..6).map(|n| Service::new(&format!("other-{n}"), n).on(&ALL)).collect();
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let traffic = Traffic::start(&stage, &web);
    for turn in 0..turns(TURNS) {
        let other = &others[usize::try_from(turn).unwrap() % others.len()];
        stage.apply(other);
        traffic.go_on();
        stage.delete(other);
        traffic.go_on();
    }
    traffic.end(&stage);
}

pub(crate) fn root_a_balancer_goes_on_when_a_node_dies(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    for family in Family::ALL {
        let targets = ["a", "b"].map(|node| stage.place(node).at(family, web.node_port()));
        let balancer = Balancer::start(stage.place("outside"), family, 8000, &targets).unwrap();
        through_balancer(&stage, &balancer);
        assert!(balancer.taken().iter().all(|taken| *taken > 0), "{:?}", balancer.taken());

        // A node without its portway serves as before.
        stage.kill("b");
        through_balancer(&stage, &balancer);

        stage.playground.node("b").unplug().unwrap();
        // What a control plane does with the pods of a node that is gone.
        stage.apply(&web.clone().on(&["web-a-0", "web-a-1"]));
        let taken = balancer.taken();
        through_balancer(&stage, &balancer);
        assert_eq!(balancer.taken()[1], taken[1], "a dead node takes no connections");

        stage.playground.node("b").plug().unwrap();
        stage.start("b");
        stage.wait_for_sync("b");
        stage.apply(&web);
        until("node b takes connections again", || {
            through_balancer(&stage, &balancer);
            balancer.taken()[1] > taken[1]
        });
    }
}

/// Two clients that ask again and again: a pod dials the cluster IP, an outsider a node port.
pub(crate) struct Traffic {
    loads: [(Family, Load); 2],
    enough: u64,
}

impl Traffic {
    pub(crate) fn start(stage: &Stage, web: &Service) -> Self {
        let pause = if enough(10_000) < FRESH_PORTS { BREATH } else { Duration::ZERO };
        Self::start_with(stage, web, pause)
    }

    /// The same with a pause after each connection, for where a port that a client had before must not be met again: see
    /// [`Self::is_from_fresh_ports`].
    pub(crate) fn start_slowly(stage: &Stage, web: &Service) -> Self {
        Self::start_with(stage, web, BETWEEN_SLOW_ONES)
    }

    fn start_with(stage: &Stage, web: &Service, pause: Duration) -> Self {
        let enough = enough(10_000);
        let work = Work { parallel: 2, ask: Ask::within(PATIENCE), pause, ..Work::default() };
        let load = |from, to| Load::start(stage.place(from), to, &work).unwrap();
        let node_port = stage.place("b").at(Family::V6, web.node_port());
        let loads = [
            (Family::V4, load("client-a", web.cluster_ip(Family::V4))),
            (Family::V6, load("outside", node_port)),
        ];
        Self { loads, enough }
    }

    /// Have there been enough connections, of each client its half?
    fn is_enough(&self) -> bool {
        self.loads.iter().all(|(_, load)| load.so_far().ok >= self.enough / 2)
    }

    /// Lets connections pass until there have been enough.
    pub(crate) fn until_enough(&self) {
        while !self.is_enough() {
            self.go_on();
        }
    }

    /// Do clients seldom meet a port that they had a moment ago? If they do, connection tracking takes one SYN of some
    /// 200,000 for a packet of the connection of then (`ct state established`), and no rule is asked: it goes to the endpoint
    /// of then. A counter in the forward hook showed two such SYNs for two refusals, and no new one among 430,000.
    fn is_from_fresh_ports(&self) -> bool {
        self.loads.iter().all(|(_, load)| load.so_far().ok < FRESH_PORTS)
    }

    /// Lets a number of connections pass.
    pub(crate) fn go_on(&self) {
        for (_, load) in &self.loads {
            let lull = (self.enough / LULL).clamp(LULL_MIN, LULL);
            assert!(load.wait_for(lull, LULL_LIMIT), "traffic has come to rest: {}", load.so_far());
        }
    }

    pub(crate) fn end(self, stage: &Stage) {
        for (family, load) in self.loads {
            let stats = load.stop();
            stage.talk.count_stats(family, Protocol::Tcp, &stats);
            none_failed(&stats);
        }
    }
}

/// A connection that is open stays with its endpoint when that is no longer one.
fn keeps_what_is_open(stage: &mut Stage, web: &Service) {
    let to = Family::ALL.map(|family| {
        let mut to = web.cluster_ip(family);
        to.set_port(HELD_PORT);
        to
    });
    let open = |to| Held::open(stage.place("client-a"), Protocol::Tcp, to, &Ask::default()).unwrap();
    let mut held = to.map(open);
    let gone: Vec<String> = held.iter().map(|held| held.reply().server.clone()).collect();
    let rest: Vec<_> = ALL.into_iter().filter(|pod| !gone.iter().any(|gone| gone == pod)).collect();
    stage.apply(&web.clone().on(&rest));
    for (held, gone) in held.iter_mut().zip(&gone) {
        let outcome = held.ping(PATIENCE);
        assert_eq!(outcome.server(), Some(gone.as_str()), "{outcome}");
    }
}

/// Two hundred connections through the balancer, all of which are answered.
fn through_balancer(stage: &Stage, balancer: &Balancer) {
    let work = Work { parallel: 2, ask: Ask::within(PATIENCE), ..Work::default() };
    let stats: Stats = many(stage.place("outside"), balancer.address(), 200, &work).unwrap();
    stage.talk.count_stats(Family::of(balancer.address().ip()), Protocol::Tcp, &stats);
    none_failed(&stats);
}

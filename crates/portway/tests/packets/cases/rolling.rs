//! A rolling update behind a load balancer that asks each node for its health, with `externalTrafficPolicy: Local`.
//!
//! The policy is switched on before and off again afterwards on the live Service: the health check node port comes and goes with it.

use std::net::SocketAddr;
use std::time::Duration;

use playground::{Ask, Balancer, Family, Held, Load, Protocol, Work, health};

use crate::check::Want;
use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::{PATIENCE, none_failed};

/// The health check node port.
const HEALTH: u16 = 32_001;
/// The port of the balancer.
const FRONT: u16 = 8000;
/// So many connections of each family end between two changes.
const LULL: u64 = 20;
const LULL_LIMIT: Duration = Duration::from_secs(30);
/// A slow machine has time for portway, too, and no client meets a port that it had a moment ago: connection tracking would take its SYN
/// for one of the connection of then.
const PAUSE: Duration = Duration::from_millis(10);
const OLD: [&str; 2] = ["web-a-0", "web-b-0"];
const NEW: [&str; 2] = ["web-a-1", "web-b-1"];

pub(crate) fn root_a_rolling_update_behind_a_balancer_that_asks_for_health_fails_no_connection(
    setting: &Setting,
) {
    let everywhere = Service::new("web", 1).of_pods().load_balanced();
    let local = everywhere.clone().health_checked(HEALTH);
    let Some(mut stage) = setting.stage(&[&everywhere.clone().on(&OLD)]) else { return };
    spreads(&stage, &everywhere, &OLD);

    stage.apply(&local.clone().on(&OLD));
    until_health(&stage, "a", Some(200));
    until_health(&stage, "b", Some(200));
    stays(&stage, &local, &OLD);
    let fronts = Family::ALL.map(|family| Front::open(&stage, &local, family));
    let update = Update { web: &local, fronts: &fronts };
    update.replace(&mut stage, "a", OLD[0], NEW[0], OLD[1]);
    update.replace(&mut stage, "b", OLD[1], NEW[1], NEW[0]);
    for front in fronts {
        front.close(&stage);
    }
    stays(&stage, &local, &NEW);

    stage.apply(&everywhere.clone().on(&NEW));
    spreads(&stage, &everywhere, &NEW);
}

/// `externalTrafficPolicy: Cluster`: each node leads to the pods of all nodes, and nobody asks for health.
fn spreads(stage: &Stage, web: &Service, pods: &[&str]) {
    for node in ["a", "b"] {
        until_health(stage, node, None);
    }
    stage.check(&[
        ("outside", stage.node_port("a", web), Want::masqueraded(pods)),
        ("outside", stage.node_port("b", web), Want::masqueraded(pods)),
        ("outside", stage.load_balancer_ip(web), Want::masqueraded(pods)),
    ]);
}

/// `externalTrafficPolicy: Local`: each node leads to its own pod, which sees the client.
fn stays(stage: &Stage, web: &Service, [on_a, on_b]: &[&str; 2]) {
    stage.check(&[
        ("outside", stage.node_port("a", web), Want::kept(&[on_a])),
        ("outside", stage.node_port("b", web), Want::kept(&[on_b])),
        ("outside", stage.load_balancer_ip(web), Want::kept(&[on_a])),
    ]);
}

/// What a node's health check comes to say, of each family; `None` for a port that nobody listens on.
fn until_health(stage: &Stage, node: &str, code: Option<u16>) {
    for family in Family::ALL {
        let at = health_check(stage, node, family);
        until(&format!("{at} answers {code:?}"), || {
            health::status(stage.place("outside"), at, PATIENCE) == code
        });
    }
}

fn health_check(stage: &Stage, node: &str, family: Family) -> SocketAddr {
    stage.place(node).at(family, HEALTH)
}

/// A balancer in front of both nodes, and clients that dial it all the while.
struct Front {
    family: Family,
    balancer: Balancer,
    load: Load,
}

impl Front {
    fn open(stage: &Stage, web: &Service, family: Family) -> Self {
        let target =
            |node| (stage.place(node).at(family, web.node_port()), health_check(stage, node, family));
        let outside = stage.place("outside");
        let balancer = Balancer::asking(outside, family, FRONT, &["a", "b"].map(target)).unwrap();
        let work = Work { parallel: 2, ask: Ask::within(PATIENCE), pause: PAUSE, ..Work::default() };
        let load = Load::start(outside, balancer.address(), &work).unwrap();
        Self { family, balancer, load }
    }

    /// The balancer has come to believe this of node `a` and node `b`, and connections end that began later.
    fn until_healthy(&self, healthy: [bool; 2]) {
        until(&format!("the balancer takes {healthy:?} for healthy"), || self.balancer.healthy() == healthy);
        assert!(self.load.wait_for(LULL, LULL_LIMIT), "traffic has come to rest: {}", self.load.so_far());
    }

    fn close(self, stage: &Stage) {
        let (stats, taken) = (self.load.stop(), self.balancer.taken());
        stage.talk.count_stats(self.family, Protocol::Tcp, &stats);
        none_failed(&stats);
        assert!(stats.servers.keys().eq(["web-a-0", "web-a-1", "web-b-0", "web-b-1"]), "{stats}");
        assert!(taken.iter().all(|taken| *taken > 0), "{taken:?}");
    }
}

/// One pod after the other is replaced.
struct Update<'a> {
    web: &'a Service,
    fronts: &'a [Front; 2],
}

impl Update<'_> {
    /// The only pod of a node terminates and goes, and then there is a new one. The other node has the pod `other`.
    fn replace(&self, stage: &mut Stage, node: &'static str, old: &str, new: &str, other: &str) {
        let mut held = Family::ALL.map(|family| self.hold(stage, node, family));
        // It terminates, and serves those whom the balancer still sends.
        stage.apply(&self.web.clone().on(&[other]).terminating(old, true));
        until_health(stage, node, Some(503));
        stage.check(&[("outside", stage.node_port(node, self.web), Want::kept(&[old]))]);
        for held in &mut held {
            let outcome = held.ping(PATIENCE);
            assert_eq!(outcome.server(), Some(old), "{outcome}");
        }
        drop(held);
        self.until_healthy(["a", "b"].map(|one| one != node));
        // It has gone.
        let taken = self.taken(node);
        stage.playground.stop_serving(old);
        stage.apply(&self.web.clone().on(&[other]));
        stage.check(&[("outside", stage.node_port(node, self.web), Want::Silent)]);
        assert_eq!(self.taken(node), taken, "node {node} has no endpoint, and gets connections");
        // There is a new one.
        stage.apply(&self.web.clone().on(&[other, new]));
        until_health(stage, node, Some(200));
        self.until_healthy([true; 2]);
    }

    fn hold(&self, stage: &Stage, node: &str, family: Family) -> Held {
        let to = stage.place(node).at(family, self.web.held_node_port());
        Held::open(stage.place("outside"), Protocol::Tcp, to, &Ask::within(PATIENCE)).unwrap()
    }

    fn until_healthy(&self, healthy: [bool; 2]) {
        self.fronts.iter().for_each(|front| front.until_healthy(healthy));
    }

    /// How many connections a node has taken.
    fn taken(&self, node: &str) -> Vec<u64> {
        let index = usize::from(node == "b");
        self.fronts.iter().map(|front| front.balancer.taken()[index]).collect()
    }
}

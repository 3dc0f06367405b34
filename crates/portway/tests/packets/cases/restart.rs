//! The program ends, crashes, or gives way to another, while traffic runs and connections are open: nobody notices.

use std::time::Duration;

use playground::{Ask, Family, Held, Protocol};

use crate::manifest::{HELD_PORT, Service};
use crate::stage::{Setting, Stage};
use crate::talk::{PATIENCE, turns};

use super::ALL;
use super::live::Traffic;

/// So many times the program is asked to end, and so many times it is killed.
const TURNS: u32 = 20;
/// A killed program lived for as many of these as there were turns before: it dies while it probes, reads, compares, writes.
const LIFE: Duration = Duration::from_millis(17);
/// So many hand-overs.
const HAND_OVERS: u32 = 10;
/// So many connections are open all the while.
const HELD: usize = 100;

pub(crate) fn root_twenty_restarts_and_twenty_kills_break_nothing(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let mut held = Open::start(&stage, &web);
    let traffic = Traffic::start(&stage, &web);
    for turn in 0..turns(TURNS) {
        let node = ["a", "b"][turn as usize % 2];
        stage.terminate(node);
        traffic.go_on();
        stage.start(node);
        stage.wait_for_sync(node);
        traffic.go_on();
    }
    for turn in 0..turns(TURNS) {
        let node = ["a", "b"][turn as usize % 2];
        stage.kill(node);
        // There is something to write when it comes back, and it dies before, while or after it does.
        stage.apply_unheard(&web.clone().on(&ALL[..2 + turn as usize % 3]));
        stage.start(node);
        std::thread::sleep(LIFE * turn);
        stage.kill(node);
        traffic.go_on();
        stage.start(node);
        stage.wait_for_sync(node);
    }
    traffic.until_enough();
    traffic.end(&stage);
    held.still_talk();
}

pub(crate) fn root_a_hand_over_disturbs_nobody(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let mut held = Open::start(&stage, &web);
    let traffic = Traffic::start(&stage, &web);
    for turn in 0..turns(HAND_OVERS) {
        let node = ["a", "b"][turn as usize % 2];
        stage.hand_over(node);
        traffic.go_on();
        stage.apply(&web.clone().on(&ALL[..2 + turn as usize % 3]));
        traffic.go_on();
    }
    traffic.until_enough();
    traffic.end(&stage);
    held.still_talk();
    drop(held);
    stage.end_old();
}

/// Connections that are open all the while, each with the endpoint that it met.
#[derive(Debug)]
pub(crate) struct Open {
    held: Vec<Held>,
}

impl Open {
    /// Half of them to the cluster IP from a pod, half to a node port from outside; half of each over IPv6.
    pub(crate) fn start(stage: &Stage, web: &Service) -> Self {
        let open = |number: usize| {
            let family = Family::ALL[number % 2];
            let (from, to) = if number % 4 < 2 {
                let mut to = web.cluster_ip(family);
                to.set_port(HELD_PORT);
                ("client-a", to)
            } else {
                ("outside", stage.place("b").at(family, web.held_node_port()))
            };
            Held::open(stage.place(from), Protocol::Tcp, to, &Ask::within(PATIENCE)).unwrap()
        };
        Self { held: (0..HELD).map(open).collect() }
    }

    /// Every one of them is answered, by the same endpoint as before, at the end as all the while.
    #[expect(clippy::print_stderr, reason = "the test's own output")]
    pub(crate) fn still_talk(&mut self) {
        self.talk();
        eprintln!("counted: {} connections held open, 0 broken", self.held.len());
    }

    /// Every one of them is answered, by the same endpoint as before.
    pub(crate) fn talk(&mut self) {
        for held in &mut self.held {
            let before = held.reply().server.clone();
            let outcome = held.ping(PATIENCE);
            assert_eq!(outcome.server(), Some(before.as_str()), "{outcome}");
        }
    }
}

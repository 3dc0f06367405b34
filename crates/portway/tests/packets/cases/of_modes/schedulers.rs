//! How virtual servers choose: every scheduler of the kernel is taken, some are looked at closely, and a change disturbs nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use playground::client::ask;
use playground::{Ask, Family, Held, Protocol};

use crate::manifest::Service;
use crate::stage::{Setting, Stage};
use crate::talk::PATIENCE;

use crate::cases::ALL;
use crate::cases::live::Traffic;

const SCHEDULERS: [&str; 13] =
    ["wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh", "rr"];
/// Few virtual servers: each takes the kernel a while.
const FEW: [&str; 2] = ["--nodeport-addresses", "primary"];
/// So often a client asks; by chance it would meet the same of four endpoints once in 10⁹ times.
const ASKED: usize = 16;

/// By annotation, one after the other.
pub(crate) fn root_a_service_gets_every_scheduler_that_the_kernel_has(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.with(&FEW).stage(&[&web]) else { return };
    for scheduler in SCHEDULERS {
        stage.apply(&web.clone().scheduled(scheduler));
        for family in Family::ALL {
            let found = stage.scheduler("a", web.cluster_ip(family));
            assert_eq!(found.as_deref(), Some(scheduler), "{family:?}");
            who(&stage, "client-a", web.cluster_ip(family));
        }
    }
}

/// The kernel has none for a moment, and would refuse.
pub(crate) fn root_another_scheduler_fails_no_new_connection(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.with(&FEW).stage(&[&web]) else { return };
    let traffic = Traffic::start(&stage, &web);
    for scheduler in ["wrr", "lc", "rr"] {
        stage.apply(&web.clone().scheduled(scheduler));
        traffic.go_on();
    }
    traffic.end(&stage);
}

/// An unknown one is told, and the default serves.
pub(crate) fn root_an_unknown_scheduler_is_told_and_the_chosen_one_serves(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL).scheduled("fastest");
    let Some(stage) = setting.with(&["--ipvs-scheduler", "lc"]).stage(&[&web]) else { return };
    let said = stage.said("a");
    assert!(said.contains("unknown IPVS scheduler `fastest`"), "{said}");
    let to = web.cluster_ip(Family::V4);
    assert_eq!(stage.scheduler("a", to).as_deref(), Some("lc"));
    assert!(ask(stage.place("client-a"), Protocol::Tcp, to, &Ask::within(PATIENCE)).is_answered());
}

pub(crate) fn root_source_hashing_keeps_a_client_and_least_connection_evens_out(setting: &Setting) {
    let hashed = Service::new("hashed", 1).on(&ALL).scheduled("sh");
    let least = Service::new("least", 2).on(&ALL).scheduled("lc");
    let Some(stage) = setting.stage(&[&hashed, &least]) else { return };
    for family in Family::ALL {
        for client in ["client-a", "outside"] {
            let met = (0..ASKED).map(|_| who(&stage, client, hashed.cluster_ip(family)));
            let met: BTreeSet<String> = met.collect();
            assert_eq!(met.len(), 1, "{client} {family:?}: {met:?}");
        }
        let held: Vec<Held> = (0..ASKED).map(|_| hold(&stage, least.held_cluster_ip(family))).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for held in &held {
            *counts.entry(&held.reply().server).or_default() += 1;
        }
        assert_eq!(counts, ALL.map(|pod| (pod, ASKED / ALL.len())).into(), "{family:?}");
    }
}

fn who(stage: &Stage, client: &str, to: SocketAddr) -> String {
    let outcome = ask(stage.place(client), Protocol::Tcp, to, &Ask::within(PATIENCE));
    outcome.server().unwrap_or_else(|| panic!("{client} -> {to}: {outcome}")).to_owned()
}

fn hold(stage: &Stage, to: SocketAddr) -> Held {
    Held::open(stage.place("client-a"), Protocol::Tcp, to, &Ask::within(PATIENCE)).unwrap()
}

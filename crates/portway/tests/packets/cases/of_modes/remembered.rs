//! Which changes of the program session affinity outlives, and which not: a restart, a hand-over, another mode.
//!
//! Before each change all clients are brought to the first of two endpoints, and then both are there. Whoever is remembered stays with
//! the first; whoever is not is drawn anew. What open connections do is the matter of `switch`.

use std::net::IpAddr;

use playground::Family;

use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::way::Way;

use crate::cases::crowd::{FIRST, HOURS, SECOND, gather, servers};
use crate::cases::switch::rules_are_of;

/// That all of so many meet the first endpoint by chance comes once in a million times, of each family.
const CLIENTS: u8 = 20;
/// The node by which all clients come. The other one has no portway.
const NODE: &str = "a";

/// How the program gives way to the next one.
#[derive(Clone, Copy, Debug)]
enum How {
    /// It ends, and the next one starts.
    Restart,
    /// It is killed.
    Kill,
    /// The next one starts with `--take-over`.
    TakeOver,
}

/// What becomes of the affinity of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Kept,
    Lost,
}

pub(crate) fn root_affinity_outlives_restarts_and_another_iptables_program_but_no_other_mode(
    setting: &Setting,
) {
    use How::{Kill, Restart, TakeOver};
    use Memory::{Kept, Lost};
    if !Way::by_kernel().all(Way::is_available) {
        return;
    }
    tour(
        setting,
        &[
            (Restart, "nftables", Kept),
            (Kill, "nftables", Kept),
            (TakeOver, "nftables", Kept),
            (Restart, "iptables-nft", Lost),
            (TakeOver, "iptables-nft", Kept),
            // Lists of `recent` are of the kernel, whichever program leads to them.
            (Restart, "iptables-legacy", Kept),
            (Restart, "iptables-legacy", Kept),
            (Restart, "iptables-nft", Kept),
            (Restart, "nftables", Lost),
            // The relay remembers by itself.
            (Restart, "userspace", Lost),
            (Restart, "userspace", Lost),
            (TakeOver, "userspace", Lost),
            (TakeOver, "nftables", Lost),
        ],
    );
}

pub(crate) fn root_affinity_in_ipvs_outlives_restarts_but_no_other_mode(setting: &Setting) {
    use How::{Kill, Restart, TakeOver};
    use Memory::{Kept, Lost};
    tour(
        setting,
        &[
            (Restart, "ipvs", Kept),
            (Kill, "ipvs", Kept),
            (TakeOver, "ipvs", Kept),
            // On the way back it depends: virtual servers that have not gone yet still know the clients of then.
            (Restart, "nftables", Lost),
        ],
    );
}

fn tour(setting: &Setting, turns: &[(How, &str, Memory)]) {
    let web = Service::new("web", 1).on(&[FIRST]).sticky(HOURS);
    let Some(mut stage) = setting.stage_without_portways(&[&web]) else { return };
    stage.start(NODE);
    stage.wait_for_sync(NODE);
    let crowd = Crowd { clients: Family::ALL.map(|family| gather(&stage, family, CLIENTS)), web };
    for (how, way, memory) in turns {
        crowd.meets_the_first(&mut stage);
        let before = stage.way();
        stage.go(Way::named(way));
        how.change(&mut stage);
        // As long as the rules of the mode before are there, they may decide first.
        until("rules of others are gone", || rules_are_of(&stage, NODE));
        let stayed = crowd.with_the_first(&stage);
        let is_kept = stayed.map(|count| count == usize::from(CLIENTS));
        let wanted = [*memory == Memory::Kept; 2];
        assert_eq!(is_kept, wanted, "from {before} to {way}, by {how:?}: {stayed:?} of {CLIENTS} stayed");
    }
    stage.end_old();
}

impl How {
    fn change(self, stage: &mut Stage) {
        match self {
            Self::TakeOver => return stage.hand_over(NODE),
            Self::Restart => stage.terminate(NODE),
            Self::Kill => stage.kill(NODE),
        }
        stage.start(NODE);
        stage.wait_for_sync(NODE);
    }
}

struct Crowd {
    web: Service,
    /// Of each family.
    clients: [Vec<IpAddr>; 2],
}

impl Crowd {
    /// All clients are with the first endpoint, and stay there when there is a second one.
    fn meets_the_first(&self, stage: &mut Stage) {
        let all = [usize::from(CLIENTS); 2];
        stage.apply(&self.web);
        // In nftables mode clients of an endpoint that is gone still meet it until a second transaction, 5 ms after the first one.
        until("all clients are with the only endpoint", || self.with_the_first(stage) == all);
        stage.apply(&self.web.clone().on(&[FIRST, SECOND]));
        assert_eq!(self.with_the_first(stage), all, "an endpoint that is new takes no client away");
    }

    /// How many clients of each family meet the first endpoint.
    fn with_the_first(&self, stage: &Stage) -> [usize; 2] {
        let of = |family| {
            let clients = &self.clients[usize::from(family == Family::V6)];
            let servers = servers(stage, &self.web, family, clients);
            servers.iter().filter(|server| *server == FIRST).count()
        };
        Family::ALL.map(of)
    }
}

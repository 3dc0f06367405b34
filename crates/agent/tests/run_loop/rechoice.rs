//! What the operator chooses anew while the loop runs.

use std::time::Duration;

use agent::Event;
use config::{Live, PaceOptions};
use model::{NodePortAddress, Rechoice};

use crate::sim::{changed, endpoints, ms, service, sim};

fn live(sync_period: Duration, masquerade_all: bool, node_port_addresses: Vec<NodePortAddress>) -> Event {
    let pace = PaceOptions { sync_period, ..PaceOptions::default() };
    let packets = Rechoice { masquerade_all, node_port_addresses };
    Event::Rechosen(Live { pace, packets, verbosity: 0 })
}

#[test]
fn another_choice_of_masquerading_is_written_at_once_and_the_same_one_is_not() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2), service("api"), endpoints("api", 7, 1)]);
    sim.pass(ms(2_000));
    let before = sim.syncs.len();
    sim.feed(live(ms(30_000), false, Vec::new()));
    sim.pass(ms(1_000));
    assert_eq!(sim.syncs.len(), before, "nothing is new");
    sim.feed(live(ms(30_000), true, Vec::new()));
    sim.pass(ms(1_000));
    assert_eq!(changed(sim.last_work()), ["default/api/tcp", "default/web/tcp"]);
    assert_eq!(sim.differences(), [""; 0]);
    sim.feed(live(ms(30_000), true, vec![NodePortAddress::Localhost]));
    sim.pass(ms(1_000));
    assert_eq!(sim.syncs.len(), before + 2, "where node ports answer is the node's");
    assert_eq!(sim.differences(), [""; 0]);
}

#[test]
fn another_period_counts_from_the_last_comparison() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(5_000));
    let before = sim.syncs.len();
    sim.feed(live(ms(10_000), false, Vec::new()));
    sim.pass(ms(4_000));
    assert_eq!(sim.syncs.len(), before);
    sim.pass(ms(2_000));
    assert_eq!(changed(sim.last_work()), ["everything"]);
    assert_eq!(sim.syncs.len(), before + 1);
}

//! A kernel that refuses what is added for one address: the service port is named and stays as it was, be it absent; all others are in
//! force; and it is there when the kernel takes it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use dataplane::sim::cluster::{Small, tcp};
use dataplane::sim::{End, Ends, SimulatedMode};
use dataplane::{Scope, ServicePortIds, Synced};
use model::{Frontend, ServicePort};

use crate::common::{Simulation, assert_same, expected, from_scratch, refused, settle, sync};
use crate::world::{self, World};

const REFUSED: &str = "10.96.0.2";
/// Another address of a Service, which is all that changes.
const EXTERNAL: &str = "198.51.100.7";
const WORLDS: u64 = 60;
const PROBES: usize = 80;

pub(crate) fn a_refused_service_holds_back_no_other(simulation: &Simulation) {
    let mut node = simulation.node(1);
    refuse(&mut *node, Some(REFUSED));
    let mut small = small(&[("one", "10.96.0.1"), ("two", REFUSED), ("three", "10.96.0.3")]);
    let synced = node.dataplane().sync(&small.table, Scope::Everything).unwrap();
    assert_refused(&synced, "two", REFUSED);
    settle(&mut *node);
    let without = self::small(&[("one", "10.96.0.1"), ("three", "10.96.0.3")]);
    assert_same(&mut *from_scratch(&*node, &without.table), &mut *node, "it is absent");
    // Others go on changing, and it stays named.
    small.take_changed();
    small.endpoints("one", &["10.244.1.9"]);
    let synced = small.follow(node.dataplane());
    assert_eq!((synced.refused.len(), synced.was_full), (1, false));
    // It is tried again with the next full sync.
    refuse(&mut *node, None);
    sync(&mut *node, &small.table, Scope::Everything);
    settle(&mut *node);
    assert_same(&mut *from_scratch(&*node, &small.table), &mut *node, "it is taken");
}

/// Random clusters, of which any cluster IP is refused.
pub(crate) fn whatever_is_refused_all_others_are_served(simulation: &Simulation) {
    let (mut named, mut others, mut packets) = (0, 0, 0);
    for seed in 1..=WORLDS {
        let mut world = World::new(seed);
        let addresses: Vec<IpAddr> = world.table.ports().flat_map(|port| addresses_of(port)).collect();
        if addresses.is_empty() {
            continue;
        }
        let address = *world.random.pick(&addresses);
        let mut node = simulation.node(1);
        assert!(node.refuse(Some(address)));
        let synced = node.dataplane().sync(&world.table, Scope::Everything).unwrap();
        let refused = refused(&*node, &synced);
        for id in &refused {
            let port = world.table.port(id).unwrap();
            // A node port answers at every address of this host.
            let has_it = addresses_of(port).contains(&address) || world.table.node().is_own(address);
            assert!(has_it, "seed {seed}: {id} has not {address}: {synced:?}");
        }
        (named, others) = (named + refused.len(), others + world.table.ports().count() - refused.len());
        // Nothing is said of whatever else is sent to an address that they have.
        let lost: BTreeSet<IpAddr> =
            refused.iter().flat_map(|id| addresses_of(world.table.port(id).unwrap())).collect();
        for _ in 0..PROBES {
            let packet = world.packet();
            let owner = world::owner(&world.table, &packet);
            if lost.contains(&packet.destination)
                || owner.is_some_and(|id| refused.contains(&id))
                || node.is_beyond(&packet, &world.table)
            {
                continue;
            }
            let expected = expected(&*node, &world.table, &packet);
            let ends = node.ends(&packet, &[&world.table]);
            assert_eq!(ends, Ok(expected), "seed {seed}, {address}: {packet:?}");
            packets += 1;
        }
        assert!(node.refuse(None));
        sync(&mut *node, &world.table, Scope::Everything);
        settle(&mut *node);
        let when = format!("seed {seed}: it is taken");
        assert_same(&mut *from_scratch(&*node, &world.table), &mut *node, &when);
    }
    assert!(named > 20 && others > 20 && packets > 1000, "{named} {others}");
    let name = &simulation.name;
    eprintln!("counted: {named} refused service ports of {name}, {others} others, {packets} packets to them");
}

pub(crate) fn a_service_whose_change_is_refused_stays_as_it_was_and_others_follow(simulation: &Simulation) {
    let mut node = simulation.node(1);
    let mut small = small(&[("web", "10.96.0.1"), ("other", "10.96.0.2")]);
    small.say("svc web 10.96.0.1 80 internal=Local");
    small.endpoints("web", &["10.244.0.1"]);
    sync(&mut *node, &small.table, Scope::Everything);
    refuse(&mut *node, Some(EXTERNAL));
    small.take_changed();
    small.endpoints("other", &["10.244.0.3"]);
    let without = small.table.clone();
    small.say(&format!("svc web 10.96.0.1 80 ips={EXTERNAL}"));
    small.endpoints("web", &["10.244.0.7"]);
    for is_full in [false, true] {
        let changed: ServicePortIds = small.take_changed();
        let scope = if is_full { Scope::Everything } else { Scope::Changed(&changed) };
        let synced = node.dataplane().sync(&small.table, scope).unwrap();
        assert_refused(&synced, "web", EXTERNAL);
        assert!(lands(&mut *node, &small, "10.96.0.1", "10.244.0.1"), "full: {is_full}: it stays as it was");
        assert!(lands(&mut *node, &small, "10.96.0.2", "10.244.0.3"), "full: {is_full}: it follows");
        settle(&mut *node);
        assert_same(&mut *from_scratch(&*node, &without), &mut *node, "nothing else is written");
    }
    let mut full = node.copy();
    refuse(&mut *full, None);
    sync(&mut *full, &small.table, Scope::Everything);
    assert!(lands(&mut *full, &small, EXTERNAL, "10.244.0.7"), "it is tried again");
    // A change of it is tried at once.
    refuse(&mut *node, None);
    small.endpoints("web", &["10.244.0.8"]);
    assert!(small.follow(node.dataplane()).refused.is_empty());
    settle(&mut *node);
    assert_same(&mut *from_scratch(&*node, &small.table), &mut *node, "its change is taken");
}

pub(crate) fn after_a_restart_what_the_process_before_left_serves_a_refused_service(simulation: &Simulation) {
    let mut first = simulation.node(1);
    let mut small = small(&[("web", "10.96.0.1")]);
    small.endpoints("web", &["10.244.0.1"]);
    sync(&mut *first, &small.table, Scope::Everything);
    let mut node = first.restart(&simulation.settings(1));
    // What carries connections itself has died with its process.
    let outlives = !simulation.mode.behaviour().relays_connections;
    assert_eq!(lands(&mut *node, &small, "10.96.0.1", "10.244.0.1"), outlives);
    refuse(&mut *node, Some(EXTERNAL));
    small.say(&format!("svc web 10.96.0.1 80 ips={EXTERNAL}"));
    let synced = node.dataplane().sync(&small.table, Scope::Everything).unwrap();
    assert_refused(&synced, "web", EXTERNAL);
    assert!(lands(&mut *node, &small, "10.96.0.1", "10.244.0.1") || !outlives);
    refuse(&mut *node, None);
    sync(&mut *node, &small.table, Scope::Everything);
    assert!(lands(&mut *node, &small, EXTERNAL, "10.244.0.1"));
}

/// What the process before left and no Service asks for is named with the refused Service that keeps it, and the reason; then it goes.
pub(crate) fn rules_that_a_refused_service_keeps_are_told_with_it(simulation: &Simulation) {
    let mut first = simulation.node(1);
    let mut small = small(&[("web", "10.96.0.1"), ("gone", "10.96.0.2")]);
    sync(&mut *first, &small.table, Scope::Everything);
    small.remove("gone");
    small.say(&format!("svc web 10.96.0.1 80 ips={EXTERNAL}"));
    let mut node = first.restart(&simulation.settings(1));
    refuse(&mut *node, Some(EXTERNAL));
    let early = node.copy().dataplane().sync(&small.table, Scope::AllThatIsKnown).unwrap();
    assert!(early.stays.is_empty(), "it stays until all is known anyway: {early:?}");
    let synced = node.dataplane().sync(&small.table, Scope::Everything).unwrap();
    if synced.kept.is_empty() {
        // The mode knows which rules the refused Service had, and removes all others.
        assert!(synced.stays.is_empty(), "{synced:?}");
        return;
    }
    let (reason, told) = (synced.refused.values().next().unwrap(), synced.stays.join("; "));
    for part in ["(10.96.0.2:80/tcp)", "the kernel refuses default/web/tcp,", reason] {
        assert!(synced.stays.len() == 1 && told.contains(part), "{told}");
    }
    refuse(&mut *node, None);
    let taken = sync(&mut *node, &small.table, Scope::Everything);
    let next = sync(&mut *node, &small.table, Scope::Everything);
    assert!(taken.stays.is_empty() && next.stays.is_empty(), "{taken:?}");
    assert_eq!((next.kept, next.left_behind), (BTreeSet::new(), synced.kept), "it goes");
}

fn addresses_of(port: &ServicePort) -> Vec<IpAddr> {
    let address = |frontend| if let Frontend::Address { ip, .. } = frontend { Some(ip) } else { None };
    port.frontends().filter_map(address).collect()
}

fn refuse(node: &mut dyn SimulatedMode, address: Option<&str>) {
    assert!(node.refuse(address.map(|text| text.parse().unwrap())), "the kernel refuses no address");
}

fn assert_refused(synced: &Synced, name: &str, address: &str) {
    let refused: Vec<_> = synced.refused.iter().map(|(id, why)| (id.to_string(), why)).collect();
    assert!(refused.len() == 1 && refused[0].0 == format!("default/{name}/tcp"), "{refused:?}");
    assert!(refused[0].1.contains(address), "{refused:?}");
}

/// Does a pod's packet land at this endpoint alone? Nowhere where it is led to nobody who listens.
fn lands(node: &mut dyn SimulatedMode, small: &Small, to: &str, endpoint: &str) -> bool {
    let packet = tcp("10.244.0.99", &format!("{to}:80"), Some("veth1"));
    let Ends(ends) = node.ends(&packet, &[&small.table]).unwrap_or_default();
    let is_there = |end: &End| end.endpoint().is_some_and(|(at, _)| at.to_string() == endpoint);
    !ends.is_empty() && ends.keys().all(is_there)
}

/// Services with two endpoints each.
fn small(services: &[(&str, &str)]) -> Small {
    let service =
        |(name, ip): &(&str, &str)| format!("svc {name} {ip} 80\nep {name} 8080 10.244.1.1@a 10.244.1.2@a");
    Small::of(&services.iter().map(service).collect::<Vec<_>>().join("\n"))
}

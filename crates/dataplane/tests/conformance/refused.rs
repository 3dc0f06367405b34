//! A kernel that refuses what is added for one address, again and again: the service port is named and absent, all others are in force;
//! and it is there when the kernel takes it.

use dataplane::Scope;

use crate::cluster::Small;
use crate::common::{Simulation, assert_same, from_scratch, settle, sync};

const REFUSED: &str = "10.96.0.2";

pub(crate) fn a_refused_service_holds_back_no_other(simulation: &Simulation) {
    let mut node = simulation.node(1);
    if !node.refuse(Some(REFUSED.parse().unwrap())) {
        return eprintln!("skipped: the kernel of {} refuses no address", simulation.name);
    }
    let mut small = small(&[("one", "10.96.0.1"), ("two", REFUSED), ("three", "10.96.0.3")]);
    let synced = node.dataplane().sync(&small.table, Scope::Everything).unwrap();
    let refused: Vec<_> = synced.refused.iter().map(|(id, why)| (id.to_string(), why.clone())).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].0, "default/two/tcp");
    assert!(refused[0].1.contains(REFUSED), "{refused:?}");
    settle(&mut *node);
    let without = self::small(&[("one", "10.96.0.1"), ("three", "10.96.0.3")]);
    assert_same(&mut *from_scratch(&*node, &without.table), &mut *node, "it is absent");
    // Others go on changing, and it stays named.
    small.take_changed();
    small.endpoints("one", &["10.244.1.9"]);
    let changed = small.take_changed();
    let synced = node.dataplane().sync(&small.table, Scope::Changed(&changed)).unwrap();
    assert_eq!((synced.refused.len(), synced.was_full), (1, false));
    // It is tried again with the next full sync.
    node.refuse(None);
    sync(&mut *node, &small.table, Scope::Everything);
    settle(&mut *node);
    assert_same(&mut *from_scratch(&*node, &small.table), &mut *node, "it is taken");
}

fn small(services: &[(&str, &str)]) -> Small {
    let mut small = Small::new();
    for (name, ip) in services {
        small.service(name, ip, "None");
        small.endpoints(name, &["10.244.1.1", "10.244.1.2"]);
    }
    small
}

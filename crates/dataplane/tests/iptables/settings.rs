//! What a full sync finds: what an earlier life served, and how the connection tracker is set.

use model::{ForwardingTable, Frontend};

use super::*;

const STEPS: usize = 40;

/// Who follows must forget the flows to what went while nobody ran.
#[test]
fn what_an_earlier_life_served_and_nobody_asks_for_is_told() {
    let mut told = 0;
    for seed in 0..20 {
        let mut mode = mode(Variant::Nft, Options::default());
        let mut world = World::new(seed ^ 0x1ef7);
        (0..STEPS).for_each(|_| drop(world.step()));
        everything(&mut mode, &world.table);
        let before = served(&world.table);
        (0..STEPS).for_each(|_| drop(world.step()));
        // Not all is known yet, so nothing goes, and it is told as kept.
        let synced = mode.sync(&world.table, Scope::AllThatIsKnown).unwrap();
        assert_eq!(synced.left_behind, BTreeSet::new(), "seed {seed}");
        let kept = synced.kept;
        let synced = everything(&mut mode, &world.table);
        let is_gone = |frontend: &Frontend| world.table.route(frontend).is_none();
        let gone: BTreeSet<Frontend> = before.into_iter().filter(is_gone).collect();
        assert_eq!(synced.left_behind, gone, "seed {seed}");
        assert_eq!(kept, gone, "seed {seed}");
        told += gone.len();
    }
    assert!(told > 0, "nothing ever went");
}

/// The frontends that lead to endpoints.
fn served(table: &ForwardingTable) -> BTreeSet<Frontend> {
    let routes = table.ports().flat_map(|port| &port.routes);
    routes.filter(|route| route.inside.pool().is_some()).map(|route| route.frontend).collect()
}

#[test]
fn a_liberal_tracker_has_no_invalid_packet_dropped_from_the_next_full_sync_on() {
    let setting = "net/netfilter/nf_conntrack_tcp_be_liberal";
    let table = World::new(1).table;
    for variant in Variant::ALL {
        let doors = Family::ALL.map(|family| Simulated::new(variant, family));
        let settings = kernel_sim::sysctl::Simulated::new([(setting, "1")]);
        let mut mode = Iptables::beside(doors, Options::default(), settings);
        let drops = |mode: &mut Iptables<Simulated>| {
            let saved = mode.doors().map(|door| door.save(Table::Filter).unwrap().unwrap());
            let is_it = |line: &&str| line.starts_with("-A KUBE-FORWARD ") && line.contains("INVALID");
            saved.map(|text| text.lines().filter(is_it).count()).sum::<usize>()
        };
        everything(&mut mode, &table);
        assert_eq!(drops(&mut mode), 0);
        for (value, dropped) in [("0", 2), ("1", 0)] {
            mode.settings().values.insert(setting.to_owned(), value.to_owned());
            let before = drops(&mut mode);
            mode.sync(&table, Scope::Changed(&BTreeSet::new())).unwrap();
            assert_eq!(drops(&mut mode), before, "it is read at full syncs");
            let told = everything(&mut mode, &table).settings;
            assert!(told.len() == 1 && told[0].contains(&format!("be_liberal is {value}")), "{told:?}");
            assert!(everything(&mut mode, &table).settings.is_empty());
            assert_eq!((drops(&mut mode), mode.differences(&table).unwrap()), (dropped, vec![]), "{value}");
        }
    }
}

//! A cheap look for a flush: is what holds our rules together still there?
//!
//! A flush with its chains (`-F`, `-X`) takes the canary, one without (`-F` alone) takes our jumps, of which a mode names some. A save of `filter` and
//! `mangle` is small on every node. One of `nat` grows with the cluster, so that it is asked for only while there are few
//! service ports; on larger nodes the periodic comparison finds a flush of `nat` alone.
//!
//! Absent on purpose: single rules and chains, which are the periodic comparison's.

use kernel::xtables::{Result, Table, Xtables};

use super::names;

/// A save of `nat` with so many service ports of four endpoints takes some tens of milliseconds.
const SMALL: usize = 1_000;

/// Is a table without our canary, or without any jump to one of these chains?
pub(super) fn is_flushed(
    door: &mut impl Xtables,
    landmarks: &[(Table, &str)],
    service_ports: usize,
) -> Result<bool> {
    let nat = (service_ports <= SMALL).then_some(Table::Nat);
    for table in [Table::Mangle, Table::Filter].into_iter().chain(nat) {
        let saved = door.save(table)?.unwrap_or_default();
        let of_table = landmarks.iter().filter(|(of, _)| *of == table);
        if !has_canary(&saved) || of_table.into_iter().any(|(_, chain)| !has_jump(&saved, chain)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_canary(saved: &str) -> bool {
    saved
        .lines()
        .any(|line| line.strip_prefix(':').and_then(|line| line.split(' ').next()) == Some(names::CANARY))
}

fn has_jump(saved: &str, to: &str) -> bool {
    saved.lines().any(|line| line.strip_suffix(to).is_some_and(|line| line.ends_with(" -j ")))
}

#[cfg(test)]
mod tests {
    use kernel::xtables::{Family, Variant};
    use kernel_sim::xtables::Simulated;
    use model::ForwardingTable;

    use super::*;
    use crate::iptables::Options;
    use crate::iptables::sim::Iptables;
    use crate::xtables::Style as _;
    use crate::{Dataplane, Scope};

    /// What `-F` and `-F`, `-X` do to a table.
    fn flush(door: &mut Simulated, table: Table, with_chains: bool) {
        let saved = door.save(table).unwrap().unwrap();
        let chains = || saved.lines().filter_map(|line| line.strip_prefix(':')?.split(' ').next());
        let own = table.own_chains();
        let emptied = chains().map(|chain| format!("-F {chain}\n"));
        let gone = chains().filter(|chain| with_chains && !own.contains(chain));
        let lines: String = emptied.chain(gone.map(|chain| format!("-X {chain}\n"))).collect();
        door.restore(&format!("*{table}\n{lines}COMMIT\n")).unwrap();
    }

    #[test]
    fn a_flush_of_any_table_is_seen_and_none_where_there_was_none() {
        for (table, with_chains, at) in [
            (Table::Filter, true, 0),
            (Table::Nat, true, 0),
            (Table::Mangle, true, 1),
            (Table::Filter, false, 1),
            (Table::Nat, false, 1),
        ] {
            let doors = Family::ALL.map(|family| Simulated::new(Variant::Legacy, family));
            let mut mode = Iptables::new(doors, Options::default());
            mode.sync(&ForwardingTable::default(), Scope::Everything).unwrap();
            assert!(!mode.is_flushed().unwrap());
            flush(mode.doors().nth(at).unwrap(), table, with_chains);
            assert!(mode.is_flushed().unwrap(), "{table}, chains: {with_chains}");
            mode.sync(&ForwardingTable::default(), Scope::Everything).unwrap();
            assert!(!mode.is_flushed().unwrap());
        }
    }

    #[test]
    fn the_documents_say_up_to_how_many_service_ports_a_flush_of_nat_is_noticed_soon() {
        assert_eq!(SMALL, 1_000);
        for document in [
            include_str!("../../../../README.md"),
            include_str!("../../../../docs/operating.md"),
            include_str!("../iptables/README.md"),
        ] {
            assert!(document.contains("up to 1,000 service ports"), "{document}");
        }
    }

    #[test]
    fn on_a_large_node_nat_is_left_to_the_comparison() {
        let mut mode = Iptables::new([Simulated::new(Variant::Nft, Family::V4)], Options::default());
        mode.sync(&ForwardingTable::default(), Scope::Everything).unwrap();
        let door = mode.doors().next().unwrap();
        flush(door, Table::Nat, true);
        let look = |door: &mut Simulated, count| is_flushed(door, Options::LANDMARKS, count).unwrap();
        assert!(look(door, SMALL) && !look(door, SMALL + 1));
        flush(door, Table::Filter, true);
        assert!(look(door, SMALL + 1));
    }
}

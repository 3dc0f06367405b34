//! Resets the next packet of a connection that was ended, where forgetting it is not enough.
//!
//! A connection that the tracker has forgotten goes to a living endpoint with its next packet, which resets it. That fails where no
//! endpoint is left, where a policy drops, and where `nf_conntrack_tcp_loose` is 0. So the connections themselves, by their four numbers,
//! stand for some time in a set of a table of our own beside any mode's rules, and what the kernel no longer knows of them is reset:
//!
//! ```text
//! table ip portway-resets {
//!   set connections { type ipv4_addr . inet_service . ipv4_addr . inet_service; flags timeout; }
//!   chain prerouting { type filter hook prerouting priority mangle;
//!     meta l4proto tcp tcp flags & syn == 0 ct state new,invalid ip saddr . th sport . ip daddr . th dport @connections reject with tcp reset
//! ```
//!
//! No other connection is touched, not even one that has a packet outside of its window: that is why there is no rule for all that is
//! invalid. A new connection with the same four numbers begins with a SYN, and is known from then on.
//!
//! In: connections. Out: a kernel that resets them. The table goes when it is empty for good: with [`remove`].

use std::time::Duration;

use kernel::IpProtocol;
use kernel::conntrack::Tuple;
use kernel::nft::{
    Chain, ChainKind, Element, Error, Family, Field, Flags, Hook, HookPoint, Kernel, Match, Netlink,
    Operation, Policy, Reject, Rule, Selector, Set, Statement, Transaction, Value,
};

/// The name of the table.
pub const TABLE: &str = "portway-resets";
const CONNECTIONS: &str = "connections";
/// After the connection tracker, before any translation and before whatever drops invalid packets.
const PRIORITY: i32 = -150;
/// Longer than the two hours after which an idle connection is probed by default.
const REMEMBERED: Duration = Duration::from_secs(3 * 3600);
/// Maximum number of remembered connections.
const SIZE: u32 = 65_536;

/// Resets these connections at their next packet.
pub fn add<K: Kernel>(kernel: &mut K, connections: &[Tuple]) -> Result<(), Error> {
    for family in Family::ALL {
        let is_v4 = family == Family::V4;
        let of_family = connections.iter().filter(|one| one.source.0.is_ipv4() == is_v4);
        let elements: Vec<Element> = of_family.map(element).collect();
        if !elements.is_empty() {
            let mut transaction = Transaction::new(family, TABLE);
            // A table that is there already gets no second rule.
            if !kernel.tables(family)?.iter().any(|table| &*table.name == TABLE) {
                table(&mut transaction);
            }
            transaction.push(Operation::AddElements(CONNECTIONS.into(), elements));
            kernel.run(&transaction)?;
        }
    }
    Ok(())
}

/// Removes the table from this host's kernel. One without `nf_tables` has none.
pub fn clean_up() -> Result<(), Error> {
    let Ok(mut nft) = Netlink::open() else { return Ok(()) };
    remove(&mut nft).map(drop)
}

/// Removes the table, if it is there. Whether it was.
pub fn remove<K: Kernel>(kernel: &mut K) -> Result<bool, Error> {
    let mut was_there = false;
    for family in Family::ALL {
        if kernel.tables(family)?.iter().any(|table| &*table.name == TABLE) {
            let mut transaction = Transaction::new(family, TABLE);
            transaction.destroy_table();
            kernel.run(&transaction)?;
            was_there = true;
        }
    }
    Ok(was_there)
}

fn table(transaction: &mut Transaction) {
    let key = [Field::Source, Field::Port, Field::Destination, Field::Port];
    let flags = Flags { timeout: true, ..Flags::default() };
    transaction.push(Operation::AddTable(None));
    let set = Set { flags, size: Some(SIZE), ..Set::new(CONNECTIONS, &key) };
    transaction.push(Operation::AddSet(set));
    for (name, point) in [("prerouting", HookPoint::Prerouting), ("output", HookPoint::Output)] {
        let hook = Hook { kind: ChainKind::Filter, point, priority: PRIORITY, policy: Policy::Accept };
        transaction.push(Operation::AddChain(Chain::base(name, hook)));
        transaction.push(Operation::AddRule(Rule::new(name, rule())));
    }
}

fn rule() -> Vec<Statement> {
    let key = vec![Selector::Source, Selector::SourcePort, Selector::Destination, Selector::Port];
    vec![
        Statement::Match(Match::Protocol(IpProtocol::TCP)),
        Statement::Match(Match::MidStream),
        Statement::Match(Match::InSet { key, set: CONNECTIONS.into(), not: false }),
        Statement::Reject(Reject::TcpReset),
    ]
}

fn element(connection: &Tuple) -> Element {
    let ((source, from), (destination, to)) = (connection.source, connection.destination);
    let key = [source.into(), Value::Port(from), destination.into(), Value::Port(to)];
    Element { timeout: Some(REMEMBERED), ..Element::new(&key) }
}

#[cfg(test)]
mod tests {
    use kernel_sim::nft::Simulated;

    use super::*;

    #[test]
    fn connections_are_added_to_one_table_for_each_family_and_the_tables_go() {
        let connection = |source: &str, destination: &str| Tuple {
            source: (source.parse().unwrap(), 40_000),
            destination: (destination.parse().unwrap(), 80),
        };
        let v4 = connection("10.244.0.9", "10.96.0.10");
        let v6 = connection("fd00:244::9", "fd00:96::10");
        let mut kernel = Simulated::default();
        add(&mut kernel, &[]).unwrap();
        assert!(!remove(&mut kernel).unwrap(), "nothing was written for nothing");
        add(&mut kernel, &[v4]).unwrap();
        add(&mut kernel, &[v4, v6]).unwrap();
        for family in Family::ALL {
            let listed = kernel.list(family, TABLE).unwrap().expect("there is a table");
            assert_eq!(listed.chains.len(), 2, "{family:?}");
            assert_eq!(listed.rules.len(), 2, "one rule for each chain: {family:?}");
        }
        assert!(remove(&mut kernel).unwrap());
        assert!(kernel.list(Family::V4, TABLE).unwrap().is_none());
    }
}

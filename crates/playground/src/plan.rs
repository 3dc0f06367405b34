//! The address plan: who has which name and which addresses. Pure, and the same in every playground.
//!
//! Node `a` is number 1, `b` is number 2. IPv6 addresses carry the same digits as IPv4 ones, so that
//! `10.244.1.10` and `fd00:10:244:1::10` are the same pod.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use model::Family;

/// The nodes, in the order of their numbers.
pub const NODES: [&str; 2] = ["a", "b"];
/// What the outside client sends to a node: cluster IPs, LB and external addresses.
pub const SERVICE_RANGES: [&str; 5] =
    ["10.96.0.0/12", "203.0.113.0/24", "198.51.100.0/24", "fd00:96::/112", "2001:db8::/32"];
/// The default route of each family; `default` alone would leave the family to be guessed.
pub(crate) const ANYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];
/// Client pods are numbered from here in their node's pod network.
const FIRST_CLIENT: u8 = 5;
/// Server pods are numbered from here.
const FIRST_SERVER: u8 = 10;
/// How many client pods fit on a node.
pub const CLIENTS_MAX: usize = (FIRST_SERVER - FIRST_CLIENT) as usize;
/// How many server pods fit on a node; the last address is left free.
pub const SERVERS_MAX: usize = 90;

/// One address of each family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The IPv4 address.
    pub v4: Ipv4Addr,
    /// The IPv6 address.
    pub v6: Ipv6Addr,
}

impl Pair {
    /// The one of this family.
    pub fn of(self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.v4.into(),
            Family::V6 => self.v6.into(),
        }
    }

    /// IPv4 first.
    pub fn both(self) -> [IpAddr; 2] {
        [self.v4.into(), self.v6.into()]
    }
}

/// The outside client.
pub const OUTSIDE: Pair =
    Pair { v4: Ipv4Addr::new(172, 16, 0, 10), v6: Ipv6Addr::new(0xfd00, 0x172, 0, 0, 0, 0, 0, 0x10) };
/// The switch's own address: the default gateway, which knows the nodes' network and nothing else, and
/// answers all else with "network unreachable".
pub const UNDERLAY: Pair =
    Pair { v4: Ipv4Addr::new(192, 168, 0, 254), v6: Ipv6Addr::new(0xfd00, 0x192, 0, 0, 0, 0, 0, 0x254) };

/// The address of node 1 or 2 on the underlay.
pub fn node(number: u8) -> Pair {
    let n = u16::from(number);
    Pair { v4: Ipv4Addr::new(192, 168, 0, number), v6: Ipv6Addr::new(0xfd00, 0x192, 0, 0, 0, 0, 0, n) }
}

/// A node's own address in its pod network, which its pods use as their gateway.
pub fn gateway(node: u8) -> Pair {
    pod(node, 1)
}

/// An address in a node's pod network; `digits` is below 100, so that it reads the same in both families.
fn pod(node: u8, digits: u8) -> Pair {
    assert!(digits < 100, "pod number {digits} does not read the same in decimal and in hexadecimal");
    let n = u16::from(node);
    let same_digits = u16::from(digits / 10) << 4 | u16::from(digits % 10);
    Pair {
        v4: Ipv4Addr::new(10, 244, node, digits),
        v6: Ipv6Addr::new(0xfd00, 0x10, 0x244, n, 0, 0, 0, same_digits),
    }
}

/// A node's pod network.
pub fn pod_networks(node: u8) -> [String; 2] {
    [format!("10.244.{node}.0/24"), format!("fd00:10:244:{node}::/64")]
}

/// Name and addresses of the client pods of a node: `client-a`, `client-a-1`, …
pub fn client_pods(node: u8, count: usize) -> Vec<(String, Pair)> {
    let letter = NODES[usize::from(node) - 1];
    let name =
        |index: u8| if index == 0 { format!("client-{letter}") } else { format!("client-{letter}-{index}") };
    (0..u8::MAX).take(count).map(|index| (name(index), pod(node, FIRST_CLIENT + index))).collect()
}

/// Name and addresses of the server pods of a node: `web-a-0`, `web-a-1`, …
pub fn server_pods(node: u8, count: usize) -> Vec<(String, Pair)> {
    let letter = NODES[usize::from(node) - 1];
    (0..u8::MAX)
        .take(count)
        .map(|index| (format!("web-{letter}-{index}"), pod(node, FIRST_SERVER + index)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_read_the_same() {
        let (name, address) = server_pods(2, SERVERS_MAX).pop().unwrap();
        assert_eq!(name, "web-b-89");
        assert_eq!(address.v4.to_string(), "10.244.2.99");
        assert_eq!(address.v6.to_string(), "fd00:10:244:2::99");
        assert_eq!(gateway(1).v6.to_string(), "fd00:10:244:1::1");
        assert_eq!(OUTSIDE.v6.to_string(), "fd00:172::10");
    }

    #[test]
    fn clients_end_where_servers_begin() {
        let clients = client_pods(1, CLIENTS_MAX);
        assert_eq!(clients[0].0, "client-a");
        assert_eq!(clients[4], ("client-a-4".into(), pod(1, 9)));
        assert_eq!(server_pods(1, 1), [("web-a-0".into(), pod(1, 10))]);
    }
}

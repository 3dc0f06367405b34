//! Ranges as numbered pools, and the choice of a free number.
//!
//! The choice is a function of who asks and of what is held. Each Service has one preferred member, a function of its name and the range;
//! where that is taken, the next free one is chosen. So the order in which Services come matters only to those that prefer the same
//! member, or are displaced by one that was displaced (docs/decisions/0026). As in Kubernetes the lower band of a range is left to people who choose by hand, and is used only when the
//! rest is full.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use model::net::IpNet;
use model::{ByFamily, Family, Protocol};

use super::store::{Ledger, Resource};

/// Everything that addresses and ports can be given from.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    /// The family of Services that ask for none.
    pub(crate) default_family: Family,
    pub(crate) service: ByFamily<Option<IpNet>>,
    pub(crate) load_balancer: ByFamily<Option<IpNet>>,
    pub(crate) node_ports: RangeInclusive<u16>,
}

impl Ranges {
    pub(crate) fn new(
        first: IpNet,
        service: &[IpNet],
        balancer: &[IpNet],
        ports: RangeInclusive<u16>,
    ) -> Self {
        let by_family = |nets: &[IpNet]| ByFamily {
            v4: nets.iter().copied().find(|net| Family::of_net(net) == Family::V4),
            v6: nets.iter().copied().find(|net| Family::of_net(net) == Family::V6),
        };
        Self {
            default_family: Family::of_net(&first),
            service: by_family(service),
            load_balancer: by_family(balancer),
            node_ports: ports,
        }
    }
}

/// What cannot be given to another Service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken<'a> {
    /// What Services hold.
    pub(crate) ledger: &'a Ledger,
    /// What this host itself uses.
    pub(crate) reserved: &'a BTreeSet<Resource>,
}

/// A range whose members are numbered from 0.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    Addresses(IpNet),
    Ports(Protocol, RangeInclusive<u16>),
}

impl Pool {
    /// How many members it has.
    pub(crate) fn size(&self) -> u128 {
        match self {
            Pool::Addresses(net) => host_count(net) - first_host(net) - u128::from(has_broadcast(net)),
            Pool::Ports(_, range) => u128::from(range.end() - range.start()) + 1,
        }
    }

    /// Is this one of its members?
    pub(crate) fn contains(&self, resource: &Resource) -> bool {
        self.index_of(resource).is_some()
    }

    /// A free member for `seeker`, or `None` when all are held or reserved.
    pub(crate) fn choose(&self, seeker: &str, taken: &Taken<'_>) -> Option<Resource> {
        let (size, band, start) = (self.size(), self.static_band(), self.start(seeker));
        let parts = [(start, size), (band, start), (0, band)];
        let free = parts.into_iter().find_map(|(from, to)| self.first_free(from, to, taken));
        free.map(|index| self.nth(index))
    }

    /// The member that `seeker` gets where no other Service and no host has it: a function of its name and the range alone.
    pub(crate) fn preferred(&self, seeker: &str) -> Resource {
        self.nth(self.start(seeker))
    }

    fn start(&self, seeker: &str) -> u128 {
        let (size, band) = (self.size(), self.static_band());
        band + u128::from(hash(seeker)) % (size - band)
    }

    /// What is held of it, in order.
    pub(crate) fn held<'a>(&self, ledger: &'a Ledger) -> impl Iterator<Item = &'a Resource> {
        ledger.held_between(self.nth(0), self.nth(self.size() - 1))
    }

    /// The lowest free index in `from..to`. Walks the taken ones only as long as they stand side by side.
    fn first_free(&self, from: u128, to: u128, taken: &Taken<'_>) -> Option<u128> {
        if from >= to {
            return None;
        }
        let mut held = taken.ledger.held_between(self.nth(from), self.nth(to - 1)).peekable();
        (from..to).find(|candidate| {
            let is_held = held.next_if(|held| self.index_of(held) == Some(*candidate)).is_some();
            !is_held && !taken.reserved.contains(&self.nth(*candidate))
        })
    }

    /// The members at the bottom that are kept for choices by hand: Kubernetes' own figures.
    fn static_band(&self) -> u128 {
        let (divisor, most) = match self {
            Pool::Addresses(_) => (16, 256),
            Pool::Ports(..) => (32, 128),
        };
        let size = self.size();
        if size <= 16 { 0 } else { (size / divisor).clamp(16, most).min(size - 1) }
    }

    fn nth(&self, index: u128) -> Resource {
        match self {
            Pool::Addresses(net) => Resource::Address(address_at(net, index + first_host(net))),
            Pool::Ports(protocol, range) => {
                let offset = u16::try_from(index).expect("an index into a range of ports is a port");
                Resource::Port(*protocol, range.start() + offset)
            }
        }
    }

    fn index_of(&self, resource: &Resource) -> Option<u128> {
        match (self, resource) {
            (Pool::Addresses(net), Resource::Address(ip)) if net.contains(ip) => {
                let index = number(*ip).checked_sub(number(net.network()))?.checked_sub(first_host(net))?;
                (index < self.size()).then_some(index)
            }
            (Pool::Ports(protocol, range), Resource::Port(p, port))
                if p == protocol && range.contains(port) =>
            {
                Some(u128::from(port - range.start()))
            }
            _ => None,
        }
    }
}

/// The addresses of a network; `::/0` counts one less, for want of a bit.
fn host_count(net: &IpNet) -> u128 {
    let bits = u32::from(net.max_prefix_len() - net.prefix_len());
    1u128.checked_shl(bits).unwrap_or(u128::MAX)
}

/// The network's own address is nobody's, in IPv6 (where it means "any router") as in IPv4.
fn first_host(net: &IpNet) -> u128 {
    u128::from(net.max_prefix_len() - net.prefix_len() >= 2)
}

fn has_broadcast(net: &IpNet) -> bool {
    net.addr().is_ipv4() && net.prefix_len() <= 30
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn address_at(net: &IpNet, offset: u128) -> IpAddr {
    let bits = number(net.network()) + offset;
    match u32::try_from(bits) {
        Ok(bits) if net.addr().is_ipv4() => IpAddr::V4(Ipv4Addr::from_bits(bits)),
        _ => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    }
}

/// FNV-1a, then mixed: the same on every machine and in every release, which a standard hasher does not promise.
pub(crate) fn hash(text: &str) -> u64 {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    // The low bits of FNV are weak, and ranges take exactly those.
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ServiceName;
    use model::net::parse_cidr;

    use super::super::store::{Record, Slot};

    fn addresses(net: &str) -> Pool {
        Pool::Addresses(parse_cidr(net).unwrap())
    }

    fn choose(pool: &Pool, seeker: &str, ledger: &Ledger) -> Option<Resource> {
        pool.choose(seeker, &Taken { ledger, reserved: &BTreeSet::new() })
    }

    #[test]
    fn what_is_reserved_is_passed_over_until_nothing_is_left() {
        let (pool, ledger) = (addresses("192.0.2.0/29"), Ledger::default());
        let mut reserved = BTreeSet::new();
        for _ in 0..6 {
            let next = pool.choose("default/web", &Taken { ledger: &ledger, reserved: &reserved }).unwrap();
            assert!(reserved.insert(next), "{next} was reserved");
        }
        assert!(reserved.contains(&pool.preferred("default/web")));
        assert_eq!(pool.choose("default/web", &Taken { ledger: &ledger, reserved: &reserved }), None);
    }

    #[test]
    fn a_range_has_as_many_members_as_people_can_use() {
        for (net, size, first, last) in [
            ("10.96.0.0/29", 6, "10.96.0.1", "10.96.0.6"),
            ("10.96.0.0/31", 2, "10.96.0.0", "10.96.0.1"),
            ("10.96.0.9/32", 1, "10.96.0.9", "10.96.0.9"),
            ("fd00::/126", 3, "fd00::1", "fd00::3"),
            ("::/0", u128::MAX - 1, "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"),
        ] {
            let pool = addresses(net);
            assert_eq!(pool.size(), size, "{net}");
            assert_eq!(pool.nth(0), Resource::Address(first.parse().unwrap()), "{net}");
            assert_eq!(pool.nth(size - 1), Resource::Address(last.parse().unwrap()), "{net}");
        }
    }

    #[test]
    fn the_lower_band_is_left_to_choices_by_hand_until_the_rest_is_full() {
        let pool = addresses("10.96.0.0/26");
        let mut ledger = Ledger::default();
        let mut order = Vec::new();
        for n in 0..62 {
            let resource = choose(&pool, &format!("default/s{n}"), &ledger).unwrap();
            let service = ServiceName::new("default", &format!("s{n}"));
            ledger.apply(&Record::Hold { service, slot: Slot::HealthCheck, resource });
            order.push(pool.index_of(&resource).unwrap());
        }
        assert_eq!(choose(&pool, "default/late", &ledger), None);
        assert!(order[..46].iter().all(|index| *index >= 16) && order[46..].iter().all(|index| *index < 16));
        order.sort_unstable();
        assert_eq!(order, (0..62).collect::<Vec<_>>(), "each member once");
    }

    #[test]
    fn ports_are_a_range_like_any_other() {
        let pool = Pool::Ports(Protocol::Tcp, 30000..=32767);
        let Some(Resource::Port(Protocol::Tcp, port)) = choose(&pool, "default/web:80", &Ledger::default())
        else {
            panic!("an empty range has a port")
        };
        assert!((30086..=32767).contains(&port), "{port}");
        assert!(!pool.contains(&Resource::Port(Protocol::Udp, port)));
        assert_eq!(Pool::Ports(Protocol::Tcp, 1..=65535).size(), 65535);
    }
}

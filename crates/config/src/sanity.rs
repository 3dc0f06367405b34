//! What is odd about the operator's choices on this very host: families that do not fit together.
//!
//! In: the settings of a run, and which families this host has and is at home in. Out: what is refused, and what is only told, as
//! upstream judges it at its start. The networks of the Node itself come later, from the API server: the model reports on them.

use std::net::{IpAddr, SocketAddr};

use dataplane::programs::families_of_host;
use dataplane::settings::Kind;
use kernel::sysctl::{self, Sysctls as _};
use model::net::{IpNet, parse_cidr};
use model::{DetectLocal, Family, NodePortAddress};
use standalone::host;

use crate::settings::Settings;

const IS_IPV6_OFF: &str = "net/ipv6/conf/all/disable_ipv6";

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Objections {
    /// With these it cannot start.
    pub errors: Vec<String>,
    /// These are told.
    pub warnings: Vec<String>,
}

/// The families of this host.
#[derive(Clone, Copy, Debug)]
struct Home {
    /// The family of this node's primary address; `None` where the host has both and nobody chose.
    primary: Option<Family>,
    has_ipv6: bool,
}

impl Settings {
    /// What is odd about these choices on this host.
    pub fn objections(&self) -> Objections {
        let is_off = sysctl::ThisMachine.read(IS_IPV6_OFF).is_ok_and(|value| value.as_deref() == Some("1"));
        let has_ipv6 = families_of_host().contains(&Family::V6) && !is_off;
        let of_host = host::node(&self.config.node_name).map(|node| node.addresses).unwrap_or_default();
        self.objections_at(Home { primary: primary(&self.config.node_ips, &of_host), has_ipv6 })
    }

    fn objections_at(&self, home: Home) -> Objections {
        let mut found = Objections::default();
        let Some(primary) = home.primary else { return found };
        if primary == Family::V6 && !home.has_ipv6 {
            found.errors.push(
                "the address of this node (bindAddress, --node-ip) is one of IPv6, which this host does not have: name one of IPv4, \
                 or turn IPv6 on"
                    .to_owned(),
            );
            return found;
        }
        self.look_at_pods(primary, home, &mut found);
        self.look_at_node_ports(primary, &mut found);
        if !home.has_ipv6 {
            self.look_at_addresses(primary, &mut found);
        }
        found
    }

    /// Pods are told from others by networks of one family, and this node is at home in the other one.
    fn look_at_pods(&self, primary: Family, home: Home, found: &mut Objections) {
        let DetectLocal::ClusterCidr(nets) = &self.config.detect_local else { return };
        if !are_all_other(nets, primary) {
            return;
        }
        let what = format!("`clusterCIDR` (--cluster-cidr) has no network of {primary}");
        if home.has_ipv6 {
            found.warnings.push(format!(
                "{what}, in which this node has its address: no packet of {primary} counts as one of a pod"
            ));
        } else {
            found
                .errors
                .push(format!("{what}, and this host has no other family: write the network of its pods"));
        }
    }

    /// Node ports were chosen for one family, and nothing but the host tells of the other one.
    fn look_at_node_ports(&self, primary: Family, found: &mut Objections) {
        let is_told_by_document = !self.config.node_ips.is_empty()
            || matches!(&self.config.detect_local, DetectLocal::ClusterCidr(nets) if !nets.is_empty());
        let nets: Option<Vec<IpNet>> = self.config.node_port_addresses.iter().map(within).collect();
        if !is_told_by_document && nets.is_some_and(|nets| are_all_other(&nets, primary)) {
            found.warnings.push(format!(
                "`nodePortAddresses` has no network of {primary}, in which this node has its address: node ports of {primary} answer \
                 as if nothing was chosen"
            ));
        }
    }

    /// Addresses of the family that this host does not have.
    fn look_at_addresses(&self, primary: Family, found: &mut Objections) {
        let networks =
            self.mode.mode.settings().iter().filter(|setting| matches!(setting.kind, Kind::List { .. }));
        for (setting, field) in networks.filter_map(|setting| Some((setting, setting.field?))) {
            let nets: Vec<IpNet> = self.mode.own.list(setting.flag).filter_map(parse_cidr).collect();
            if are_all_other(&nets, primary) {
                found.warnings.push(format!(
                    "`{}` has no network of {primary}, the only family of this host",
                    field.path
                ));
            }
        }
        let is_other = |at: &SocketAddr| Family::of(at.ip()) != primary && !at.ip().is_unspecified();
        for (field, at) in
            [("healthzBindAddress", self.serve.healthz), ("metricsBindAddress", self.serve.metrics)]
        {
            if let Some(at) = at.filter(is_other) {
                found.warnings.push(format!(
                    "`{field}: {at}` is no address of {primary}, the only family of this host: nobody can ask there"
                ));
            }
        }
    }
}

fn within(entry: &NodePortAddress) -> Option<IpNet> {
    match entry {
        NodePortAddress::Within(net) => Some(*net),
        NodePortAddress::Primary | NodePortAddress::Localhost | NodePortAddress::All => None,
    }
}

/// There are some, and none is of this family.
fn are_all_other(nets: &[IpNet], family: Family) -> bool {
    !nets.is_empty() && nets.iter().all(|net| Family::of_net(net) != family)
}

/// The family of the address that was chosen; else the only one of this host's addresses, without those that mean something on one
/// link alone.
fn primary(chosen: &[IpAddr], of_host: &[IpAddr]) -> Option<Family> {
    if let Some(first) = chosen.first() {
        return Some(Family::of(*first));
    }
    let is_wide = |ip: &&IpAddr| !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    let mut families = of_host.iter().filter(is_wide).map(|ip| Family::of(*ip));
    let first = families.next()?;
    families.all(|family| family == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use model::Config;

    use super::*;

    const V4_ONLY: Home = Home { primary: Some(Family::V4), has_ipv6: false };
    const V4_FIRST: Home = Home { primary: Some(Family::V4), has_ipv6: true };

    fn settings(config: Config) -> Settings {
        Settings { config, ..Settings::of_tests() }
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().expect("it is a network")).collect()
    }

    fn with_pods(texts: &[&str]) -> Settings {
        settings(Config { detect_local: DetectLocal::ClusterCidr(nets(texts)), ..Config::default() })
    }

    #[test]
    fn pods_of_the_other_family_are_told_and_refused_where_there_is_no_other_family() {
        let told = with_pods(&["fd00::/48"]).objections_at(V4_FIRST);
        assert!(told.errors.is_empty() && told.warnings[0].contains("no packet of IPv4 counts"), "{told:?}");
        let refused = with_pods(&["fd00::/48"]).objections_at(V4_ONLY);
        assert!(refused.warnings.is_empty() && refused.errors[0].contains("`clusterCIDR`"), "{refused:?}");
        for fine in [&["10.0.0.0/8"][..], &["fd00::/48", "10.0.0.0/8"], &[]] {
            assert_eq!(with_pods(fine).objections_at(V4_ONLY), Objections::default(), "{fine:?}");
        }
        let unknown = Home { primary: None, has_ipv6: true };
        assert_eq!(with_pods(&["fd00::/48"]).objections_at(unknown), Objections::default());
    }

    #[test]
    fn an_address_of_a_family_that_the_host_does_not_have_is_refused() {
        let home = Home { primary: Some(Family::V6), has_ipv6: false };
        let found = settings(Config::default()).objections_at(home);
        assert!(found.errors[0].contains("which this host does not have"), "{found:?}");
    }

    #[test]
    fn node_ports_of_the_other_family_alone_are_told() {
        let of = |text: &str| {
            let node_port_addresses = vec![NodePortAddress::parse(text).expect("it is an entry")];
            settings(Config { node_port_addresses, ..Config::default() }).objections_at(V4_FIRST).warnings
        };
        assert!(of("fd00::/64")[0].starts_with("`nodePortAddresses` has no network of IPv4"));
        assert_eq!((of("192.0.2.0/24"), of("primary")), (Vec::new(), Vec::new()));
    }

    #[test]
    fn addresses_of_the_other_family_are_told_where_there_is_one_family() {
        let mut settings = settings(Config::default());
        settings.mode = dataplane::ModeSettings::of(dataplane::ipvs::MODE);
        settings.mode.own.set("ipvs-exclude-cidrs", vec!["fd00::/48".to_owned()]);
        settings.serve.healthz = Some("[fd00::1]:10256".parse().expect("it is an address"));
        settings.serve.metrics = Some("[::]:10249".parse().expect("it is an address"));
        let found = settings.objections_at(V4_ONLY);
        assert_eq!((found.errors.len(), found.warnings.len()), (0, 2), "{found:?}");
        assert!(found.warnings[1].contains("`healthzBindAddress: [fd00::1]:10256`"), "{found:?}");
        assert_eq!(settings.objections_at(V4_FIRST), Objections::default());
    }

    #[test]
    fn the_family_is_that_of_the_chosen_address_or_the_only_one_of_the_host() {
        let ips = |texts: &[&str]| -> Vec<IpAddr> {
            texts.iter().map(|text| text.parse().expect("it is an address")).collect()
        };
        assert_eq!(primary(&ips(&["fd00::1"]), &ips(&["192.0.2.1"])), Some(Family::V6));
        assert_eq!(primary(&[], &ips(&["192.0.2.1", "fe80::1"])), Some(Family::V4));
        assert_eq!(primary(&[], &ips(&["192.0.2.1", "fd00::1"])), None);
        assert_eq!(primary(&[], &[]), None);
    }
}

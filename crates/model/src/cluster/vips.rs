//! The addresses that belong to Services: no endpoint may be one of them.
//!
//! A cluster IP is a Service's on every port. An external or load balancer IP is often an address of a node as well, where
//! pods of the host network really listen, so there only the very port that is a frontend counts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::config::Config;
use crate::facts::{IpMode, Service};
use crate::frontend::FrontendKind;
use crate::net::{Family, Protocol};

#[derive(Debug, Default)]
pub(crate) struct Vips {
    /// Cluster IPs, with the number of Services that have them.
    cluster: BTreeMap<IpAddr, u32>,
    /// Frontends on external and load balancer IPs, counted likewise.
    external: BTreeMap<(IpAddr, Protocol, u16), u32>,
}

impl Vips {
    /// Why no endpoint may be here, if so.
    pub(crate) fn refuses(&self, address: IpAddr, protocol: Protocol, port: u16) -> Option<&'static str> {
        if self.cluster.contains_key(&address) {
            Some("is the cluster IP of a Service")
        } else if self.external.contains_key(&(address, protocol, port)) {
            Some("is an external or load balancer IP and port of a Service")
        } else {
            None
        }
    }

    /// A Service is `after` now and no more `before`. Returns the addresses of which something appeared or vanished.
    pub(super) fn replace(
        &mut self,
        config: &Config,
        before: Option<&Service>,
        after: Option<&Service>,
    ) -> BTreeSet<IpAddr> {
        let (ips_before, ips_after) = (before.map(cluster_ips), after.map(cluster_ips));
        let mut touched = recount(&mut self.cluster, ips_before, ips_after);
        let (before, after) =
            (before.map(|s| external_frontends(config, s)), after.map(|s| external_frontends(config, s)));
        touched.extend(recount(&mut self.external, before, after).into_iter().map(|(ip, _, _)| ip));
        touched
    }
}

/// Counts what is `after` and no more what was `before`. Returns what appeared or vanished by that.
fn recount<K: Ord + Copy>(
    counts: &mut BTreeMap<K, u32>,
    before: Option<BTreeSet<K>>,
    after: Option<BTreeSet<K>>,
) -> BTreeSet<K> {
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let mut touched = BTreeSet::new();
    for key in after.difference(&before) {
        let count = counts.entry(*key).or_insert(0);
        *count += 1;
        if *count == 1 {
            touched.insert(*key);
        }
    }
    for key in before.difference(&after) {
        let Some(count) = counts.get_mut(key) else { continue };
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
            touched.insert(*key);
        }
    }
    touched
}

fn cluster_ips(service: &Service) -> BTreeSet<IpAddr> {
    service.cluster_ips.iter().filter_map(|(_, ip)| *ip).collect()
}

/// Those that really are frontends of this node: whoever merely claims an address must not take it from its pod.
fn external_frontends(config: &Config, service: &Service) -> BTreeSet<(IpAddr, Protocol, u16)> {
    let Some(external) = service.external.as_ref().filter(|_| config.serves(service)) else {
        return BTreeSet::new();
    };
    let is_frontend = |(ip, kind): &(IpAddr, FrontendKind)| {
        service.cluster_ips.get(Family::of(*ip)).is_some() && config.refusal(*ip, *kind).is_none()
    };
    let balancers = external.load_balancer_ips.iter().filter(|lb| lb.mode == IpMode::Vip);
    let balancers = balancers.map(|lb| (lb.ip, FrontendKind::LoadBalancerIp));
    let named = external.external_ips.iter().map(|ip| (*ip, FrontendKind::ExternalIp));
    let ips: BTreeSet<IpAddr> = balancers.chain(named).filter(is_frontend).map(|(ip, _)| ip).collect();
    let with_ports = |ip: IpAddr| service.ports.iter().map(move |port| (ip, port.protocol, port.port));
    ips.into_iter().flat_map(with_ports).collect()
}

//! The proxy that is measured, with both families. Whoever starts it is in a network namespace of its own.

use std::time::Duration;

use anyhow::Result;
use dataplane::ipvs::{Ipvs, Kernel, Options};
use harness::proxy::Times;
use harness::watched::{Seen, Watched};
use harness::{cluster, ms};
use kernel::xtables::{Programs, Variant, Xtables as _};
use kernel::{host, ipset, ipvs, sysctl};
use serde::{Deserialize, Serialize};

type Interfaces =
    Kernel<Watched<ipvs::Netlink>, Watched<ipset::Netlink>, Watched<host::ThisMachine>, sysctl::ThisMachine>;
pub(crate) type Mode = Ipvs<Watched<Programs>, Interfaces>;
pub(crate) type Proxy = harness::proxy::Proxy<Mode>;

/// What something took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) whole_ms: f64,
    /// Of it, facts or events → forwarding table.
    pub(crate) table_ms: f64,
    pub(crate) servers: Seen,
    pub(crate) sets: Seen,
    pub(crate) addresses: Seen,
    /// iptables, of both families.
    pub(crate) rules: Seen,
}

impl Work {
    /// What went through the mode's interfaces since the last call.
    pub(crate) fn of(mode: &mut Mode, Times { table, whole }: Times) -> Self {
        let mut rules = Seen::default();
        for seen in mode.programs().map(Watched::take) {
            rules.writes += seen.writes;
            rules.listings += seen.listings;
            rules.ms += seen.ms;
        }
        let kernel = mode.doors();
        let (servers, sets, addresses) = (kernel.servers.take(), kernel.sets.take(), kernel.host.take());
        Self { whole_ms: ms(whole), table_ms: ms(table), servers, sets, addresses, rules }
    }

    /// Netlink requests of ours.
    pub(crate) fn messages(&self) -> u64 {
        [self.servers, self.sets, self.addresses].iter().map(|seen| seen.writes + seen.listings).sum()
    }

    /// Listings of whatever the kernel holds, and runs of a save program.
    pub(crate) fn listings(&self) -> u64 {
        [self.servers, self.sets, self.addresses, self.rules].iter().map(|seen| seen.listings).sum()
    }
}

/// Takes in all facts and writes everything, as `portway run` does.
pub(crate) fn start(services: u32) -> Result<(Proxy, Work)> {
    let programs = Programs::find().programs.into_iter().filter(|one| one.variant() == Variant::Nft);
    let kernel = Kernel {
        servers: Watched::new(ipvs::Netlink::open()?),
        sets: Watched::new(ipset::Netlink::open()?),
        host: Watched::new(host::ThisMachine),
        settings: sysctl::ThisMachine,
    };
    // Nobody has connections here: what waits for them goes when it is asked to.
    let mode = Ipvs::new(programs.map(Watched::new), kernel, Options::default(), || Duration::ZERO);
    let (mut proxy, times) = Proxy::start(mode, cluster::facts(services))?;
    let work = Work::of(&mut proxy.mode, times);
    Ok((proxy, work))
}

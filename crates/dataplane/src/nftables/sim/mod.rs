//! The mode on simulated `nf_tables`, for the conformance suite and the scenarios.
//!
//! | file | what it is for |
//! |---|---|
//! | `mutation` | one kind of rule or set that is left out, and why some are missed by no scenario |
//! | `ways` | a packet, once for each way in which the drawn numbers may fall |
//! | `damages` | what other programs may do to the table |
//! | `faults` | everything that can go wrong with a write, a listing or a question for the generation |

mod damages;
mod faults;
mod mutation;
mod ways;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use kernel::nft::{self, Kernel as _, Listed, Operation, Transaction};
use kernel_sim::nft::{Faulty, Simulated};
use kernel_sim::sysctl;
use model::{Family, ForwardingTable, Packet, Promises};
use mutation::Mutated;
pub use ways::{Way, ends, ways};

use super::mode::options;
use super::{MODE, Options, TABLE};
use crate::sim::{End, Ends, Listing, Named, RealMode, SimulatedMode, Struck, sim_packet};
use crate::upstream::KnownChains;
use crate::{Dataplane, ModeSettings};

/// The mode beside simulated settings.
pub type Nftables<K> = super::Nftables<K, sysctl::Simulated>;

impl<K: nft::Kernel> Nftables<K> {
    /// The mode of both families on `kernel`, of whose contents nothing is known yet, without settings.
    pub fn new(kernel: K, options: Options) -> Self {
        Self::beside(kernel, &Family::ALL, options, sysctl::Simulated::default())
    }
}

/// The only simulation of this mode.
pub(super) fn simulate(settings: &ModeSettings) -> Vec<Box<dyn SimulatedMode>> {
    vec![Box::new(Node::new(Simulated::default(), settings))]
}

type Kernel = Mutated<Faulty<Simulated>>;

#[derive(Clone)]
struct Node {
    dataplane: Nftables<Kernel>,
    settings: ModeSettings,
    now: Duration,
}

impl Node {
    fn new(kernel: Simulated, settings: &ModeSettings) -> Self {
        let dataplane = Nftables::new(Mutated::new(Faulty::new(kernel)), options(settings));
        Self { dataplane, settings: settings.clone(), now: Duration::ZERO }
    }

    fn faulty(&mut self) -> &mut Faulty<Simulated> {
        &mut self.dataplane.kernel().kernel
    }

    fn kernel(&mut self) -> &mut Simulated {
        self.faulty().below()
    }

    fn tables(&mut self) -> Result<Vec<Listed>, String> {
        let (kernel, mut found) = (self.kernel(), Vec::new());
        for family in kernel::nft::Family::ALL {
            for table in kernel.tables(family).map_err(|error| error.to_string())? {
                let listed = kernel.list(family, &table.name).map_err(|error| error.to_string())?;
                found.extend(listed);
            }
        }
        Ok(found)
    }
}

impl RealMode for Nftables<nft::Netlink> {
    fn dataplane(&mut self) -> &mut dyn Dataplane {
        self
    }

    fn listing(&mut self) -> Result<Listing, String> {
        listing(self.kernel())
    }

    fn clean_up(&mut self, _: &KnownChains) -> Result<(), String> {
        self.cleanup().map_err(|error| error.to_string())
    }
}

impl SimulatedMode for Node {
    fn name(&self) -> String {
        MODE.name().to_owned()
    }

    fn dataplane(&mut self) -> &mut dyn Dataplane {
        &mut self.dataplane
    }

    fn semantics(&self) -> Promises {
        self.settings.mode.semantics().of_rules()
    }

    fn copy(&self) -> Box<dyn SimulatedMode> {
        Box::new(self.clone())
    }

    fn restart(&self, settings: &ModeSettings) -> Box<dyn SimulatedMode> {
        let kernel = self.clone().kernel().clone();
        Box::new(Self { now: self.now, ..Self::new(kernel, settings) })
    }

    fn fresh(&self) -> Box<dyn SimulatedMode> {
        Box::new(Self::new(Simulated::default(), &self.settings))
    }

    fn listing(&mut self) -> Result<Listing, String> {
        Ok(self.tables()?.into_iter().map(comparable).flat_map(|listed| lines(&listed)).collect())
    }

    fn clean_up(&mut self, _: &KnownChains) -> Result<(), String> {
        self.dataplane.cleanup().map_err(|error| error.to_string())
    }

    fn real(&self, _process: usize) -> Result<Box<dyn RealMode>, String> {
        let kernel = nft::Netlink::open().map_err(|error| error.to_string())?;
        Ok(Box::new(Nftables::new(kernel, options(&self.settings))))
    }

    fn damaged(&mut self) -> Result<Named<'_>, String> {
        Ok(damages::damaged(self))
    }

    fn ends(&mut self, packet: &Packet, tables: &[&ForwardingTable]) -> Result<Ends, String> {
        let (now, packet) = (self.now, sim_packet(packet, tables[0].node()));
        let ways = ways(self.kernel(), &packet, now)?;
        Ends::of(ways.iter().map(|way| (way.end, (1, way.one_in.into()))))
    }

    fn send(&mut self, packet: &Packet, table: &ForwardingTable, end: End) -> Result<(), String> {
        let (now, packet) = (self.now, sim_packet(packet, table.node()));
        let ways = ways(self.kernel(), &packet, now)?;
        let way = ways.into_iter().find(|way| way.end == end);
        *self.kernel() = way.ok_or("no way ends there")?.kernel;
        Ok(())
    }

    /// Who was sent where, in both families.
    fn remembered(&mut self) -> Result<String, String> {
        let tables = self.tables()?;
        let sets = tables.iter().filter_map(|listed| listed.sets.get(AFFINITY));
        Ok(format!("{:?}", sets.map(|set| &set.elements).collect::<Vec<_>>()))
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn failing<'a>(&'a self, work: &dyn Fn(&mut dyn Dataplane)) -> Named<'a> {
        faults::failing(self, work)
    }

    fn struck(&self) -> Struck {
        let mut node = self.clone();
        match (node.faulty().is_dead(), node.faulty().struck()) {
            (true, _) => Struck::Died,
            (false, 0) => Struck::Not,
            (false, _) => Struck::Told,
        }
    }

    fn heal(&mut self) {
        self.faulty().heal();
    }

    fn refuse(&mut self, address: Option<IpAddr>) -> bool {
        self.kernel().stop_refusing();
        if let Some(address) = address {
            self.kernel().refuse_address(address, libc::EINVAL);
        }
        true
    }

    fn add_foreign(&mut self) -> Result<(), String> {
        for family in kernel::nft::Family::ALL {
            let mut transaction = Transaction::new(family, "mine");
            transaction.push(Operation::AddTable(None));
            self.kernel().run(&transaction).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn leave_out(&mut self, kind: Option<&str>) {
        self.dataplane.kernel().left_out = kind.map(str::to_owned);
    }

    fn kinds(&mut self) -> BTreeSet<String> {
        self.dataplane.kernel().seen.clone()
    }

    fn unmissed(&self, kind: &str) -> Option<&'static str> {
        mutation::unmissed(kind)
    }
}

/// The map of who was sent where.
const AFFINITY: &str = "affinity";

/// A listing without what is the kernel's own (handles) and what packets did (who was sent where).
pub fn comparable(mut listed: Listed) -> Listed {
    listed.rules.values_mut().flatten().for_each(|rule| rule.handle = 0);
    if let Some(affinity) = listed.sets.get_mut(AFFINITY) {
        affinity.elements.clear();
    }
    listed
}

/// A listing as text.
pub fn lines(listed: &Listed) -> Listing {
    let Listed { table, chains, rules, sets, unknown } = listed;
    let of = |what: &str| format!("{} {} {what}", table.family, &*table.name);
    let mut all = Listing::from([(of("itself"), vec![format!("{table:?} {unknown:?}")])]);
    for (name, chain) in chains {
        let rules = rules.get(name).into_iter().flatten();
        let lines = rules.map(|rule| format!("{:?} {:?}", rule.comment, rule.program));
        all.insert(of(&format!("chain {name}")), [format!("{chain:?}")].into_iter().chain(lines).collect());
    }
    for (name, set) in sets {
        let elements = set.elements.iter().map(|element| format!("{element:?}"));
        let lines = [format!("{:?}", set.set)].into_iter().chain(elements);
        all.insert(of(&format!("set {name}")), lines.collect());
    }
    all
}

/// What the kernel lists of this mode's tables, as text.
pub fn listing(kernel: &mut dyn kernel::nft::Kernel) -> Result<Listing, String> {
    let mut all = Listing::new();
    for family in kernel::nft::Family::ALL {
        let listed = kernel.list(family, TABLE).map_err(|error| error.to_string())?;
        all.extend(listed.map(comparable).iter().flat_map(lines));
    }
    Ok(all)
}

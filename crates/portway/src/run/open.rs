//! Opens a mode on this machine's kernel, or says in a sentence why that cannot be.

use std::path::Path;
use std::time::{Duration, Instant};

use dataplane::Dataplane;
use dataplane::iptables::{self, Iptables};
use dataplane::ipvs::{self, Ipvs, Scheduler};
use dataplane::localhost::{Choice, Localhost};
use dataplane::nftables::{self, Nftables};
use dataplane::relay::Relays;
use dataplane::upstream::{self, Hidden};
use dataplane::userspace::{self, Userspace};
use kernel::host::{ChangeError, ChangeHost as _, ThisMachine, links};
use kernel::nft::Monitor;
use kernel::sysctl;
use kernel::xtables::{Error, Family, Programs, Table, Variant, Xtables as _};

use model::Promises;
use model::fate::Loopback;
use serde::{Deserialize, Serialize};

use super::RunError;
use super::families::{Families, HAS_IPV6, HostKernel, refused};
use super::localnet::Localnet;
use crate::modes::{Mode, Program};

/// How often a mode is glanced at whose kernel does not tell of a flush.
const GLANCE: Duration = Duration::from_secs(5);

/// A text that changes nothing, but needs all that a change needs.
const NOTHING: &str = "*mangle\nCOMMIT\n";

/// A mode that is ready to write.
pub struct Opened {
    /// The mode itself.
    pub dataplane: Box<dyn Dataplane>,
    /// Tells of others who write, where the kernel does.
    pub(super) monitor: Option<Monitor>,
    /// How often to look for a flush, where the kernel does not tell.
    pub(super) glance: Option<Duration>,
    /// The iptables program that it uses.
    pub(super) program: Option<Variant>,
    /// Its doors.
    doors: Vec<Programs>,
    /// What the IPVS mode needs beyond programs.
    needs: Option<Needs>,
}

/// What only a write tells of a kernel that has IPVS.
#[derive(Debug)]
struct Needs {
    /// The interface that gets addresses of Services.
    interface: String,
    /// How virtual servers choose.
    scheduler: Scheduler,
}

impl Opened {
    /// Whether it can write, where only a write tells: a legacy table that nobody has used is not there to be looked into, and the
    /// modules of dummy interfaces and of a scheduler may be missing.
    pub(super) fn try_to_write(&mut self) -> Result<(), RunError> {
        for door in self.doors.iter_mut().filter(|door| door.variant() == Variant::Legacy) {
            match door.restore(NOTHING) {
                Err(error) if !error.retry_helps() => return Err(RunError::Kernel(error.to_string())),
                // The first sync tells of what may pass.
                Ok(()) | Err(_) => {}
            }
        }
        self.needs.as_ref().map_or(Ok(()), Needs::try_all).map_err(RunError::Kernel)
    }
}

/// What is to be opened.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The mode.
    pub mode: Mode,
    /// The iptables program of modes that use one.
    pub program: Program,
    /// How node ports answer on this host's loopback addresses.
    pub localhost_node_ports: LocalhostNodePorts,
    /// The bit of the packet mark that says: hide the source of this connection.
    pub masquerade_bit: u8,
    /// What the operator chose for the IPVS mode.
    pub ipvs: ipvs::Options,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            mode: Mode::Nftables,
            program: Program::default(),
            localhost_node_ports: LocalhostNodePorts::default(),
            masquerade_bit: MASQUERADE_BIT,
            ipvs: ipvs::Options::default(),
        }
    }
}

/// How node ports answer on this host's loopback addresses, where `nodePortAddresses` covers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LocalhostNodePorts {
    /// On 127.0.0.1 and `::1`: the relay listens there.
    #[default]
    Listening,
    /// On 127.0.0.0/8 by rules of the iptables mode, with `route_localnet`, and on `::1` by listening.
    ByRules,
    /// Nowhere.
    Nowhere,
}

/// The bit that upstream uses too.
pub const MASQUERADE_BIT: u8 = 14;

impl Wish {
    /// What it does where Kubernetes leaves the choice.
    pub fn promises(&self) -> Promises {
        let promises = self.mode.promises();
        let loopback_node_ports = match self.localhost_node_ports {
            LocalhostNodePorts::Listening => promises.loopback_node_ports,
            LocalhostNodePorts::ByRules => Loopback::Both,
            LocalhostNodePorts::Nowhere => Loopback::Never,
        };
        Promises { loopback_node_ports, ..promises }
    }

    /// For the nftables dataplane.
    pub fn nftables_options(&self) -> nftables::Options {
        nftables::Options {
            promises: self.mode.promises(),
            masquerade_mark: self.masquerade_mark(),
            ..nftables::Options::default()
        }
    }

    /// For the iptables dataplane.
    pub fn iptables_options(&self) -> iptables::Options {
        iptables::Options {
            localhost_node_ports: self.localhost_node_ports == LocalhostNodePorts::ByRules,
            masquerade_mark: self.masquerade_mark(),
            ..iptables_options(self.mode)
        }
    }

    /// For the IPVS dataplane.
    pub fn ipvs_options(&self) -> ipvs::Options {
        ipvs::Options { masquerade_mark: self.masquerade_mark(), ..self.ipvs.clone() }
    }

    fn masquerade_mark(&self) -> u32 {
        1_u32.checked_shl(self.masquerade_bit.into()).unwrap_or(1 << MASQUERADE_BIT)
    }
}

/// Opens a mode, with node ports on localhost beside it. `relay` carries what the mode does not leave to the kernel.
pub fn open<R: Relays + Clone + 'static>(wish: &Wish, relay: R) -> Result<Opened, RunError> {
    let opened = match wish.mode {
        Mode::Nftables => open_nftables(wish)?,
        Mode::Iptables => open_iptables(wish)?,
        Mode::Userspace => open_userspace(wish.mode, wish.program, relay.clone())?,
        Mode::Ipvs => open_ipvs(wish.program, wish.ipvs_options())?,
    };
    let families = match wish.localhost_node_ports {
        LocalhostNodePorts::Listening => model::Family::ALL.to_vec(),
        LocalhostNodePorts::ByRules => vec![model::Family::V6],
        LocalhostNodePorts::Nowhere => Vec::new(),
    };
    let default_node_port_addresses = wish.mode.promises().default_node_port_addresses;
    let choice = Choice { families, default_node_port_addresses };
    let dataplane = Box::new(Localhost::new(opened.dataplane, relay, choice));
    Ok(Opened { dataplane, ..opened })
}

fn open_nftables(wish: &Wish) -> Result<Opened, RunError> {
    let families = Families::probe()?;
    if let Families::OnlyV4 { because } = &families {
        tracing::warn!("this host has no IPv6, so IPv4 alone is served: {because}");
    }
    let kernel = HostKernel::open(&families).map_err(|error| refused(&error))?;
    let monitor = listen_to_others(&kernel);
    let dataplane = Box::new(Nftables::beside(kernel, wish.nftables_options(), sysctl::ThisMachine));
    Ok(Opened { dataplane, monitor, glance: None, program: None, doors: Vec::new(), needs: None })
}

/// Without it, what others do is found by comparing.
fn listen_to_others(kernel: &HostKernel) -> Option<Monitor> {
    Monitor::of_others(kernel.port())
        .inspect_err(|error| tracing::warn!(%error, "others who write to our tables will not be heard"))
        .ok()
}

fn open_iptables(wish: &Wish) -> Result<Opened, RunError> {
    let (variant, doors) = doors(wish.mode, wish.program)?;
    if wish.localhost_node_ports == LocalhostNodePorts::ByRules {
        Localnet::refuse_if_read_only()?;
    }
    let dataplane = Box::new(Iptables::beside(doors.clone(), wish.iptables_options(), sysctl::ThisMachine));
    Ok(Opened { dataplane, monitor: None, glance: Some(GLANCE), program: Some(variant), doors, needs: None })
}

fn open_userspace(mode: Mode, program: Program, relay: impl Relays + 'static) -> Result<Opened, RunError> {
    let (variant, doors) = doors(mode, program)?;
    let dataplane = Box::new(Userspace::new(doors.clone(), relay, userspace_options(mode)));
    Ok(Opened { dataplane, monitor: None, glance: Some(GLANCE), program: Some(variant), doors, needs: None })
}

fn open_ipvs(program: Program, options: ipvs::Options) -> Result<Opened, RunError> {
    let scheduler = options.scheduler.unwrap_or(Scheduler::ROUND_ROBIN);
    let needs = Some(Needs { interface: options.interface.clone(), scheduler });
    let (mut dataplane, variant) = ipvs_of_this_machine(program, options)?;
    let doors = dataplane.programs().map(|door| door.clone()).collect();
    Ok(Opened {
        dataplane: Box::new(dataplane),
        monitor: None,
        glance: Some(GLANCE),
        program: Some(variant),
        doors,
        needs,
    })
}

/// The IPVS mode, with virtual servers, sets, addresses and settings of this machine; and its program.
pub fn ipvs_of_this_machine(
    program: Program,
    options: ipvs::Options,
) -> Result<(Ipvs<Programs, IpvsDoors>, Variant), RunError> {
    // First what a kernel may lack: whoever has no IPVS need not install a program before being told.
    let kernel = ipvs_doors().map_err(|error| RunError::Kernel(error.to_string()))?;
    let (variant, doors) = doors(Mode::Ipvs, program)?;
    let began = Instant::now();
    Ok((Ipvs::new(doors, kernel, options, move || began.elapsed()), variant))
}

/// The doors of the IPVS mode on this machine.
pub type IpvsDoors =
    ipvs::Kernel<kernel::ipvs::Netlink, kernel::ipset::Netlink, ThisMachine, kernel::sysctl::ThisMachine>;

/// Opens them.
pub fn ipvs_doors() -> Result<IpvsDoors, ipvs::Error> {
    Ok(ipvs::Kernel {
        servers: kernel::ipvs::Netlink::open()?,
        sets: kernel::ipset::Netlink::open()?,
        host: ThisMachine,
        settings: kernel::sysctl::ThisMachine,
    })
}

impl Needs {
    fn try_all(&self) -> Result<(), String> {
        let mut servers = kernel::ipvs::Netlink::open().map_err(|error| error.to_string())?;
        self.scheduler.try_on(&mut servers).map_err(|error| error.to_string())?;
        try_dummy(&self.interface).map_err(|error| error.to_string())
    }
}

/// Only a kernel that makes a dummy has what that takes. One that was not there before is not there after.
fn try_dummy(name: &str) -> Result<(), ChangeError> {
    if links()?.iter().any(|link| link.name == name) {
        return Ok(());
    }
    ThisMachine.make_dummy(name)?;
    ThisMachine.delete_dummy(name)
}

/// The programs that write, one for each family that this host has.
fn doors(mode: Mode, program: Program) -> Result<(Variant, Vec<Programs>), RunError> {
    let mut found = Programs::find();
    let failed = |error: Error| RunError::Kernel(error.to_string());
    let variant = match program {
        Program::Auto => iptables::choose(&mut found).map_err(failed)?,
        Program::Nft => Some(Variant::Nft),
        Program::Legacy => Some(Variant::Legacy),
    };
    let why: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
    let Some(variant) = variant else {
        return Err(RunError::Kernel(format!(
            "mode `{mode}` needs the program iptables, of either kind, and there is none: install the package iptables{why}"
        )));
    };
    if let Some(hidden) = upstream::hidden(&mut found).filter(|_| program == Program::Auto) {
        refuse_if_seen(variant, hidden)?;
    }
    let mut doors = Vec::new();
    for family in Family::ALL {
        let door = found.door(variant, family).cloned().ok_or_else(|| {
            RunError::Kernel(format!(
                "`{variant}` is not installed for {family}: install the package iptables{why}"
            ))
        });
        match door.and_then(|mut door| door.save(Table::Mangle).map(|_| door).map_err(failed)) {
            Ok(door) => doors.push(door),
            Err(error) if family == Family::V6 && !Path::new(HAS_IPV6).exists() => {
                tracing::warn!("this host has no IPv6, so IPv4 alone is served: {error}");
            }
            Err(error) => return Err(error),
        }
    }
    Ok((variant, doors))
}

/// What may be there and may as well not be is no reason to serve nobody.
fn refuse_if_seen(variant: Variant, hidden: Hidden) -> Result<(), RunError> {
    let Hidden { is_seen, error } = hidden;
    if is_seen {
        return Err(RunError::Hidden { variant, because: error });
    }
    tracing::warn!(
        "rules of Services, upstream's or ours, may be in tables of iptables-legacy, which may be asked before all that {variant} writes, and \
         this process may not look into them: give it CAP_NET_RAW (deploy/overlays/iptables-legacy), or see with `iptables-legacy-save` that \
         there are none: {error}"
    );
    Ok(())
}

/// What the mode promises, for the userspace dataplane.
pub fn userspace_options(mode: Mode) -> userspace::Options {
    userspace::Options { default_node_port_addresses: mode.promises().default_node_port_addresses }
}

/// What the mode promises, for the iptables dataplane.
pub fn iptables_options(mode: Mode) -> iptables::Options {
    let promises = mode.promises();
    iptables::Options {
        default_node_port_addresses: promises.default_node_port_addresses,
        ..iptables::Options::default()
    }
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("program", &self.program).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_only_may_be_there_keep_nobody_from_starting() {
        let hidden = |is_seen| {
            let error = Error::NotPermitted { program: "iptables-legacy-save".into(), stderr: "no".into() };
            Hidden { is_seen, error }
        };
        assert!(refuse_if_seen(Variant::Nft, hidden(false)).is_ok());
        let refused = refuse_if_seen(Variant::Nft, hidden(true)).expect_err("they are there").to_string();
        assert!(refused.contains("are in tables of iptables-legacy"), "{refused}");
        assert!(!refused.contains("--iptables-program"), "only some commands have it: {refused}");
    }
}

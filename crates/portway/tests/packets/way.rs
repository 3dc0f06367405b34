//! The ways in which the list is gone through: each mode of the registry, with each iptables program that it is deployed with, is one.

use std::fmt;

use dataplane::served::ServingSign;
use dataplane::{Behaviour, Deployment, Mode, TrafficSource, programs, registry};
use kernel::xtables::{self, Programs, Variant};
use model::Protocol;
use playground::Family;

/// All protocols that a Service can have.
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// What stands in a kernel in which a way is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rules {
    /// A table of `nf_tables`, of this name.
    Table(&'static str),
    /// Chains of this iptables program.
    Chains(Variant),
    VirtualServers,
}

/// The kernel's module of virtual servers.
const VIRTUAL_SERVERS: &str = "ip_vs";

/// A mode, with its program where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    mode: Mode,
    deployment: &'static Deployment,
}

impl Way {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        registry::product_modes().flat_map(Self::of_mode)
    }

    pub(crate) fn of_mode(mode: Mode) -> impl Iterator<Item = Self> {
        mode.deployments().iter().map(move |deployment| Self { mode, deployment })
    }

    /// Those that need no other kernel than this machine's.
    pub(crate) fn here() -> impl Iterator<Item = Self> {
        Self::all().filter(|way| !way.needs_vm())
    }

    /// Those of them in which the kernel carries connections, so that they outlive portway.
    pub(crate) fn by_kernel() -> impl Iterator<Item = Self> {
        Self::all().filter(|way| way.is_by_kernel())
    }

    pub(crate) fn is_by_kernel(self) -> bool {
        !self.needs_vm() && !self.carries()
    }

    /// The way of this name.
    pub(crate) fn named(name: &str) -> Self {
        Self::all().find(|way| way.to_string() == name).unwrap_or_else(|| panic!("there is no way {name}"))
    }

    /// The first that needs no iptables program.
    pub(crate) fn without_program() -> Self {
        Self::all().find(|way| way.program().is_none()).unwrap()
    }

    pub(crate) fn mode(self) -> Mode {
        self.mode
    }

    /// The iptables program that writes.
    pub(crate) fn program(self) -> Option<Variant> {
        self.deployment.program
    }

    pub(crate) fn deployment(self) -> &'static Deployment {
        self.deployment
    }

    /// The module that holds its tests.
    pub(crate) fn module(self) -> String {
        self.to_string().replace('-', "_")
    }

    /// The options of `portway run` that choose it.
    pub(crate) fn arguments(self) -> Vec<String> {
        let mut arguments = vec!["--mode".to_owned(), self.mode.to_string()];
        if let Some(word) = self.program_word() {
            arguments.extend([format!("--{}", programs::FLAG), word.to_owned()]);
        }
        // Held connections are to end by themselves; the VM is slow.
        if self.carries() || self.needs_vm() {
            arguments.extend(["--drain-timeout", "5m"].map(str::to_owned));
        }
        arguments
    }

    fn program_word(self) -> Option<&'static str> {
        programs::setting_of(&self.program()?.to_string())
    }

    /// Has this machine what it needs? If not, the reason is on standard error.
    #[expect(clippy::print_stderr, reason = "the test's own output")]
    pub(crate) fn is_available(self) -> bool {
        if let Some(why) = self.mode.cannot_compare() {
            eprintln!("skipped: {why}");
            return false;
        }
        let Some(variant) = self.program() else { return true };
        let mut found = Programs::find();
        let missing = xtables::Family::ALL.into_iter().find(|family| found.door(variant, *family).is_none());
        if let Some(family) = missing {
            eprintln!("skipped: {variant} is not installed for {family}");
        }
        missing.is_none()
    }

    pub(crate) fn behaviour(self) -> Behaviour {
        self.mode.behaviour()
    }

    /// Is it what `portway run` does by itself?
    pub(crate) fn is_default(self) -> bool {
        self.mode == registry::default_mode()
    }

    /// Does it need modules that the kernel of a build machine may lack?
    pub(crate) fn needs_vm(self) -> bool {
        !self.behaviour().kernel_modules.is_empty()
    }

    /// Is it tried on the VM's kernel, which is another version?
    pub(crate) fn is_tried_in_vm(self) -> bool {
        self.needs_vm() || self.is_default()
    }

    /// Does it carry connections itself, so that they end with it?
    pub(crate) fn carries(self) -> bool {
        self.behaviour().relays_connections
    }

    /// The protocols that it serves.
    pub(crate) fn protocols(self) -> &'static [Protocol] {
        if self.mode.semantics().carries_sctp { &PROTOCOLS } else { &PROTOCOLS[..2] }
    }

    /// Every combination of family and protocol.
    pub(crate) fn every_kind(self) -> impl Iterator<Item = (Family, Protocol)> {
        Family::ALL
            .into_iter()
            .flat_map(move |family| self.protocols().iter().map(move |protocol| (family, *protocol)))
    }

    /// What it writes, as far as the kernel can be asked for it without knowing the mode.
    pub(crate) fn rules(self) -> Option<Rules> {
        match (self.program(), self.mode.serving_sign()) {
            _ if self.has_virtual_servers() => Some(Rules::VirtualServers),
            (Some(program), _) => Some(Rules::Chains(program)),
            (None, Some(ServingSign::Table(name))) => Some(Rules::Table(name)),
            (None, _) => None,
        }
    }

    pub(crate) fn has_virtual_servers(self) -> bool {
        self.behaviour().kernel_modules.contains(&VIRTUAL_SERVERS)
    }

    /// Does the kernel count what was carried for a Service?
    pub(crate) fn is_counted_by_kernel(self) -> bool {
        self.mode.traffic_source() == TrafficSource::Kernel
    }

    /// Are the addresses of Services addresses of the host? Then it dials them from themselves, and must be hidden.
    pub(crate) fn has_addresses_of_services(self) -> bool {
        self.mode.service_interface().is_some()
    }
}

/// The mode, and the program where the mode is deployed with several.
impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.program_word() {
            Some(word) if self.mode.deployments().len() > 1 => write!(f, "{}-{word}", self.mode),
            _ => self.mode.fmt(f),
        }
    }
}

//! The ways in which scenarios are tried on this machine's kernel: each mode of the registry, with each iptables program that it can
//! write with.
//!
//! Absent on purpose: modes that need kernel modules which a build machine may lack. Packets meet those in the VM.

use std::fmt;

use dataplane::{LocalhostNodePorts, Mode, ModeSettings, programs, registry};
use kernel::xtables::{Family, Programs, Variant, Xtables as _};
use playground::namespace::Namespace;

/// A mode, with its program where it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) mode: Mode,
    program: Option<Variant>,
}

impl Way {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let here = registry::product_modes().filter(|mode| mode.behaviour().kernel_modules.is_empty());
        here.flat_map(|mode| {
            let programs = match mode.setting(programs::FLAG) {
                Some(_) => Variant::ALL.map(Some).to_vec(),
                None => vec![None],
            };
            programs.into_iter().map(move |program| Self { mode, program })
        })
    }

    /// Without node ports on localhost: nothing listens in these tests.
    pub(crate) fn settings(self) -> ModeSettings {
        let localhost_node_ports = LocalhostNodePorts::Nowhere;
        let mut settings = ModeSettings { localhost_node_ports, ..ModeSettings::of(self.mode) };
        let program = self.program.and_then(|program| programs::setting_of(&program.to_string()));
        if let Some(word) = program {
            settings.own.set(programs::FLAG, vec![word.to_owned()]);
        }
        settings
    }

    /// The program of each family. An error says why there is none.
    pub(crate) fn programs(self) -> Result<Vec<Programs>, String> {
        let Some(variant) = self.program else { return Ok(Vec::new()) };
        let mut programs = Programs::find().programs;
        programs.retain(|program| program.variant() == variant);
        if programs.len() < Family::ALL.len() {
            return Err(format!("{variant} is not installed for both families"));
        }
        Ok(programs)
    }

    /// Why nothing can be tried here, if that is so.
    pub(crate) fn check_host(self) -> Result<(), String> {
        self.programs()?;
        namespace().map(drop)
    }
}

pub(crate) fn namespace() -> Result<Namespace, String> {
    Namespace::create().map_err(|e| format!("a network namespace needs root: {e}"))
}

/// A program whose name begins with the mode's says it all.
impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.program.map(|program| program.to_string()) {
            Some(program) if program.starts_with(self.mode.name()) => f.write_str(&program),
            Some(program) => write!(f, "{} by {program}", self.mode),
            None => self.mode.fmt(f),
        }
    }
}

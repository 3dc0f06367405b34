//! What everything outside a mode's folder knows of a mode: a value, whose answers the folder gives.
//!
//! | file | what it is for |
//! |---|---|
//! | `spec` | the trait that a mode's folder implements |
//! | `facts` | deployment, behaviour, sections of upstream's config file |
//! | `settings` | what the operator chose |
//! | `open` | opening and rendering: requests, results, errors |
//! | `leftovers` | what modes leave in a kernel when they serve no more, and how it goes |
//! | `drift` | how writes of other programs are noticed |
//!
//! Absent on purpose: any particular mode. `registry.rs` is the list, which nothing here may know: modes use this file.

mod drift;
mod facts;
pub mod leftovers;
mod open;
mod settings;
mod spec;

use std::fmt;

use model::Family;

pub use drift::{DriftSource, ForeignWrites};
pub use facts::{Behaviour, Deployment, Sections, TrafficSource};
pub use open::{ConntrackSettings, HiddenRules, OpenError, OpenRequest, Opened, RenderRequest, SharedRelay};
pub use settings::{LocalhostNodePorts, MASQUERADE_BIT, ModeSettings};
pub use spec::{IsOfAService, ModeSpec};

use crate::checks::{COMMON, Check};
use crate::localhost::{Choice, Localhost};
use crate::settings::Setting;

/// A mode of the registry.
#[derive(Clone, Copy)]
pub struct Mode(&'static dyn ModeSpec);

impl Mode {
    pub const fn new(spec: &'static dyn ModeSpec) -> Self {
        Self(spec)
    }

    /// The preconditions of this mode.
    pub fn checks(self) -> impl Iterator<Item = &'static Check> {
        self.0.checks().iter().chain(COMMON)
    }

    /// Opens the mode, with node ports on localhost beside it.
    pub fn open(self, request: &OpenRequest<'_>) -> Result<Opened, OpenError> {
        let opened = self.0.open(request)?;
        let families = match request.settings.localhost_node_ports {
            LocalhostNodePorts::Listening => Family::ALL.to_vec(),
            LocalhostNodePorts::ByRules => vec![Family::V6],
            LocalhostNodePorts::Nowhere => Vec::new(),
        };
        let default_node_port_addresses = self.semantics().default_node_port_addresses;
        let choice = Choice { families, default_node_port_addresses };
        let dataplane = Box::new(Localhost::new(opened.dataplane, request.relay.clone(), choice));
        Ok(Opened { dataplane, ..opened })
    }

    /// The setting of this mode that has this flag.
    pub fn setting(self, flag: &str) -> Option<&'static Setting> {
        self.settings().iter().find(|setting| setting.flag == flag)
    }

    /// Whether a setting of this mode has this field of the config file.
    pub fn has_field(self, path: &str) -> bool {
        self.settings().iter().any(|setting| setting.field.is_some_and(|field| field.path == path))
    }

    /// Whether it has this one of upstream's metrics.
    pub fn has_metric(self, name: &str) -> bool {
        self.upstream_metrics().contains(&name)
    }
}

impl std::ops::Deref for Mode {
    type Target = dyn ModeSpec;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl PartialEq for Mode {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Mode {}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

//! What the operator chose for a mode, and what follows from it for packets.

use model::Promises;
use model::fate::Loopback;
use serde::{Deserialize, Serialize};

use super::Mode;
use crate::settings::Values;

/// The bit of the packet mark that hides sources, as upstream has it.
pub const MASQUERADE_BIT: u8 = 14;

/// What the operator chose for a mode.
#[derive(Clone, Debug)]
pub struct ModeSettings {
    pub mode: Mode,
    /// How node ports answer on this host's loopback addresses.
    pub localhost_node_ports: LocalhostNodePorts,
    /// The bit of the packet mark that says: hide the source of this connection.
    pub masquerade_bit: u8,
    /// The mode's own settings.
    pub own: Values,
}

/// How node ports answer on this host's loopback addresses, where `nodePortAddresses` covers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LocalhostNodePorts {
    /// On 127.0.0.1 and `::1`: the relay listens there.
    #[default]
    Listening,
    /// On 127.0.0.0/8 by the mode's own rules, with `route_localnet`, and on `::1` by listening.
    ByRules,
    /// Nowhere.
    Nowhere,
}

impl ModeSettings {
    /// A mode for which nothing was chosen.
    pub fn of(mode: Mode) -> Self {
        Self {
            mode,
            localhost_node_ports: LocalhostNodePorts::default(),
            masquerade_bit: MASQUERADE_BIT,
            own: Values::default(),
        }
    }

    /// What the mode does where Kubernetes leaves the choice.
    pub fn semantics(&self) -> Promises {
        let semantics = self.mode.semantics();
        let loopback_node_ports = match self.localhost_node_ports {
            LocalhostNodePorts::Listening => semantics.loopback_node_ports,
            LocalhostNodePorts::ByRules => Loopback::Both,
            LocalhostNodePorts::Nowhere => Loopback::Never,
        };
        Promises { loopback_node_ports, ..semantics }
    }

    pub fn masquerade_mark(&self) -> u32 {
        1_u32.checked_shl(self.masquerade_bit.into()).unwrap_or(1 << MASQUERADE_BIT)
    }
}

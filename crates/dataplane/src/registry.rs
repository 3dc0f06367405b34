//! The list of modes. To add one, write its folder and one line here.

use crate::mode::Mode;

/// All modes, in the order in which they are shown. The first is the default of `portway run`.
pub static MODES: &[Mode] =
    &[crate::nftables::MODE, crate::iptables::MODE, crate::ipvs::MODE, crate::userspace::MODE];

/// The mode of a run for which none was chosen.
pub fn default_mode() -> Mode {
    MODES[0]
}

/// Interfaces whose addresses are all Services', whichever mode made them.
pub fn service_interfaces() -> Vec<&'static str> {
    MODES.iter().filter_map(|mode| mode.service_interface()).collect()
}

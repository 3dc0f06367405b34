//! The IPVS mode of a running portway, as its status tells it: enough for `portway diff` to ask for the same.

use kernel::ipvs::Timeouts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Options;
use crate::Leaving;

/// What was chosen, and what is left of what is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IpvsStatus {
    /// How virtual servers choose, where it was said.
    pub scheduler: Option<String>,
    /// The interface that has the addresses of Services.
    pub interface: String,
    /// Networks whose virtual servers are left alone.
    pub excluded: Vec<String>,
    /// Whether ARP is answered for an address on no interface but its own.
    pub strict_arp: bool,
    /// How long an endpoint that is gone may wait for its connections to end.
    pub drain_limit_seconds: u64,
    /// Timeouts of TCP, of TCP after FIN, and of UDP; 0 is the kernel's choice.
    pub timeouts_seconds: [u32; 3],
    /// Real servers that wait for their connections to end.
    pub draining: usize,
    /// For how long the first of them does, as far as this process knows.
    pub longest_draining_seconds: Option<u64>,
}

impl IpvsStatus {
    /// What is told of these.
    pub(super) fn of(options: &Options, leaving: Option<Leaving>) -> Self {
        let Timeouts { tcp_s, tcp_fin_s, udp_s } = options.timeouts;
        Self {
            scheduler: options.scheduler.map(|scheduler| scheduler.to_string()),
            interface: options.interface.clone(),
            excluded: options.excluded.iter().map(ToString::to_string).collect(),
            strict_arp: options.strict_arp,
            drain_limit_seconds: options.drain_limit.as_secs(),
            timeouts_seconds: [tcp_s, tcp_fin_s, udp_s],
            draining: leaving.map_or(0, |leaving| leaving.count),
            longest_draining_seconds: leaving.map(|leaving| leaving.longest.as_secs()),
        }
    }

    /// The section of a status; another version may say less or more.
    pub(super) fn read(section: &Value) -> Option<Self> {
        serde_json::from_value(section.clone()).ok()
    }

    /// For people.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let scheduler =
            self.scheduler.clone().unwrap_or_else(|| "rr, and wrr where weights differ".to_owned());
        let arp = if self.strict_arp { ", strict ARP" } else { "" };
        let draining = match self.draining {
            0 => "none".to_owned(),
            count => format!(
                "{count} real servers wait for connections to end, the first since {} s; {} s at most",
                self.longest_draining_seconds.unwrap_or_default(),
                self.drain_limit_seconds
            ),
        };
        vec![
            ("Scheduler", scheduler),
            ("Addresses", format!("on {}{arp}", self.interface)),
            ("Draining", draining),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Scheduler;
    use super::super::own_settings::{own_options, values_of};
    use super::*;

    #[test]
    fn what_was_chosen_is_told_whole() {
        let options = Options {
            scheduler: Scheduler::named("lc").ok(),
            interface: "eth0".to_owned(),
            excluded: vec!["192.0.2.0/24".parse().unwrap()],
            strict_arp: true,
            drain_limit: Duration::from_secs(5),
            timeouts: Timeouts { tcp_s: 1, tcp_fin_s: 2, udp_s: 3 },
            ..Options::default()
        };
        let told = IpvsStatus::of(&options, Some(Leaving { count: 2, longest: Duration::from_secs(9) }));
        assert_eq!((told.draining, told.longest_draining_seconds), (2, Some(9)));
        assert_eq!(format!("{:?}", own_options(&values_of(&told))), format!("{options:?}"));
    }
}

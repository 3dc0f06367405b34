//! The options of the ipvs mode, named as upstream's are where it has them.
//!
//! In: what the operator wrote. Out: the mode's options, where nothing was said as they were before: the default's, or those of the
//! running portway.

use std::time::Duration;

use clap::Args;
use dataplane::ipvs::{Options, Scheduler};
use ipnet::IpNet;

use super::values::{Sentence, cidr, duration, interface};

const IPVS: &str = "Mode ipvs";

/// The options.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct IpvsArgs {
    /// How virtual servers choose where no annotation of the Service says so: rr, wrr, lc, wlc, lblc, lblcr, dh, sh, sed, nq, fo, ovf, mh
    /// [default: rr, and wrr where weights differ]
    #[arg(long, value_name = "NAME", value_parser = Sentence(scheduler), help_heading = IPVS)]
    ipvs_scheduler: Option<Scheduler>,

    #[command(flatten)]
    excluded: ExcludedArgs,

    /// Answer ARP for addresses of Services on no interface but their own: sets `arp_ignore` to 1 and `arp_announce` to 2
    #[arg(long, help_heading = IPVS)]
    ipvs_strict_arp: bool,

    /// The interface that gets the addresses of Services; a dummy is made where there is none of this name [default: kube-ipvs0]
    #[arg(long, value_name = "NAME", value_parser = Sentence(interface), help_heading = IPVS)]
    ipvs_interface: Option<String>,

    /// An endpoint that is gone waits at most so long for its TCP connections to end [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration), help_heading = IPVS)]
    ipvs_drain_limit: Option<Duration>,

    /// For how long an idle TCP connection is remembered; 0 leaves the kernel's choice
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration), help_heading = IPVS)]
    ipvs_tcp_timeout: Option<Duration>,

    /// For how long a TCP connection is remembered after its FIN; 0 leaves the kernel's choice
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration), help_heading = IPVS)]
    ipvs_tcpfin_timeout: Option<Duration>,

    /// For how long a UDP client is remembered; 0 leaves the kernel's choice
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration), help_heading = IPVS)]
    ipvs_udp_timeout: Option<Duration>,
}

/// The networks of others.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ExcludedArgs {
    /// Leave virtual servers and addresses in these networks alone, unless a Service has them; separated by commas
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = Sentence(cidr), help_heading = IPVS)]
    pub(super) ipvs_exclude_cidrs: Vec<IpNet>,
}

impl ExcludedArgs {
    /// Its name, if it was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        (!self.ipvs_exclude_cidrs.is_empty()).then_some("--ipvs-exclude-cidrs")
    }
}

impl IpvsArgs {
    /// The first one that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.ipvs_scheduler.is_some(), "--ipvs-scheduler"),
            (self.ipvs_strict_arp, "--ipvs-strict-arp"),
            (self.ipvs_interface.is_some(), "--ipvs-interface"),
            (self.ipvs_drain_limit.is_some(), "--ipvs-drain-limit"),
            (self.ipvs_tcp_timeout.is_some(), "--ipvs-tcp-timeout"),
            (self.ipvs_tcpfin_timeout.is_some(), "--ipvs-tcpfin-timeout"),
            (self.ipvs_udp_timeout.is_some(), "--ipvs-udp-timeout"),
        ];
        let first = given.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name);
        first.or_else(|| self.excluded.given())
    }

    /// These options, but what was written here is so.
    pub(super) fn over(&self, mut options: Options) -> Options {
        options.scheduler = self.ipvs_scheduler.or(options.scheduler);
        if !self.excluded.ipvs_exclude_cidrs.is_empty() {
            options.excluded.clone_from(&self.excluded.ipvs_exclude_cidrs);
        }
        options.strict_arp |= self.ipvs_strict_arp;
        options.interface = self.ipvs_interface.clone().unwrap_or(options.interface);
        options.drain_limit = self.ipvs_drain_limit.unwrap_or(options.drain_limit);
        let timeouts = &mut options.timeouts;
        for (given, seconds) in [
            (self.ipvs_tcp_timeout, &mut timeouts.tcp_s),
            (self.ipvs_tcpfin_timeout, &mut timeouts.tcp_fin_s),
            (self.ipvs_udp_timeout, &mut timeouts.udp_s),
        ] {
            *seconds = given.map_or(*seconds, whole_seconds);
        }
        options
    }
}

/// The kernel counts in seconds. Less than one of them is one: 0 would mean something else.
fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}

fn scheduler(text: &str) -> Result<Scheduler, String> {
    Scheduler::named(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_stays_as_it_was() {
        let before = Options { strict_arp: true, interface: "eth0".to_owned(), ..Options::default() };
        let said = IpvsArgs { ipvs_udp_timeout: Some(Duration::from_millis(1)), ..IpvsArgs::default() };
        let after = said.over(before);
        assert_eq!((after.strict_arp, after.interface.as_str()), (true, "eth0"));
        assert_eq!((after.timeouts.udp_s, after.timeouts.tcp_s), (1, 0));
        assert_eq!((said.given(), IpvsArgs::default().given()), (Some("--ipvs-udp-timeout"), None));
    }
}

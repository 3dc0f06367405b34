//! The settings of this mode, named as upstream's are where it has them; and the options that they make.

use std::time::Duration;

use super::status::IpvsStatus;
use super::{DUMMY, Options, Scheduler};
use crate::mode::ModeSettings;
use crate::programs;
use crate::settings::{Commands, Field, Kind, Setting, Values, milliseconds, parse_cidr, parse_interface};

const SCHEDULER: &str = "ipvs-scheduler";
const EXCLUDED: &str = "ipvs-exclude-cidrs";
const STRICT_ARP: &str = "ipvs-strict-arp";
const INTERFACE: &str = "ipvs-interface";
const DRAIN_LIMIT: &str = "ipvs-drain-limit";
const TCP_TIMEOUT: &str = "ipvs-tcp-timeout";
const TCP_FIN_TIMEOUT: &str = "ipvs-tcpfin-timeout";
const UDP_TIMEOUT: &str = "ipvs-udp-timeout";

const fn own(flag: &'static str, kind: Kind, help: &'static str) -> Setting {
    Setting { flag, kind, help, heading: Some("Mode ipvs"), commands: Commands::RULES, field: None }
}

const fn at(setting: Setting, path: &'static str, why: &'static str) -> Setting {
    Setting { field: Some(Field { path, why, is_better: false, must: None }), ..setting }
}

const fn better(setting: Setting, must: Option<&'static str>) -> Setting {
    match setting.field {
        Some(field) => Setting { field: Some(Field { is_better: true, must, ..field }), ..setting },
        None => setting,
    }
}

const KERNELS: &str = "0 leaves the kernel's";

pub(super) const SETTINGS: &[Setting] = &[
    programs::PROGRAM,
    better(
        at(
            own(
                SCHEDULER,
                Kind::Text { value_name: "NAME", parse: scheduler },
                "How virtual servers choose where no annotation of the Service says so: rr, wrr, lc, wlc, lblc, lblcr, dh, sh, sed, nq, fo, ovf, mh \
             [default: rr, and wrr where weights differ]",
            ),
            "ipvs.scheduler",
            "all 13 of the kernel; empty: rr, and wrr where weights differ",
        ),
        None,
    ),
    Setting {
        commands: Commands { cleanup: true, ..Commands::RULES },
        ..better(
            at(
                own(
                    EXCLUDED,
                    Kind::List { value_name: "CIDR", parse: parse_cidr },
                    "Leave virtual servers and addresses in these networks alone, unless a Service has them; separated by commas",
                ),
                "ipvs.excludeCIDRs",
                "virtual servers and addresses of others survive anyway; these even in a cleanup",
            ),
            Some("must be a valid CIDR block"),
        )
    },
    at(
        own(
            STRICT_ARP,
            Kind::Switch,
            "Answer ARP for addresses of Services on no interface but their own: sets `arp_ignore` to 1 and `arp_announce` to 2",
        ),
        "ipvs.strictARP",
        "sets arp_ignore and arp_announce",
    ),
    own(
        INTERFACE,
        Kind::Text { value_name: "NAME", parse: parse_interface },
        "The interface that gets the addresses of Services; a dummy is made where there is none of this name [default: kube-ipvs0]",
    ),
    own(
        DRAIN_LIMIT,
        Kind::Time,
        "An endpoint that is gone waits at most so long for its TCP connections to end [default: 15m]",
    ),
    at(
        own(
            TCP_TIMEOUT,
            Kind::Time,
            "For how long an idle TCP connection is remembered; 0 leaves the kernel's choice",
        ),
        "ipvs.tcpTimeout",
        KERNELS,
    ),
    at(
        own(
            TCP_FIN_TIMEOUT,
            Kind::Time,
            "For how long a TCP connection is remembered after its FIN; 0 leaves the kernel's choice",
        ),
        "ipvs.tcpFinTimeout",
        KERNELS,
    ),
    at(
        own(UDP_TIMEOUT, Kind::Time, "For how long a UDP client is remembered; 0 leaves the kernel's choice"),
        "ipvs.udpTimeout",
        KERNELS,
    ),
];

fn scheduler(text: &str) -> Result<String, String> {
    Scheduler::named(text).map(|scheduler| scheduler.to_string()).map_err(|error| error.to_string())
}

/// The options of the mode that these settings make.
pub(super) fn options(settings: &ModeSettings) -> Options {
    Options { masquerade_mark: settings.masquerade_mark(), ..own_options(&settings.own) }
}

pub(super) fn own_options(values: &Values) -> Options {
    let mut options = Options::default();
    for row in &ROWS {
        (row.choose)(&mut options, values, row.flag);
    }
    options
}

/// What was chosen for the process that tells this status.
pub(super) fn values_of(status: &IpvsStatus) -> Values {
    let mut values = Values::default();
    for row in &ROWS {
        if let Some(told) = (row.tell)(status) {
            values.set(row.flag, told);
        }
    }
    values
}

/// A setting: how a choice becomes an option, and how a status tells it.
struct Row {
    flag: &'static str,
    choose: fn(&mut Options, &Values, &str),
    tell: fn(&IpvsStatus) -> Option<Vec<String>>,
}

const ROWS: [Row; 8] = [
    Row {
        flag: SCHEDULER,
        choose: |options, values, flag| {
            options.scheduler = values.text(flag).and_then(|name| Scheduler::named(name).ok());
        },
        tell: |status| status.scheduler.clone().map(|name| vec![name]),
    },
    Row {
        flag: EXCLUDED,
        choose: |options, values, flag| {
            options.excluded = values.list(flag).filter_map(model::net::parse_cidr).collect();
        },
        tell: |status| Some(status.excluded.clone()),
    },
    Row {
        flag: STRICT_ARP,
        choose: |options, values, flag| options.strict_arp = values.is_on(flag),
        tell: |status| Some(vec![status.strict_arp.to_string()]),
    },
    Row {
        flag: INTERFACE,
        choose: |options, values, flag| values.text(flag).unwrap_or(DUMMY).clone_into(&mut options.interface),
        tell: |status| Some(vec![status.interface.clone()]),
    },
    Row {
        flag: DRAIN_LIMIT,
        choose: |options, values, flag| {
            options.drain_limit = values.time(flag).unwrap_or(options.drain_limit);
        },
        tell: |status| Some(vec![told(status.drain_limit_seconds)]),
    },
    Row {
        flag: TCP_TIMEOUT,
        choose: |options, values, flag| options.timeouts.tcp_s = seconds(values, flag),
        tell: |status| Some(vec![told(status.timeouts_seconds[0])]),
    },
    Row {
        flag: TCP_FIN_TIMEOUT,
        choose: |options, values, flag| options.timeouts.tcp_fin_s = seconds(values, flag),
        tell: |status| Some(vec![told(status.timeouts_seconds[1])]),
    },
    Row {
        flag: UDP_TIMEOUT,
        choose: |options, values, flag| options.timeouts.udp_s = seconds(values, flag),
        tell: |status| Some(vec![told(status.timeouts_seconds[2])]),
    },
];

/// 0, which is the kernel's choice, where none was made.
fn seconds(values: &Values, flag: &str) -> u32 {
    values.time(flag).map_or(0, whole_seconds)
}

fn told(seconds: impl Into<u64>) -> String {
    milliseconds(Duration::from_secs(seconds.into()))
}

/// The kernel counts in seconds. Less than one of them is one: 0 would mean something else.
fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_stays_as_it_was() {
        let before = Options { strict_arp: true, interface: "eth0".to_owned(), ..Options::default() };
        let mut said = Values::default();
        said.set(UDP_TIMEOUT, vec![milliseconds(Duration::from_millis(1))]);
        let after = own_options(&said.over(values_of(&IpvsStatus::of(&before, None))));
        assert_eq!((after.strict_arp, after.interface.as_str()), (true, "eth0"));
        assert_eq!((after.timeouts.udp_s, after.timeouts.tcp_s), (1, 0));
    }
}

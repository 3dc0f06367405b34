//! The connection tracker's limits, and this process' place in line when memory runs out: as upstream sets them.
//!
//! In: the operator's choices. Out: settings of the kernel, each written only where it is different.
//!
//! They are of the whole machine, so a portway without a cluster leaves alone what nobody asked for. One that cannot be written is
//! told and stops nothing, where upstream ends: rules matter more than limits. Only [`prepare`] tells forwarding apart, without
//! which traffic does not work. A setting that is missing is tried again when our rules are in force, since these load the connection
//! tracker.
//!
//! The size of the connection tracker is only raised, where upstream also lowers it: on a node that is a container it is the size of the
//! whole machine, and an administrator who chose more meant it.

use std::fs;
use std::thread::available_parallelism;
use std::time::Duration;

use config::{ConntrackMax, Tuning};
use kernel::IpProtocol;
use kernel::conntrack::{self, Conntrack as _, Filter};
use kernel::host::{self, Address, Scope};
use kernel::sysctl::{self, Sysctls};

/// However many cores there are, as upstream: more takes too much memory.
const ENTRIES_MAX: u64 = 1 << 20;
/// Entries for each place of the hash table.
const ENTRIES_PER_BUCKET: u64 = 4;

const MAX: &str = "net/netfilter/nf_conntrack_max";
const BUCKETS: &str = "net/netfilter/nf_conntrack_buckets";
const IPV4_FORWARDING: &str = "net/ipv4/ip_forward";
const IPV6_FORWARDING: &str = "net/ipv6/conf/all/forwarding";
const OOM_SCORE_ADJ: &str = "/proc/self/oom_score_adj";

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tuned {
    /// What was written, in words.
    pub(super) written: Vec<String>,
    /// What could not be and only tunes, in words.
    pub(super) failed: Vec<String>,
    /// What could not be and traffic needs, in words.
    pub(super) not_forwarding: Vec<String>,
    /// The kernel does not have some of these settings, yet.
    pub(super) is_missing: bool,
}

/// What came of [`prepare`], in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Settings that were written.
    pub written: Vec<String>,
    /// Settings that could not be written, and without which traffic works all the same.
    pub warnings: Vec<String>,
    /// Settings that could not be written, and without which traffic does not work.
    pub errors: Vec<String>,
}

/// Makes these choices true, without what is of this process alone: for a container that may do more than the one that stays.
pub fn prepare(tuning: &Tuning) -> Prepared {
    Tuner(*tuning).prepare()
}

/// Makes these choices true.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuner(pub(super) Tuning);

impl Tuner {
    /// Writes what is different.
    pub(super) fn apply(&self) -> Tuned {
        let mut tuned = self.apply_to(&mut sysctl::ThisMachine, cores());
        if let Some(score) = self.0.oom_score_adj
            && let Err(error) = adjust_oom_score(score)
        {
            tuned.failed.push(format!("{OOM_SCORE_ADJ} cannot be set to `{score}`: {error}"));
        }
        tuned
    }

    /// Writes what is different, without what is of this process alone: for a container that may do more than the one that stays.
    fn prepare(&self) -> Prepared {
        let load = |_: &mut sysctl::ThisMachine| load_tracker();
        let tuned = self.prepare_on(&mut sysctl::ThisMachine, cores(), load);
        Prepared { written: tuned.written, warnings: tuned.failed, errors: tuned.not_forwarding }
    }

    /// No rule of ours is in force yet, so settings may be missing because nobody needed the connection tracker so far. Then it is
    /// asked for, and all is tried again.
    fn prepare_on<S: Sysctls>(
        &self,
        settings: &mut S,
        cores: u64,
        load: impl FnOnce(&mut S) -> conntrack::Result<()>,
    ) -> Tuned {
        let first = self.apply_to(settings, cores);
        if !first.is_missing {
            return first;
        }
        let loaded = load(settings);
        let mut again = self.apply_to(settings, cores);
        again.written.splice(..0, first.written);
        if again.is_missing {
            let why = loaded.err().map(|error| format!(" ({error})")).unwrap_or_default();
            again.failed.push(format!(
                "this kernel lacks settings of the connection tracker, also after it was asked to load it{why}: load the module \
                 nf_conntrack, at boot by /etc/modules-load.d"
            ));
        }
        again
    }

    fn apply_to(&self, settings: &mut impl Sysctls, cores: u64) -> Tuned {
        let mut tuned = Tuned::default();
        if self.0.ip_forward {
            tuned.forward(settings, &Host::read());
        }
        if let Some(max) = self.entries(cores) {
            tuned.raise(settings, MAX, max);
            tuned.raise(settings, BUCKETS, max / ENTRIES_PER_BUCKET);
        }
        for (name, value) in self.wanted() {
            tuned.set(settings, name, value, |current| current == value);
        }
        tuned
    }

    fn wanted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs()).filter(|seconds| *seconds > 0);
        let all = [
            ("net/netfilter/nf_conntrack_tcp_timeout_established", seconds(self.0.tcp_established)),
            ("net/netfilter/nf_conntrack_tcp_timeout_close_wait", seconds(self.0.tcp_close_wait)),
            ("net/netfilter/nf_conntrack_tcp_be_liberal", self.0.tcp_be_liberal.then_some(1)),
            ("net/netfilter/nf_conntrack_udp_timeout", seconds(self.0.udp)),
            ("net/netfilter/nf_conntrack_udp_timeout_stream", seconds(self.0.udp_stream)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// How many flows may be tracked; `None` where that is left alone. Upstream's limit holds for what cores add up to, not for
    /// what the operator asks for as the least.
    fn entries(&self, cores: u64) -> Option<u64> {
        let ConntrackMax { per_core, min } = self.0.conntrack_max.filter(|max| max.per_core > 0)?;
        let scaled = u64::from(per_core) * cores;
        Some(if scaled > ENTRIES_MAX { ENTRIES_MAX } else { scaled.max(min.into()) })
    }
}

/// What forwarding depends upon.
struct Host {
    links: Vec<String>,
    /// Without such an address no packet of IPv6 comes from or goes to another host.
    has_global_ipv6: bool,
}

impl Host {
    /// What cannot be read is taken to be there.
    fn read() -> Self {
        let is_global = |address: &Address| address.ip.is_ipv6() && address.scope == Scope::Global;
        Self {
            links: host::links().unwrap_or_default().into_iter().map(|link| link.name).collect(),
            has_global_ipv6: host::addresses().map_or(true, |all| all.iter().any(is_global)),
        }
    }
}

impl Tuned {
    /// Turns forwarding on. For IPv6 that makes this host ignore router advertisements where `accept_ra` is 1, and lose its default
    /// route when the last one expires: so that becomes 2 (accept them also while forwarding) before.
    fn forward(&mut self, settings: &mut impl Sysctls, host: &Host) {
        self.turn_on(settings, IPV4_FORWARDING, true);
        let is_off = settings.read(IPV6_FORWARDING).is_ok_and(|value| value.as_deref() == Some("0"));
        if !is_off {
            return;
        }
        for link in host.links.iter().map(String::as_str).chain(["default"]) {
            let name = format!("net/ipv6/conf/{link}/accept_ra");
            if settings.read(&name).is_ok_and(|value| value.as_deref() == Some("1")) {
                self.set_if_present(settings, &name, 2);
            }
        }
        self.turn_on(settings, IPV6_FORWARDING, host.has_global_ipv6);
    }

    /// Turns forwarding of one family on; traffic does not work without it where the family is needed.
    fn turn_on(&mut self, settings: &mut impl Sysctls, name: &str, is_needed: bool) {
        let failed_before = self.failed.len();
        self.set_if_present(settings, name, 1);
        if is_needed {
            let failed = self.failed.split_off(failed_before).into_iter();
            self.not_forwarding.extend(failed.map(|why| not_forwarding(name, &why)));
        }
    }

    /// Without IPv6, or with a link that is gone, there is no such setting, and waiting for it does not help.
    fn set_if_present(&mut self, settings: &mut impl Sysctls, name: &str, value: u64) {
        let is_missing = std::mem::take(&mut self.is_missing);
        self.set(settings, name, value, |current| current == value);
        self.is_missing = is_missing;
    }

    fn raise(&mut self, settings: &mut impl Sysctls, name: &str, value: u64) {
        self.set(settings, name, value, |current| current >= value);
    }

    fn set(
        &mut self,
        settings: &mut impl Sysctls,
        name: &str,
        value: u64,
        is_right: impl FnOnce(u64) -> bool,
    ) {
        let written = match settings.read(name) {
            Ok(None) => return self.is_missing = true,
            Ok(Some(current)) if current.parse().is_ok_and(is_right) => return,
            Ok(Some(current)) => settings.write(name, &value.to_string()).map(|()| current),
            Err(error) => Err(error),
        };
        match written {
            Ok(before) => self.written.push(format!("{name} = {value} (it was {before})")),
            Err(error) => self.failed.push(error.to_string()),
        }
    }
}

fn not_forwarding(name: &str, why: &str) -> String {
    let command = format!("sysctl -w {}=1", name.replace('/', "."));
    format!("{why}; without it this node forwards no packet to an endpoint: run `{command}` on the node")
}

/// Has the kernel load its connection tracker, which it does when somebody asks for connections. No flow has protocol 255, so
/// that it has nothing to tell.
fn load_tracker() -> conntrack::Result<()> {
    let nothing = Filter::Protocol(conntrack::Family::V4, IpProtocol(u8::MAX));
    conntrack::Netlink::open()?.visit(&nothing, &mut |_| ()).map(drop)
}

fn adjust_oom_score(score: i32) -> std::io::Result<()> {
    let is_right = fs::read_to_string(OOM_SCORE_ADJ)?.trim().parse() == Ok(score);
    if is_right { Ok(()) } else { fs::write(OOM_SCORE_ADJ, score.to_string()) }
}

/// The cores of this machine, not those that this process may use: the tracker is one for all.
fn cores() -> u64 {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let online = online.and_then(|text| count(text.trim())).filter(|count| *count > 0);
    online.unwrap_or_else(|| available_parallelism().map_or(1, |cores| cores.get() as u64))
}

/// How many cores `0-3,5` are.
fn count(ranges: &str) -> Option<u64> {
    let mut count = 0;
    for part in ranges.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        count += last.checked_sub(first)? + 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_sim::sysctl::Simulated;

    fn kernel() -> Simulated {
        Simulated::new([
            (MAX, "65536"),
            (BUCKETS, "16384"),
            ("net/netfilter/nf_conntrack_tcp_timeout_established", "432000"),
            ("net/netfilter/nf_conntrack_tcp_timeout_close_wait", "3600"),
            ("net/netfilter/nf_conntrack_tcp_be_liberal", "0"),
            ("net/netfilter/nf_conntrack_udp_timeout", "30"),
            ("net/netfilter/nf_conntrack_udp_timeout_stream", "120"),
        ])
    }

    #[test]
    fn upstreams_settings_are_written_and_only_what_is_different() {
        let mut settings = kernel();
        let tuned = Tuner(Tuning::as_upstream()).apply_to(&mut settings, 2);
        assert_eq!(
            tuned.written,
            [
                "net/netfilter/nf_conntrack_max = 131072 (it was 65536)",
                "net/netfilter/nf_conntrack_buckets = 32768 (it was 16384)",
                "net/netfilter/nf_conntrack_tcp_timeout_established = 86400 (it was 432000)",
            ]
        );
        settings.fault = Some("read-only file system".to_owned());
        assert_eq!(
            Tuner(Tuning::as_upstream()).apply_to(&mut settings, 2),
            Tuned::default(),
            "nothing is written twice"
        );
    }

    #[test]
    fn what_nobody_chose_is_left_alone() {
        let mut settings = kernel();
        assert_eq!(Tuner(Tuning::default()).apply_to(&mut settings, 64), Tuned::default());
        assert_eq!(settings, kernel());
    }

    #[test]
    fn every_choice_has_its_setting() {
        let second = |count| Some(Duration::from_secs(count));
        let tuning = Tuning {
            conntrack_max: None,
            tcp_established: second(1),
            tcp_close_wait: second(2),
            tcp_be_liberal: true,
            udp: second(3),
            udp_stream: second(4),
            ip_forward: false,
            oom_score_adj: None,
        };
        let mut settings = kernel();
        Tuner(tuning).apply_to(&mut settings, 2);
        let set: Vec<&str> = settings.values.values().map(String::as_str).collect();
        assert_eq!(set, ["16384", "65536", "1", "2", "1", "3", "4"], "in the order of their names");
    }

    #[test]
    fn the_size_follows_the_cores_between_its_limits() {
        let entries = |per_core, min, cores| {
            Tuner(Tuning { conntrack_max: Some(ConntrackMax { per_core, min }), ..Tuning::default() })
                .entries(cores)
        };
        assert_eq!(entries(32_768, 131_072, 2), Some(131_072), "the least");
        assert_eq!(entries(32_768, 131_072, 8), Some(262_144), "by cores");
        assert_eq!(entries(32_768, 131_072, 64), Some(1_048_576), "the most");
        assert_eq!(entries(32_768, 2_000_000, 2), Some(2_000_000), "the operator's least may be more");
        assert_eq!(entries(0, 131_072, 2), None, "left alone");
    }

    #[test]
    fn a_connection_tracker_that_is_larger_already_is_never_made_smaller() {
        let mut settings = kernel();
        settings.values.insert(MAX.to_owned(), "1048576".to_owned());
        settings.values.insert(BUCKETS.to_owned(), "262144".to_owned());
        Tuner(Tuning::as_upstream()).apply_to(&mut settings, 2);
        assert_eq!(settings.values[MAX], "1048576");
        assert_eq!(settings.values[BUCKETS], "262144");
        let tuned = Tuner(Tuning::as_upstream()).prepare_on(&mut settings, 2, |_| panic!("it is there"));
        assert_eq!(tuned, Tuned::default());
    }

    #[test]
    fn what_cannot_be_written_is_told_and_the_rest_is_tried() {
        let mut settings = kernel();
        settings.fault = Some("read-only file system".to_owned());
        let tuned = Tuner(Tuning::as_upstream()).apply_to(&mut settings, 2);
        assert_eq!(tuned.failed.len(), 3, "{tuned:?}");
        assert!(
            tuned.failed[0].contains("nf_conntrack_max` cannot be set to `131072`: read-only"),
            "{tuned:?}"
        );
        let missing = Tuner(Tuning::as_upstream()).apply_to(&mut Simulated::default(), 2);
        assert_eq!(missing, Tuned { is_missing: true, ..Tuned::default() });
    }

    #[test]
    fn a_tracker_that_is_missing_is_asked_for_and_its_settings_are_tried_again() {
        let tuning = Tuning::as_upstream();
        let tuned = Tuner(tuning).prepare_on(&mut kernel(), 2, |_| panic!("it is there"));
        assert_eq!(tuned.written.len(), 3, "{tuned:?}");

        let mut settings = Simulated::default();
        let tuned = Tuner(tuning).prepare_on(&mut settings, 2, |settings| {
            *settings = kernel();
            Ok(())
        });
        assert_eq!((tuned.written.len(), tuned.failed.len()), (3, 0), "{tuned:?}");
        assert_eq!(settings.values[MAX], "131072");

        let refused = |_: &mut Simulated| Err(conntrack::Error::Missing);
        let tuned = Tuner(tuning).prepare_on(&mut Simulated::default(), 2, refused);
        assert_eq!(tuned.failed.len(), 1, "{tuned:?}");
        assert!(tuned.failed[0].contains("asked to load it (this kernel does not tell"), "{tuned:?}");
        assert!(tuned.failed[0].contains("load the module nf_conntrack"), "{tuned:?}");
    }

    #[test]
    fn forwarding_is_turned_on_and_router_advertisements_go_on_being_accepted() {
        let all = [
            ("net/ipv4/ip_forward", "0"),
            ("net/ipv6/conf/all/forwarding", "0"),
            ("net/ipv6/conf/default/accept_ra", "1"),
            ("net/ipv6/conf/eth0/accept_ra", "1"),
            ("net/ipv6/conf/eth1/accept_ra", "0"),
        ];
        let host = Host { links: vec!["eth0".to_owned(), "eth1".to_owned()], has_global_ipv6: true };
        let mut settings = Simulated::new(all);
        let mut tuned = Tuned::default();
        tuned.forward(&mut settings, &host);
        assert_eq!(
            tuned.written,
            [
                "net/ipv4/ip_forward = 1 (it was 0)",
                "net/ipv6/conf/eth0/accept_ra = 2 (it was 1)",
                "net/ipv6/conf/default/accept_ra = 2 (it was 1)",
                "net/ipv6/conf/all/forwarding = 1 (it was 0)",
            ]
        );
        let mut again = Tuned::default();
        again.forward(&mut settings, &host);
        assert_eq!(again, Tuned::default(), "nothing is written twice");
        let mut without_ipv6 = Tuned::default();
        without_ipv6.forward(&mut Simulated::new([("net/ipv4/ip_forward", "0")]), &host);
        assert_eq!((without_ipv6.written.len(), without_ipv6.is_missing), (1, false));
    }

    #[test]
    fn forwarding_that_cannot_be_turned_on_is_told_apart_from_what_only_tunes() {
        let all = [
            (IPV4_FORWARDING, "0"),
            (IPV6_FORWARDING, "0"),
            ("net/ipv6/conf/default/accept_ra", "1"),
            ("net/ipv6/conf/eth0/accept_ra", "1"),
        ];
        let forward = |values: &[(&str, &str)], has_global_ipv6| {
            let mut settings = Simulated::new(values.iter().copied());
            settings.fault = Some("read-only file system".to_owned());
            let mut tuned = Tuned::default();
            tuned.forward(&mut settings, &Host { links: vec!["eth0".to_owned()], has_global_ipv6 });
            tuned
        };
        let tuned = forward(&all, true);
        assert_eq!(tuned.failed.len(), 2, "accept_ra only tunes: {tuned:?}");
        let [v4, v6] = tuned.not_forwarding.as_slice() else { panic!("both families: {tuned:?}") };
        assert!(v4.contains("ip_forward` cannot be set to `1`: read-only"), "{v4}");
        assert!(v4.contains("run `sysctl -w net.ipv4.ip_forward=1` on the node"), "{v4}");
        assert!(v6.contains("net.ipv6.conf.all.forwarding=1"), "{v6}");

        let tuned = forward(&all, false);
        assert_eq!((tuned.failed.len(), tuned.not_forwarding.len()), (3, 1), "no IPv6 here: {tuned:?}");
        let on = [(IPV4_FORWARDING, "1"), (IPV6_FORWARDING, "1")];
        assert_eq!(forward(&on, true), Tuned::default(), "what is on already needs no writing");
    }

    #[test]
    fn cores_are_counted_in_ranges() {
        assert_eq!(count("0-3,5"), Some(5));
        assert_eq!(count("0"), Some(1));
        assert_eq!((count(""), count("3-1"), count("a")), (None, None, None));
    }
}

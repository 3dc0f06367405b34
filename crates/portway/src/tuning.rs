//! The connection tracker's limits and the place in line when memory runs out: options, and what they mean.

use std::time::Duration;

use clap::Args;
use config::{ConntrackMax, Tuning};

use super::values::{Sentence, duration};

const HEADING: &str = "Settings of the kernel, which are of the whole machine";

/// The options. Defaults are upstream's, and with `--from` none: then nothing is set that was not asked for.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct TuningArgs {
    /// Flows that may be tracked, for each core; 0: left alone [default: 32768, and left alone with `--from`]
    #[arg(long, value_name = "NUMBER", help_heading = HEADING)]
    conntrack_max_per_core: Option<u32>,

    /// Flows that may be tracked, at least, however few cores there are [default: 131072]
    #[arg(long, value_name = "NUMBER", help_heading = HEADING)]
    conntrack_min: Option<u32>,

    /// How long a silent TCP connection is remembered; 0: left alone [default: 24h, and left alone with `--from`]
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration), help_heading = HEADING)]
    conntrack_tcp_timeout_established: Option<Duration>,

    /// How long a half-closed TCP connection is remembered; 0: left alone [default: 1h, and left alone with `--from`]
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration), help_heading = HEADING)]
    conntrack_tcp_timeout_close_wait: Option<Duration>,

    /// Let packets pass that are outside of TCP's window
    #[arg(long, help_heading = HEADING)]
    conntrack_tcp_be_liberal: bool,

    /// How long a UDP flow is remembered that was not answered; 0: left alone
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration), help_heading = HEADING)]
    conntrack_udp_timeout: Option<Duration>,

    /// How long a UDP flow is remembered that was answered; 0: left alone
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration), help_heading = HEADING)]
    conntrack_udp_timeout_stream: Option<Duration>,

    /// Have this host forward packets: sets `net.ipv4.ip_forward` and `net.ipv6.conf.all.forwarding` to 1, and `accept_ra` from 1 to 2 before, so
    /// that router advertisements go on being accepted
    #[arg(long, help_heading = HEADING)]
    set_ip_forward: bool,

    /// How late the kernel ends portway when memory runs out, from 1000 to -1000: never [default: -999, and left alone with `--from`]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, value_parser = Sentence(score), help_heading = HEADING)]
    oom_score_adj: Option<i32>,
}

impl TuningArgs {
    /// What was chosen, here or in a document.
    pub(super) fn tuning(&self, of_document: Option<Tuning>, is_in_cluster: bool) -> Tuning {
        let usual = if is_in_cluster { Tuning::as_upstream() } else { Tuning::default() };
        let usual = of_document.unwrap_or(usual);
        let usual_size = usual.conntrack_max.unwrap_or_default();
        let is_sized = self.conntrack_max_per_core.is_some() || self.conntrack_min.is_some();
        let size = is_sized.then(|| ConntrackMax {
            per_core: self.conntrack_max_per_core.unwrap_or(usual_size.per_core),
            min: self.conntrack_min.unwrap_or(usual_size.min),
        });
        Tuning {
            conntrack_max: size.or(usual.conntrack_max),
            tcp_established: self.conntrack_tcp_timeout_established.or(usual.tcp_established),
            tcp_close_wait: self.conntrack_tcp_timeout_close_wait.or(usual.tcp_close_wait),
            tcp_be_liberal: self.conntrack_tcp_be_liberal || usual.tcp_be_liberal,
            udp: self.conntrack_udp_timeout.or(usual.udp),
            udp_stream: self.conntrack_udp_timeout_stream.or(usual.udp_stream),
            ip_forward: self.set_ip_forward || usual.ip_forward,
            oom_score_adj: self.oom_score_adj.or(usual.oom_score_adj),
        }
    }
}

/// From -1000 to 1000.
fn score(text: &str) -> Result<i32, String> {
    let score = text.parse().ok().filter(|score| (-1000..=1000).contains(score));
    score.ok_or_else(|| {
        format!("`{text}` is no number from -1000 (ended last, and never) to 1000 (ended first)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_cluster_nothing_is_set_that_was_not_asked_for() {
        let none = TuningArgs::default();
        assert_eq!(none.tuning(None, false), Tuning::default());
        assert_eq!(none.tuning(None, true), Tuning::as_upstream());
    }

    #[test]
    fn one_choice_of_size_has_upstreams_other_one_beside_it() {
        let least = TuningArgs { conntrack_min: Some(7), ..TuningArgs::default() };
        assert_eq!(least.tuning(None, false).conntrack_max, Some(ConntrackMax { per_core: 32_768, min: 7 }));
        let off = TuningArgs { conntrack_max_per_core: Some(0), ..TuningArgs::default() };
        assert_eq!(off.tuning(None, true).conntrack_max, Some(ConntrackMax { per_core: 0, min: 131_072 }));
        let liberal = TuningArgs { conntrack_tcp_be_liberal: true, ..TuningArgs::default() };
        assert_eq!(liberal.tuning(None, false), Tuning { tcp_be_liberal: true, ..Tuning::default() });
    }

    #[test]
    fn a_score_is_between_its_limits() {
        assert_eq!((score("-999"), score("1000")), (Ok(-999), Ok(1000)));
        assert!(score("1001").unwrap_err().starts_with("`1001`"));
    }
}

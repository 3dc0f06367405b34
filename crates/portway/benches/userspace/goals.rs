//! What we set out to reach, and whether we did.

use crate::load::Load;
use crate::proxy::{HAPROXY, HAPROXY_SPLICE, NGINX, PORTWAY};
use crate::results::{Measured, Results};

const IDLE_KIB: f64 = 12.0;

/// One goal.
pub(crate) struct Goal {
    pub(crate) wanted: String,
    pub(crate) measured: String,
    pub(crate) is_met: bool,
}

/// How a figure is to be compared.
#[derive(Clone, Copy)]
enum Better {
    More,
    Less,
}

/// All goals.
pub(crate) fn judge(results: &Results) -> Vec<Goal> {
    let haproxy: &[&str] = &[HAPROXY, HAPROXY_SPLICE];
    let p50 = |measured: &Measured| measured.figures.latency.map_or(f64::NAN, |latency| latency.p50_us);
    let p99 = |measured: &Measured| measured.figures.latency.map_or(f64::NAN, |latency| latency.p99_us);
    let rows = [
        goal(results, Load::Bulk(1), "throughput", haproxy, Better::More, Measured::rate),
        goal(results, Load::Bulk(64), "throughput", haproxy, Better::More, Measured::rate),
        goal(results, Load::Connects, "rate", haproxy, Better::More, Measured::rate),
        goal(results, Load::RoundTrips, "p50", haproxy, Better::Less, p50),
        goal(results, Load::RoundTrips, "p99", haproxy, Better::Less, p99),
        goal(results, Load::Bulk(1), "CPU for each byte", haproxy, Better::Less, Measured::cpu_us),
        goal(results, Load::Bulk(64), "CPU for each byte", haproxy, Better::Less, Measured::cpu_us),
        goal(results, Load::Datagrams, "rate", &[NGINX], Better::More, Measured::rate),
    ];
    rows.into_iter().flatten().chain(idle(results)).collect()
}

/// Compares the median of the rounds' ratios with the better way of the peer.
fn goal(
    results: &Results,
    load: Load,
    what: &str,
    peers: &[&str],
    better: Better,
    figure: impl Fn(&Measured) -> f64 + Copy,
) -> Option<Goal> {
    let ours = results.spread(load.name(), PORTWAY, figure)?.median;
    let theirs =
        peers.iter().filter_map(|peer| results.spread(load.name(), peer, figure)).map(|spread| spread.median);
    let (best, is_met, sign) = match better {
        Better::More => {
            let best = theirs.fold(f64::MIN, f64::max);
            (best, ours >= best, '≥')
        }
        Better::Less => {
            let best = theirs.fold(f64::MAX, f64::min);
            (best, ours <= best, '≤')
        }
    };
    Some(Goal {
        wanted: format!("{}: {what} {sign} {}'s", load.name(), peers[0]),
        measured: format!("{:.2} ×", ours / best),
        is_met,
    })
}

fn idle(results: &Results) -> Option<Goal> {
    let ours = results.idle.iter().find(|idle| idle.proxy == PORTWAY)?.kib_each();
    Some(Goal {
        wanted: format!("at most {IDLE_KIB:.0} KiB for an idle connection"),
        measured: format!("{ours:.2} KiB"),
        is_met: ours <= IDLE_KIB,
    })
}

//! What we set out to reach, and whether we did.

use crate::changes::{Change, Counted};
use crate::page::number;
use crate::results::{Results, Size};
use crate::samples::Spread;

const GROWTH: f64 = 1.5;

/// One goal.
pub(crate) struct Goal {
    pub(crate) wanted: String,
    pub(crate) measured: String,
    pub(crate) is_met: bool,
}

/// All goals that this run can judge.
pub(crate) fn judge(results: &Results) -> Vec<Goal> {
    let mut goals: Vec<Goal> = results.sizes.iter().map(cold).collect();
    let loaded = &results.loaded;
    goals.extend(loaded.names().into_iter().filter_map(|name| loaded.ends(name)).map(growth));
    goals.push(no_listing(&loaded.changes));
    goals
}

fn cold(size: &Size) -> Goal {
    let Spread { median, least, most } = size.goal_ratio();
    Goal {
        wanted: format!(
            "cold load of {} services no slower than `ipset restore` + `ipvsadm -R`",
            number(size.services.into())
        ),
        measured: format!("{median:.2} × ({least:.2} to {most:.2})"),
        is_met: median <= 1.0,
    }
}

/// What growth is made of.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) fn ratios(least: &Change, most: &Change) -> [f64; 3] {
    let of = |figure: fn(&Counted) -> u64| {
        let of = |change: &Change| change.most().map_or(f64::NAN, |counted| figure(counted) as f64);
        of(most) / of(least)
    };
    [of(Counted::messages), of(Counted::bytes), most.cpu_us().median / least.cpu_us().median]
}

fn growth((least, most): (&Change, &Change)) -> Goal {
    let ratios = ratios(least, most);
    let [messages, bytes, cpu] = ratios;
    Goal {
        wanted: format!(
            "{}: grows {GROWTH} × at most from {} to {} services",
            least.name,
            number(least.services.into()),
            number(most.services.into())
        ),
        measured: format!("messages {messages:.2} ×, bytes {bytes:.2} ×, CPU {cpu:.2} ×"),
        is_met: ratios.iter().all(|ratio| *ratio <= GROWTH),
    }
}

fn no_listing(changes: &[Change]) -> Goal {
    let works = || changes.iter().flat_map(|change| &change.counted).map(|counted| counted.change.0);
    let listings: u64 = works().map(|work| work.listings()).sum();
    let restores: u64 = works().map(|work| work.rules.writes).sum();
    Goal {
        wanted: "one change lists nothing that the kernel holds, and starts no program".into(),
        measured: format!("{listings} listings, {restores} restores in {} changes", works().count()),
        is_met: listings + restores == 0,
    }
}

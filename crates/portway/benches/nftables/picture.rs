//! Cold sync and one change over the number of services, beside the yardstick and upstream.

use harness::picture::{Panel, Series, Style, draw};

use crate::{Cold, Results, upstream};

const PORTWAY: Style = Style { colour: "#0b7a55", dashes: "", is_hollow: false };
const UPSTREAM: Style = Style { colour: "#c2510c", dashes: "6 4", is_hollow: true };
const YARDSTICK: Style = Style { colour: "#5b6472", dashes: "2 3", is_hollow: true };

pub(crate) fn of(results: &Results) -> String {
    let (left, lowest_us, goal) = (70.0, 1e3, (1.5e6, "goal 1.5 s"));
    let cold = Panel { title: "Cold sync: all services", left, lowest_us, goal, series: cold(results) };
    let (title, goal) = ("One change, until the kernel has it", (1e3, "goal 1 ms"));
    let change = Panel { title, left: 550.0, lowest_us: 1e1, goal, series: change(results) };
    draw(
        "portway's nftables mode: cold sync and one change, over the number of services",
        &[cold, change],
        &[
            (70, PORTWAY, "portway (change: slowest of five kinds, p50)"),
            (372, YARDSTICK, "chain per service by nft -f (change: service added)"),
            (710, UPSTREAM, "upstream 1.37, measured apart"),
        ],
    )
}

fn cold(results: &Results) -> Vec<Series> {
    let yardstick = results.yardstick.iter();
    let yardstick = yardstick.filter_map(|one| Some((one.services, one.cold.as_ref()?.wall_ms * 1e3)));
    let portway = results.sizes.iter().map(|size| (size.services, size.cold(Cold::wall_ms).median * 1e3));
    let upstream = upstream::POINTS.map(|(services, cold_ms, ..)| (services, cold_ms * 1e3));
    vec![(UPSTREAM, upstream.into()), (YARDSTICK, yardstick.collect()), (PORTWAY, portway.collect())]
}

fn change(results: &Results) -> Vec<Series> {
    let yardstick = results.yardstick.iter().filter_map(|one| Some((one.services, one.added?.p50_us)));
    let portway = results.sizes.iter().map(|size| {
        let slowest = size.loaded.changes.iter().map(|change| change.whole.p50_us).fold(0.0, f64::max);
        (size.services, slowest)
    });
    let upstream = upstream::POINTS.map(|(services, _, change_ms, ..)| (services, change_ms * 1e3));
    vec![(UPSTREAM, upstream.into()), (YARDSTICK, yardstick.collect()), (PORTWAY, portway.collect())]
}

//! The figures as a picture: cold sync and one change over the number of services, both axes logarithmic.
//!
//! In: the results, and upstream's measured points. Out: an SVG that reads on a light and on a dark page.
//!
//! Absent on purpose: a plotting library. Two panels of lines need none.

mod panel;

use std::fmt::Write as _;

use panel::{Panel, Series, Style};

use crate::results::Results;
use crate::upstream;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 470;

const PORTWAY: Style = Style { colour: "#0b7a55", dashes: "", is_hollow: false };
const UPSTREAM: Style = Style { colour: "#c2510c", dashes: "6 4", is_hollow: true };
const YARDSTICK: Style = Style { colour: "#5b6472", dashes: "2 3", is_hollow: true };

/// The whole picture.
pub(crate) fn render(results: &Results) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#1f2933\">\n\
         <title>portway's nftables mode: cold sync and one change, over the number of services</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\" fill=\"#fdfdfb\"/>\n"
    );
    let cold =
        Panel { title: "Cold sync: all services", left: 70.0, lowest_us: 1e3, goal: (1.5e6, "goal 1.5 s") };
    let change = Panel {
        title: "One change, until the kernel has it",
        left: 550.0,
        lowest_us: 1e1,
        goal: (1e3, "goal 1 ms"),
    };
    cold.draw(&mut svg, &cold_series(results));
    change.draw(&mut svg, &change_series(results));
    legend(&mut svg);
    svg.push_str("</svg>\n");
    svg
}

fn cold_series(results: &Results) -> [Series; 3] {
    let upstream = upstream::POINTS.iter().map(|point| (point.services, point.cold_ms * 1e3));
    let yardstick = results.yardstick.iter();
    let yardstick = yardstick.filter_map(|one| Some((one.services, one.cold.as_ref()?.wall_ms * 1e3)));
    let portway = results.sizes.iter().map(|size| (size.services, size.cold_ms().median * 1e3));
    [
        Series { style: UPSTREAM, points: upstream.collect() },
        Series { style: YARDSTICK, points: yardstick.collect() },
        Series { style: PORTWAY, points: portway.collect() },
    ]
}

fn change_series(results: &Results) -> [Series; 3] {
    let upstream = upstream::POINTS.iter().map(|point| (point.services, point.change_ms * 1e3));
    let yardstick = results.yardstick.iter().filter_map(|one| Some((one.services, one.added?.p50_us)));
    let portway = results.sizes.iter();
    let portway = portway.filter_map(|size| Some((size.services, size.slowest_change()?.whole.p50_us)));
    [
        Series { style: UPSTREAM, points: upstream.collect() },
        Series { style: YARDSTICK, points: yardstick.collect() },
        Series { style: PORTWAY, points: portway.collect() },
    ]
}

fn legend(svg: &mut String) {
    let entries = [
        (70, PORTWAY, "portway (change: slowest of five kinds, p50)"),
        (372, YARDSTICK, "chain per service by nft -f (change: service added)"),
        (710, UPSTREAM, "upstream 1.37, measured apart"),
    ];
    for (x, style, text) in entries {
        let y = HEIGHT - 22;
        style.line(svg, &format!("{x},{y} {},{y}", x + 26));
        style.marker(svg, f64::from(x + 13), f64::from(y));
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" font-size=\"11.5\">{text}</text>", x + 33, y + 4);
    }
}

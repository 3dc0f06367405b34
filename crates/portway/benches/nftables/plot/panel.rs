//! One panel: axes, a goal, and lines with a figure at their last point.

use std::fmt::Write as _;

use crate::page::{number, time};

const TOP: f64 = 60.0;
const WIDTH: f64 = 350.0;
const HEIGHT: f64 = 330.0;
/// From a hundred services to a hundred thousand.
const DECADES_ACROSS: u32 = 3;
const FIRST_SERVICES: u32 = 100;
const DECADES_UP: u32 = 6;
const GRID: &str = "#e3e6e8";
const GOAL: &str = "#2563eb";

/// How a line looks.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) colour: &'static str,
    pub(super) dashes: &'static str,
    pub(super) is_hollow: bool,
}

/// Numbers of services, and microseconds.
pub(super) struct Series {
    pub(super) style: Style,
    pub(super) points: Vec<(u32, f64)>,
}

/// Where a panel is, and from which time it goes up by six decades.
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) left: f64,
    pub(super) lowest_us: f64,
    /// What is to be reached at 45,000 services.
    pub(super) goal: (f64, &'static str),
}

impl Panel {
    pub(super) fn draw(&self, svg: &mut String, series: &[Series]) {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" font-size=\"16\" font-weight=\"600\">{}</text>",
            self.left,
            TOP - 26.0,
            self.title
        );
        self.times(svg);
        self.services(svg);
        self.goal(svg);
        for one in series {
            self.line(svg, one);
        }
    }

    fn x(&self, services: u32) -> f64 {
        let decades = (f64::from(services) / f64::from(FIRST_SERVICES)).log10();
        self.left + WIDTH * decades / f64::from(DECADES_ACROSS)
    }

    fn y(&self, us: f64) -> f64 {
        TOP + HEIGHT * (1.0 - (us / self.lowest_us).log10() / f64::from(DECADES_UP))
    }

    fn times(&self, svg: &mut String) {
        for decade in 0..=DECADES_UP {
            let us = self.lowest_us * 10_f64.powi(i32::try_from(decade).unwrap_or(0));
            let y = self.y(us);
            rule(svg, (self.left, y), (self.left + WIDTH, y));
            label(svg, (self.left - 8.0, y + 4.0), "end", &round_time(us));
        }
    }

    fn services(&self, svg: &mut String) {
        for decade in 0..=DECADES_ACROSS {
            let services = FIRST_SERVICES * 10_u32.pow(decade);
            let x = self.x(services);
            rule(svg, (x, TOP), (x, TOP + HEIGHT));
            label(svg, (x, TOP + HEIGHT + 18.0), "middle", &number(services));
        }
        label(svg, (self.left + WIDTH / 2.0, TOP + HEIGHT + 36.0), "middle", "services, four endpoints each");
    }

    fn goal(&self, svg: &mut String) {
        let (us, text) = self.goal;
        let (x, y) = (self.x(45_000), self.y(us));
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"{GOAL}\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{GOAL}\" font-size=\"11\">{text}</text>",
            x - 14.0,
            x + 14.0,
            x + 18.0,
            y + 4.0
        );
    }

    fn line(&self, svg: &mut String, Series { style, points }: &Series) {
        let places: Vec<_> = points.iter().map(|(services, us)| (self.x(*services), self.y(*us))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        style.line(svg, &path.join(" "));
        for (x, y) in &places {
            style.marker(svg, *x, *y);
        }
        if let (Some(place), Some((_, us))) = (places.last(), points.last()) {
            style.figure(svg, *place, &time(*us));
        }
    }
}

impl Style {
    pub(super) fn line(self, svg: &mut String, points: &str) {
        let Self { colour, dashes, .. } = self;
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>"
        );
    }

    pub(super) fn marker(self, svg: &mut String, x: f64, y: f64) {
        let fill = if self.is_hollow { "#fdfdfb" } else { self.colour };
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{fill}\" stroke=\"{}\" stroke-width=\"2\"/>",
            self.colour
        );
    }

    /// A figure beside the last point of a steep line, below that of a flat one.
    fn figure(self, svg: &mut String, (x, y): (f64, f64), text: &str) {
        let (x, y, anchor) =
            if self.is_hollow { (x + 10.0, y + 5.0, "start") } else { (x, y + 22.0, "middle") };
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{}\" font-weight=\"600\" text-anchor=\"{anchor}\">{text}</text>",
            self.colour
        );
    }
}

fn rule(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(svg, "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"{GRID}\"/>");
}

fn label(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"12\" fill=\"#52606d\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

/// A power of ten, without decimals.
fn round_time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.0} s", us / 1e6),
    }
}

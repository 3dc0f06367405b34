//! Times over the number of services as a picture: panels with both axes logarithmic, a goal, and lines with a figure at their last point.
//!
//! Out: an SVG that reads on a light and on a dark page.
//!
//! Absent on purpose: a plotting library. Panels of lines need none.

use crate::{number, time};

const PICTURE: (u32, u32) = (960, 470);
const TOP: f64 = 60.0;
const WIDTH: f64 = 350.0;
const HEIGHT: f64 = 330.0;
/// From a hundred services to a hundred thousand.
const DECADES_ACROSS: i32 = 3;
const FIRST_SERVICES: u32 = 100;
const DECADES_UP: i32 = 6;
const BACKGROUND: &str = "#fdfdfb";
const GRID: &str = "#e3e6e8";
const GOAL: &str = "#2563eb";

/// How a line looks.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub colour: &'static str,
    pub dashes: &'static str,
    pub is_hollow: bool,
}

/// Numbers of services, and microseconds.
pub type Series = (Style, Vec<(u32, f64)>);

/// Where a panel is, and from which time it goes up by six decades.
#[derive(Clone, Debug)]
pub struct Panel {
    pub title: &'static str,
    pub left: f64,
    pub lowest_us: f64,
    /// What is to be reached at 45,000 services.
    pub goal: (f64, &'static str),
    pub series: Vec<Series>,
}

/// The whole picture; each line of the legend has a place of its own.
pub fn draw(title: &str, panels: &[Panel], legend: &[(u32, Style, &str)]) -> String {
    let (width, height) = PICTURE;
    let begin = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#1f2933\">\n\
         <title>{title}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{BACKGROUND}\"/>"
    );
    let panels = panels.iter().flat_map(Panel::draw);
    let legend = legend.iter().flat_map(|(x, style, text)| legend_line(*x, *style, text));
    let lines = [begin].into_iter().chain(panels).chain(legend).chain(["</svg>\n".into()]);
    lines.collect::<Vec<_>>().join("\n")
}

fn legend_line(x: u32, style: Style, text: &str) -> [String; 3] {
    let y = PICTURE.1 - 22;
    [
        style.line(&format!("{x},{y} {},{y}", x + 26)),
        style.marker(f64::from(x + 13), f64::from(y)),
        format!("<text x=\"{}\" y=\"{}\" font-size=\"11.5\">{text}</text>", x + 33, y + 4),
    ]
}

impl Panel {
    fn draw(&self) -> Vec<String> {
        let (x, y) = (self.left, TOP - 26.0);
        let title =
            format!("<text x=\"{x}\" y=\"{y}\" font-size=\"16\" font-weight=\"600\">{}</text>", self.title);
        let mut lines = vec![title];
        lines.extend((0..=DECADES_UP).flat_map(|decade| self.time_axis(decade)));
        lines.extend((0..=DECADES_ACROSS).flat_map(|decade| self.service_axis(decade)));
        let middle = (self.left + WIDTH / 2.0, TOP + HEIGHT + 36.0);
        lines.push(label(middle, "middle", "services, four endpoints each"));
        lines.push(self.draw_goal());
        lines.extend(self.series.iter().flat_map(|(style, points)| self.line(*style, points)));
        lines
    }

    fn x(&self, services: u32) -> f64 {
        let decades = (f64::from(services) / f64::from(FIRST_SERVICES)).log10();
        self.left + WIDTH * decades / f64::from(DECADES_ACROSS)
    }

    fn y(&self, us: f64) -> f64 {
        TOP + HEIGHT * (1.0 - (us / self.lowest_us).log10() / f64::from(DECADES_UP))
    }

    fn time_axis(&self, decade: i32) -> [String; 2] {
        let us = self.lowest_us * 10_f64.powi(decade);
        let y = self.y(us);
        [
            rule((self.left, y), (self.left + WIDTH, y)),
            label((self.left - 8.0, y + 4.0), "end", &round_time(us)),
        ]
    }

    fn service_axis(&self, decade: i32) -> [String; 2] {
        let services = FIRST_SERVICES * 10_u32.pow(decade.unsigned_abs());
        let x = self.x(services);
        [rule((x, TOP), (x, TOP + HEIGHT)), label((x, TOP + HEIGHT + 18.0), "middle", &number(services))]
    }

    fn draw_goal(&self) -> String {
        let (us, text) = self.goal;
        let (x, y) = (self.x(45_000), self.y(us));
        format!(
            "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"{GOAL}\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{GOAL}\" font-size=\"11\">{text}</text>",
            x - 14.0,
            x + 14.0,
            x + 18.0,
            y + 4.0
        )
    }

    fn line(&self, style: Style, points: &[(u32, f64)]) -> Vec<String> {
        let places: Vec<_> = points.iter().map(|(services, us)| (self.x(*services), self.y(*us))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let mut lines = vec![style.line(&path.join(" "))];
        lines.extend(places.iter().map(|(x, y)| style.marker(*x, *y)));
        let last = places.last().zip(points.last());
        lines.extend(last.map(|(place, (_, us))| style.figure(*place, &time(*us, 2, 0))));
        lines
    }
}

impl Style {
    fn line(self, points: &str) -> String {
        let Self { colour, dashes, .. } = self;
        format!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>"
        )
    }

    fn marker(self, x: f64, y: f64) -> String {
        let fill = if self.is_hollow { BACKGROUND } else { self.colour };
        let stroke = self.colour;
        format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"2\"/>"
        )
    }

    /// A figure beside the last point of a steep line, below that of a flat one.
    fn figure(self, (x, y): (f64, f64), text: &str) -> String {
        let (x, y, anchor) =
            if self.is_hollow { (x + 10.0, y + 5.0, "start") } else { (x, y + 22.0, "middle") };
        let colour = self.colour;
        format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\" font-weight=\"600\" text-anchor=\"{anchor}\">{text}</text>"
        )
    }
}

fn rule((x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> String {
    format!("<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"{GRID}\"/>")
}

fn label((x, y): (f64, f64), anchor: &str, text: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"12\" fill=\"#52606d\" text-anchor=\"{anchor}\">{text}</text>"
    )
}

/// A power of ten, without decimals.
fn round_time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.0} s", us / 1e6),
    }
}

//! How long the moments take that people fear: a start, a restart, a hand-over, and the repair of what others broke.
//! `cargo xtask bench moments` runs it, as root.
//!
//! The real program runs in a network namespace that vanishes with the benchmark. A repair is timed from the moment in which
//! the damage is in force until the program's last transaction, of which the kernel tells.

mod damage;
mod manifests;

use std::process::ExitCode;

use anyhow::Result;
use damage::Damage;
use harness::node::Node;
use harness::{Bench, Page, Spread, median, ms, number, rounds, step, table};
use serde::{Deserialize, Serialize};

const SIZES: [u32; 3] = [1_000, 10_000, 45_000];
/// Of starts, restarts and hand-overs.
const ROUNDS: u32 = 5;
/// Of each damage at the smallest size; a tenth of it where comparing takes seconds.
const DAMAGES: u32 = 100;
/// Repairs at the smallest size are to be done within this time, 99 of 100.
const GOAL_MS: f64 = 100.0;

#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Results(Vec<Size>);

/// All figures of one size, in milliseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Size {
    services: u32,
    start: Vec<f64>,
    restart: Vec<f64>,
    hand_over: Vec<f64>,
    repairs: Vec<Repairs>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Repairs {
    damage: String,
    took: Vec<f64>,
}

fn main() -> ExitCode {
    harness::run::<Results>()
}

impl Bench for Results {
    fn measure(is_quick: bool) -> Result<Self> {
        let sizes = SIZES.iter().take(if is_quick { 1 } else { SIZES.len() });
        let measured = sizes.map(|size| step(format!("{} services", number(*size)), || measure(*size)));
        Ok(Self(measured.collect::<Result<_>>()?))
    }

    fn page(&self) -> Page {
        let Self(sizes) = self;
        Page::new("From the start of the process, or from the moment the damage is in force, until the kernel holds everything; in ms.")
            .text(moments(sizes))
            .text(goal(&sizes[0]))
    }
}

/// A portway that is in sync, and how long that took in milliseconds.
fn start(services: u32) -> Result<(Node, f64)> {
    let mut node = Node::new(env!("CARGO_BIN_EXE_portway"), services)?;
    manifests::write(&node.folder, services)?;
    let took = node.start(&manifests::ARGUMENTS)?;
    Ok((node, ms(took)))
}

fn measure(services: u32) -> Result<Size> {
    let starts = rounds(0, ROUNDS, |_| Ok(start(services)?.1))?;
    let (mut node, _) = start(services)?;
    let restart = rounds(0, ROUNDS, |_| {
        node.kill()?;
        Ok(ms(node.start(&manifests::ARGUMENTS)?))
    })?;
    let take_over = [&manifests::ARGUMENTS[..], &["--take-over"]].concat();
    let hand_over = rounds(0, ROUNDS, |_| Ok(ms(node.start(&take_over)?)))?;
    let count = if services == SIZES[0] { DAMAGES } else { DAMAGES / 10 };
    let repairs = Damage::ALL.iter().map(|damage| {
        let took = rounds(0, count, |turn| Ok(ms(damage.time(&node, turn)?)))?;
        Ok(Repairs { damage: damage.name().into(), took })
    });
    let repairs = repairs.collect::<Result<_>>()?;
    Ok(Size { services, start: starts, restart, hand_over, repairs })
}

/// A moment, and its figure at a size.
type Row = (String, Box<dyn Fn(&Size) -> String>);

fn moments(sizes: &[Size]) -> String {
    let of = |name: &str, figure: fn(&Size) -> &Vec<f64>| -> Row {
        (name.to_owned(), Box::new(move |size| format!("{:.0}", median(figure(size).iter().copied()))))
    };
    let repair = |(at, repairs): (usize, &Repairs)| -> Row {
        let name = format!("{}, repaired: p50 / p99", repairs.damage);
        (name, Box::new(move |size| size.repairs[at].shown()))
    };
    let mut rows = vec![
        of("start on an empty kernel", |size| &size.start),
        of("kill -9 and start again", |size| &size.restart),
        of("hand-over (`--take-over`)", |size| &size.hand_over),
    ];
    rows.extend(sizes[0].repairs.iter().enumerate().map(repair));
    let heads: Vec<String> = sizes.iter().map(|size| format!("{} services", number(size.services))).collect();
    let cells: Vec<_> = sizes.iter().map(|size| move |(_, figure): &Row| figure(size)).collect();
    let mut columns: Vec<harness::page::Column<'_, Row>> = vec![("moment", &|(name, _)| name.clone())];
    columns.extend(heads.iter().zip(&cells).map(|(head, cell)| (&**head, cell as &dyn Fn(&Row) -> String)));
    table(&rows).columns(&columns)
}

/// The only goal.
fn goal(size: &Size) -> String {
    let worst = size.repairs.iter().map(|repairs| repairs.spread().p99).fold(0.0, f64::max);
    format!(
        "Goal: 99 of 100 repairs within {GOAL_MS:.0} ms at {}: {worst:.1} ms, {} ({} of each kind; at larger sizes a tenth).",
        number(size.services),
        if worst <= GOAL_MS { "met" } else { "missed" },
        size.repairs[0].took.len(),
    )
}

impl Repairs {
    fn spread(&self) -> Spread {
        Spread::of(self.took.iter().copied())
    }

    fn shown(&self) -> String {
        let Spread { median, p99, .. } = self.spread();
        format!("{median:.1} / {p99:.1}")
    }
}

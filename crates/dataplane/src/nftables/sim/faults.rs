//! Everything that can go wrong while something is written: at each write what the kernel may answer and whether it is applied, a
//! crash before and after; and each listing and question for the generation.
//!
//! `tests/faults` of the crate `agent` tries more of them, on more packets.

use kernel::nft::Error;
use kernel_sim::nft::{Answer, Fault};

use super::Node;
use crate::Dataplane;
use crate::sim::{Named, SimulatedMode};

/// What goes wrong.
#[derive(Clone, Debug)]
enum Point {
    Write(usize, Fault),
    Listing(usize, Error),
    Generation(usize, Error),
}

pub(super) fn failing<'a>(node: &'a Node, work: &dyn Fn(&mut dyn Dataplane)) -> Named<'a> {
    let mut trial = node.clone();
    let before = calls(&mut trial);
    work(&mut trial.dataplane);
    let [writes, listings, generations] = calls(&mut trial);
    let mut points: Vec<Point> = Vec::new();
    for n in 0..writes - before[0] {
        points.extend(faults().map(|fault| Point::Write(n, fault)));
    }
    for error in [Error::Raced, Error::Overrun, Error::NotPermitted, Error::OutOfMemory] {
        points.extend((0..listings - before[1]).map(|n| Point::Listing(n, error.clone())));
        points.extend((0..generations - before[2]).map(|n| Point::Generation(n, error.clone())));
    }
    Box::new(points.into_iter().map(|point| {
        let (name, mut node) = (format!("{point:?}"), node.clone());
        match point {
            Point::Write(n, fault) => node.faulty().on_write(n, fault),
            Point::Listing(n, error) => node.faulty().on_listing(n, error),
            Point::Generation(n, error) => node.faulty().on_generation(n, error),
        }
        (name, Box::new(node) as Box<dyn SimulatedMode>)
    }))
}

fn calls(node: &mut Node) -> [usize; 3] {
    let kernel = node.faulty();
    [kernel.writes(), kernel.listings(), kernel.generations()]
}

fn faults() -> impl Iterator<Item = Fault> {
    // Refusals that would quarantine a service port are in `tests/faults` of `agent`.
    let whole = [Error::Overrun, Error::Raced, Error::OutOfMemory, Error::NotPermitted].map(Answer::Error);
    let passing = [Answer::operation(0, libc::EBUSY), Answer::silence()];
    let refused = whole.into_iter().chain(passing).map(Fault::Refuse);
    let lost = [Answer::Error(Error::Overrun), Answer::silence()].map(Fault::LoseAnswer);
    refused.chain(lost).chain([Fault::Spoil, Fault::DieBefore, Fault::DieAfter])
}

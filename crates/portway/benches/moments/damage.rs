//! What somebody does to our table, and how long it takes until it is undone.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::node::Node;
use kernel::nft::{Element, Event, Family, Kernel as _, Monitor, Netlink, Operation, Transaction, Value};

use crate::manifests::cluster_ip;

const TABLE: &str = "kube-proxy";
/// A repair that has not begun by then never will.
const LIMIT: Duration = Duration::from_secs(60);
/// A repair of several transactions is over when it was quiet for so long.
const QUIET: Duration = Duration::from_millis(300);

/// A kind of damage.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Damage {
    Element,
    Chain,
    Table,
}

impl Damage {
    pub(crate) const ALL: [Self; 3] = [Self::Element, Self::Chain, Self::Table];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Element => "an element deleted",
            Self::Chain => "a chain flushed",
            Self::Table => "the table deleted",
        }
    }

    fn operation(self) -> Operation {
        let frontend = Element::new(&[
            Value::Ipv4(cluster_ip(7)),
            Value::Protocol(kernel::IpProtocol::TCP),
            Value::Port(80),
        ]);
        match self {
            Self::Element => Operation::DeleteElements("frontends".into(), vec![frontend]),
            Self::Chain => Operation::FlushChain("nat-prerouting".into()),
            Self::Table => Operation::DeleteTable,
        }
    }

    /// Does it, and times the repair. Each time under another name: who comes back too often is made to wait.
    pub(crate) fn time(self, node: &Node, turn: u32) -> Result<Duration> {
        let work = move || {
            let name = format!("damage-{turn}");
            let thread = std::thread::Builder::new().name(name).spawn(move || self.time_here());
            thread
                .context("cannot start a thread")?
                .join()
                .map_err(|_| anyhow::anyhow!("the thread panicked"))?
        };
        node.namespace.run(work)?
    }

    fn time_here(self) -> Result<Duration> {
        let mut kernel = Netlink::open()?;
        let mut monitor = Monitor::of_others(kernel.port())?;
        let mut transaction = Transaction::new(Family::V4, TABLE);
        transaction.push(self.operation());
        kernel.run(&transaction)?;
        let begun = Instant::now();
        let (mut last, mut limit) = (None, LIMIT);
        while let Some(event) = monitor.next(limit)? {
            if matches!(event, Event::Generation { .. } | Event::Lost) {
                last = Some(begun.elapsed());
                limit = QUIET;
            }
        }
        ensure!(last.is_some(), "nobody repaired it within {} s", LIMIT.as_secs());
        last.context("it was repaired")
    }
}

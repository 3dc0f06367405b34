//! The test-only mode `null`: keeps the table in memory and answers from it. It writes no rule.
//!
//! It shows that a mode is one folder and one line: it has a flag, a field of the config file, a metric, a leftover and a section of the
//! status, and nothing outside this folder knows of them. Only with the feature `sim`, which no program has.
//!
//! | file | what it is for |
//! |---|---|
//! | `mode` | the mode as the rest of the program sees it |
//! | `leftover` | the file that it leaves behind |
//! | `sim` | the mode on a simulated node |

mod leftover;
mod mode;
mod sim;

use std::collections::BTreeSet;
use std::path::PathBuf;

use model::ForwardingTable;

use crate::{Counted, Dataplane, ModeMetric, Scope, ServicePortIds, SyncError, Synced};
pub use mode::MODE;

/// The mode at work.
#[derive(Clone, Debug, Default)]
struct Null {
    table: ForwardingTable,
    syncs: u64,
    /// The file that shows that it is in force, where it is on a host.
    record: Option<PathBuf>,
}

/// A line for each route.
fn lines(table: &ForwardingTable) -> BTreeSet<String> {
    let of_port = |port: &std::sync::Arc<model::ServicePort>| {
        let id = port.id().clone();
        port.routes.iter().map(move |route| format!("{id} {route:?}")).collect::<Vec<_>>()
    };
    table.ports().flat_map(of_port).collect()
}

impl Dataplane for Null {
    fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        let operations = self.differences(desired)?.len();
        self.table = desired.clone();
        self.syncs += 1;
        if let Some(record) = &self.record {
            leftover::write(record, &self.table)?;
        }
        Ok(Synced { operations, was_full: scope.is_full(), ..Synced::default() })
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        Ok(Synced::default())
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        let (held, wanted) = (lines(&self.table), lines(desired));
        Ok(held.symmetric_difference(&wanted).cloned().collect())
    }

    fn counted(&mut self) -> Counted {
        let syncs =
            ModeMetric { name: "null_syncs_total", help: "Syncs of the mode null", value: self.syncs };
        Counted { own: vec![syncs], ..Counted::default() }
    }
}

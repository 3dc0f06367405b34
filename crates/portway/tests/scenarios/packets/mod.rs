//! A mode on the real kernel, with packets that really are sent; see `stage.rs`.
//!
//! The mode is opened as `portway run` opens it, in the network namespace of the node, but beside a relay that opens nothing.
//!
//! | file | what it is for |
//! |---|---|
//! | `node` | the mode on the node of a stage, for one scenario |
//! | `by_kernel` | the kernel chooses endpoints, by chance |
//! | `by_relay` | the kernel leads packets to ports of ours, and the relay chooses |
//! | `sent` | what was sent, counted |
//! | `stage` | the network namespaces |
//! | `links` | their links, addresses and routes |
//! | `probe` | the packets |
//! | `heard` | what is heard of them |

mod by_kernel;
mod by_relay;
mod heard;
mod links;
mod node;
mod probe;
mod sent;
mod stage;

use std::time::Duration;

use heard::Refusal;
use node::Node;
use sent::Sent;
use stage::Stage;

use crate::run::Outcomes;
use crate::step::Scenario;
use crate::tally::Tried;
use crate::way::Way;

/// What must come comes within this time, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(5);
/// What must not come would have come by then.
const SILENCE: Duration = Duration::from_millis(100);
/// A scenario in which clients stay where they land is one of several stories, by chance: it is told so often.
const ROUNDS_OF_AFFINITY: usize = 8;

/// What became of a scenario.
struct Told {
    outcomes: Outcomes,
    sent: Sent,
    /// It may go otherwise the next time.
    is_by_chance: bool,
}

/// Sends the packets of all scenarios. An error says why nothing could be sent.
pub(crate) fn send(way: Way, scenarios: &[Scenario]) -> Result<Tried, String> {
    way.check_host()?;
    let (sent, failures) =
        on_stage(way, scenarios).unwrap_or_else(|problem| (Sent::default(), vec![problem]));
    Ok(Tried { counted: sent.to_string(), skipped: None, failures })
}

fn on_stage(way: Way, scenarios: &[Scenario]) -> Result<(Sent, Vec<String>), String> {
    let behaviour = way.mode.behaviour();
    let refusal = if behaviour.refuses_by_reset { Refusal::Reset } else { Refusal::PortUnreachable };
    let mut stage = Stage::new(refusal)?;
    if behaviour.relays_connections {
        stage.give_entries_addresses()?;
    }
    let inside = stage.node().clone();
    inside.run(|| send_all(way, &mut stage, scenarios)).map_err(links::text)
}

fn send_all(way: Way, stage: &mut Stage, scenarios: &[Scenario]) -> (Sent, Vec<String>) {
    let (mut sent, mut failures) = (Sent::default(), Vec::new());
    for scenario in scenarios {
        failures.extend(send_one(way, stage, scenario, &mut sent).unwrap_or_else(|problem| vec![problem]));
    }
    (sent, failures)
}

/// Returns what failed; one failure is enough.
fn send_one(
    way: Way,
    stage: &mut Stage,
    scenario: &Scenario,
    sent: &mut Sent,
) -> Result<Vec<String>, String> {
    let tell = if way.mode.behaviour().relays_connections { by_relay::tell } else { by_kernel::tell };
    for round in 0..ROUNDS_OF_AFFINITY {
        let told = tell(scenario, Node::open(way, stage)?);
        sent.add(&told.sent);
        if round == 0 {
            sent.add_steps(&told.sent, told.outcomes.skipped);
        }
        if !told.is_by_chance || !told.outcomes.failures.is_empty() {
            return Ok(told.outcomes.failures);
        }
    }
    Ok(Vec::new())
}

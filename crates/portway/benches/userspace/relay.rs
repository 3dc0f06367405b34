//! portway's relay as a process of its own: this program once more, in another role.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use dataplane::relay::{At, Listener, ListenerId, Options, Purpose, Relay, Relays as _};
use model::Place;
use model::net::{Family, Protocol};
use model::table::How;
use model::{Endpoint, Pool, ServiceName, ServicePortId};

/// The first argument that asks for this role; a pair `PORT:ENDPOINT` for each listener follows, UDP last.
const ROLE: &str = "--as-relay";

/// The pairs of ports, if this process has the role.
pub(crate) fn role() -> Option<Vec<String>> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next()? == ROLE).then(|| arguments.collect())
}

/// Starts this program in the role.
pub(crate) fn start(pairs: &[(u16, u16)]) -> Result<Child> {
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    Command::new(program)
        .arg(ROLE)
        .args(pairs.iter().map(|(port, endpoint)| format!("{port}:{endpoint}")))
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot start the relay")
}

/// The role, in this process.
pub(crate) fn run(pairs: &[String]) -> ExitCode {
    match carry(pairs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            harness::say(format!("the relay: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Carries until standard input ends.
fn carry(pairs: &[String]) -> Result<()> {
    let mut relay = Relay::start(Options { workers: 2, ..Options::default() })?;
    let last = pairs.len() - 1;
    for (number, pair) in pairs.iter().enumerate() {
        let (port, endpoint) = pair.split_once(':').context("PORT:ENDPOINT")?;
        let protocol = if number == last { Protocol::Udp } else { Protocol::Tcp };
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?));
        let wanted =
            Listener { protocol, at: At::Exactly(at), pool: pool(endpoint.parse()?), affinity: None };
        relay.open(&id(number, protocol), &wanted)?;
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn pool(port: u16) -> Pool {
    let address = Ipv4Addr::LOCALHOST.into();
    Pool::new(How::Ready, vec![Endpoint { address, port, slots: 1, place: Place::Here }])
}

fn id(number: usize, protocol: Protocol) -> ListenerId {
    let service = ServiceName::new("bench", &number.to_string());
    let port = ServicePortId { service, port: "".into(), protocol };
    ListenerId { port, family: Family::V4, purpose: Purpose::Cluster }
}

//! portway's relay as a process of its own: this program once more, in another role.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use dataplane::relay::{At, Listener, ListenerId, Options, Purpose, Relay, Relays as _};
use model::Place;
use model::net::{Family, Protocol};
use model::table::How;
use model::{Endpoint, Pool, ServiceName, ServicePortId};

/// Starts this program in the role; UDP is the last pair.
pub(crate) fn start(pairs: &[(u16, u16)]) -> Result<Child> {
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let pairs: Vec<String> = pairs.iter().map(|(port, endpoint)| format!("{port}:{endpoint}")).collect();
    Command::new(program)
        .args(["--part", "relay", "--services", "0", "--pairs", &pairs.join(",")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start the relay")
}

/// Carries until standard input ends.
pub(crate) fn carry() -> Result<()> {
    let pairs = harness::argument("--pairs").context("the relay needs --pairs PORT:ENDPOINT,…")?;
    let pairs: Vec<&str> = pairs.split(',').collect();
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

//! Nodes, pods and clients as network namespaces with real sockets.
//!
//! ```text
//!   outside 172.16.0.10            underlay: one switch, br0
//!      └──────────────┬──────────────────┬──────────────┐
//!                  node a             node b         192.168.0.254: the way to nowhere else
//!                192.168.0.1        192.168.0.2
//!          client-a  web-a-0 …    client-b  web-b-0 …
//!         10.244.1.5 .10 …       10.244.2.5 .10 …
//! ```
//!
//! ```no_run
//! use playground::{Family, Options, Playground, tcp};
//!
//! let playground = Playground::new(&Options::default())?;
//! let web = playground.place("web-b-0").at(Family::V4, 8080);
//! let outcome = tcp(playground.place("client-a"), web);
//! // web-b-0 10.244.2.10 saw 10.244.1.5:41234 to 10.244.2.10:8080
//! assert_eq!(outcome.server(), Some("web-b-0"));
//! # Ok::<(), playground::Error>(())
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | [`plan`] | every address and name, as pure functions |
//! | [`topology`] | [`Playground`]: makes and furnishes the namespaces |
//! | [`namespace`] | network namespaces without names, programs inside them, and sockets that std cannot make |
//! | [`place`], [`node`], [`process`] | one place; one with pods and programs; one program |
//! | [`server`] | TCP, UDP and SCTP servers that say who they are and whom they saw |
//! | [`client`], [`held`], [`load`], [`latency`] | one question; a connection that stays; many; how long they take |
//! | [`sctp`], [`mod@ping`], [`stray`] | hand-made packets over raw sockets |
//! | [`balancer`], [`health`] | the load balancer in front of the nodes; what a health check answers |
//! | [`patience`] | how long is long enough |
//! | [`statistics`] | is this balance fair? |
//!
//! Nothing of the machine's own network is touched, and nothing outlives the process that made it, however
//! it dies: the namespaces have no names, they are open files (see [`namespace`]).
//!
//! Absent on purpose: rules, Services, and any knowledge of what is tested here.

pub mod balancer;
pub mod client;
pub mod error;
pub mod health;
pub mod held;
mod ip;
pub mod latency;
pub mod load;
pub mod namespace;
pub mod node;
mod options;
pub mod patience;
pub mod ping;
pub mod place;
pub mod plan;
pub mod process;
pub mod reply;
pub mod sctp;
pub mod server;
pub mod statistics;
mod stop;
pub mod stray;
pub mod topology;
mod wiring;

pub use balancer::Balancer;
pub use client::{Ask, tcp, udp};
pub use error::{Error, Result};
pub use held::Held;
pub use latency::{Latencies, connect_latencies};
pub use load::{Load, Stats, Work, many};
pub use model::Protocol;
pub use node::Node;
pub use options::{Options, PodNetwork};
pub use patience::patient;
pub use ping::{Ping, ping};
pub use place::Place;
pub use plan::Family;
pub use process::Process;
pub use reply::{Outcome, Refusal, Reply};
pub use sctp::sctp_init;
pub use server::{Ports, Server};
pub use topology::Playground;

/// Whether namespaces can be made here. Where they cannot, says so on standard error, in one line.
pub fn available(test: &str) -> bool {
    use std::io::Write;
    match namespace::Namespace::create() {
        Ok(_) => true,
        Err(error) => {
            // A closed standard error is no reason to fail a test that is left out anyway.
            let _ =
                writeln!(std::io::stderr(), "skipped: {test} needs root to make network namespaces: {error}");
            false
        }
    }
}

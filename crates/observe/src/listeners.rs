//! Where somebody may ask us by HTTP, by name: for status, log and Events.

use std::fmt;
use std::net::SocketAddr;

use model::ServiceName;

/// One of our listeners.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listener {
    /// `/healthz` and `/livez`.
    Health(SocketAddr),
    /// `/metrics`, and what people look at.
    Metrics(SocketAddr),
    /// The `healthCheckNodePort` of a Service.
    Balancers(ServiceName, SocketAddr),
}

impl Listener {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        match self {
            Listener::Health(at) | Listener::Metrics(at) | Listener::Balancers(_, at) => *at,
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Health(at) => write!(f, "`--healthz-bind-address {at}`"),
            Listener::Metrics(at) => write!(f, "`--metrics-bind-address {at}`"),
            Listener::Balancers(service, at) => write!(f, "the health check of Service {service} at {at}"),
        }
    }
}

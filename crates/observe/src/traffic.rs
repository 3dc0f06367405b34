//! What was carried, as it is told to people and programs.
//!
//! In: the relay's counters, and in mode ipvs the kernel's. Out: [`Traffic`] for each listener or service port, which goes with the picture over the socket, and
//! [`Carried`], all of them together, for the status.

use std::fmt;
use std::net::SocketAddr;

use dataplane::relay::{Counters, Counts, ListenerId, Purpose};
use model::{Family, ServicePortId};
use serde::{Deserialize, Serialize};

/// What one listener has carried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    /// The service port, as `NAMESPACE/NAME:PORT/PROTOCOL`.
    pub service_port: String,
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// Which traffic: `cluster`, `outside` or `localhost` of the relay, `all` of the kernel.
    pub purpose: String,
    /// In all, also for endpoints that are gone.
    pub all: Carried,
    /// By endpoint.
    pub endpoints: Vec<(SocketAddr, Carried)>,
}

/// What was carried. A UDP session counts as a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Carried {
    /// Connections made.
    pub connections: u64,
    /// Those of them that are there now.
    pub active: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
    /// Dials that failed.
    pub failed_dials: u64,
    /// Dials made because another had failed.
    pub retries: u64,
    /// Connections that were reset because no endpoint could be reached.
    pub failed: u64,
    /// Connections, or datagrams, that were turned away because a limit was reached.
    pub refused: u64,
    /// How often connections had to wait because a limit was reached.
    #[serde(default)]
    pub pauses: u64,
}

impl Traffic {
    /// What this listener has carried.
    pub fn of(id: &ListenerId, counters: &Counters) -> Self {
        Self {
            service_port: id.port.to_string(),
            family: id.family.to_string(),
            purpose: id.purpose.to_string(),
            all: Carried::of(counters),
            endpoints: counters.endpoints.iter().map(|(at, counts)| (*at, Carried::from(*counts))).collect(),
        }
    }

    /// What the kernel has carried for a service port.
    pub fn of_kernel(carried: &dataplane::Carried) -> Self {
        Self {
            service_port: carried.port.to_string(),
            family: carried.family.to_string(),
            purpose: "all".to_owned(),
            all: Carried::from(carried.all),
            endpoints: carried.endpoints.iter().map(|(at, counts)| (*at, Carried::from(*counts))).collect(),
        }
    }

    /// Is it that of localhost?
    pub fn is_of_localhost(&self) -> bool {
        self.purpose == Purpose::Localhost.to_string()
    }

    /// Is it about this service port and family?
    pub fn is_of(&self, port: &ServicePortId, family: Family) -> bool {
        self.family == family.to_string() && self.service_port == port.to_string()
    }
}

impl Carried {
    /// What was carried in all.
    pub fn of(counters: &Counters) -> Self {
        let Counters { failed, refused, pauses, .. } = *counters;
        Self { failed, refused, pauses, ..Self::from(counters.all) }
    }
}

impl From<Counts> for Carried {
    fn from(counts: Counts) -> Self {
        Self {
            connections: counts.connections,
            active: counts.active,
            bytes_in: counts.bytes_in,
            bytes_out: counts.bytes_out,
            failed_dials: counts.failed_dials,
            retries: counts.retries,
            failed: 0,
            refused: 0,
            pauses: 0,
        }
    }
}

impl std::iter::Sum for Carried {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |one, other| Self {
            connections: one.connections + other.connections,
            active: one.active + other.active,
            bytes_in: one.bytes_in + other.bytes_in,
            bytes_out: one.bytes_out + other.bytes_out,
            failed_dials: one.failed_dials + other.failed_dials,
            retries: one.retries + other.retries,
            failed: one.failed + other.failed,
            refused: one.refused + other.refused,
            pauses: one.pauses + other.pauses,
        })
    }
}

/// `12 connections (3 now), 1.5 MiB in, 20 B out`, and what went wrong, if anything did.
impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes_in, bytes_out) = (Bytes(self.bytes_in), Bytes(self.bytes_out));
        write!(f, "{} connections ({} now), {bytes_in} in, {bytes_out} out", self.connections, self.active)?;
        let trouble = [
            (self.failed_dials, "dials failed"),
            (self.retries, "retried"),
            (self.failed, "reset for want of an endpoint"),
            (self.refused, "turned away at a limit"),
            (self.pauses, "times made to wait at a limit"),
        ];
        trouble
            .iter()
            .filter(|(count, _)| *count > 0)
            .try_for_each(|(count, what)| write!(f, ", {count} {what}"))
    }
}

struct Bytes(u64);

impl fmt::Display for Bytes {
    #[expect(clippy::cast_precision_loss, reason = "one digit behind the point is shown")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        let (mut size, mut unit) = (self.0 as f64, "B");
        for larger in units {
            if size < 1024.0 {
                break;
            }
            (size, unit) = (size / 1024.0, larger);
        }
        if unit == "B" { write!(f, "{} B", self.0) } else { write!(f, "{size:.1} {unit}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_well_is_short_and_what_went_wrong_is_told() {
        let well =
            Carried { connections: 2, active: 1, bytes_in: 10, bytes_out: 1_572_864, ..Carried::default() };
        assert_eq!(well.to_string(), "2 connections (1 now), 10 B in, 1.5 MiB out");
        let ill = Carried { failed_dials: 3, retries: 2, failed: 1, ..Carried::default() };
        let all: Carried = [well, ill].into_iter().sum();
        assert_eq!(
            all.to_string(),
            "2 connections (1 now), 10 B in, 1.5 MiB out, 3 dials failed, 2 retried, 1 reset for want of an endpoint"
        );
    }
}

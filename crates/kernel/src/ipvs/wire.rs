//! Requests as netlink bytes: numbers and writing. Reading is in `read.rs`.
//!
//! Most numbers are in the machine's byte order; ports, and addresses, are in that of the network. An address has sixteen bytes
//! of which one of IPv4 uses the first four.

use std::net::{IpAddr, SocketAddr};

use super::{Family, Forwarding, RealServer, Request, Timeouts, VirtualServer, What};
use crate::netlink::MessageWriter;

/// The name by which the kernel's number for the family is asked.
pub(super) const FAMILY: &str = "IPVS";
const VERSION: u8 = 1;
/// Command, version, and two bytes of nothing, before the attributes.
pub(super) const FIXED: usize = 4;

pub(super) mod command {
    pub(crate) const NEW_SERVICE: u8 = 1;
    pub(crate) const SET_SERVICE: u8 = 2;
    pub(crate) const DELETE_SERVICE: u8 = 3;
    pub(crate) const GET_SERVICE: u8 = 4;
    pub(crate) const NEW_SERVER: u8 = 5;
    pub(crate) const SET_SERVER: u8 = 6;
    pub(crate) const DELETE_SERVER: u8 = 7;
    pub(crate) const GET_SERVER: u8 = 8;
    pub(crate) const SET_CONFIG: u8 = 12;
    pub(crate) const GET_CONFIG: u8 = 13;
}

pub(super) const SERVICE: u16 = 1;
pub(super) const SERVER: u16 = 2;
pub(super) const TIMEOUT_TCP: u16 = 4;
pub(super) const TIMEOUT_TCP_FIN: u16 = 5;
pub(super) const TIMEOUT_UDP: u16 = 6;

/// Inside [`SERVICE`].
pub(super) mod service {
    pub(crate) const FAMILY: u16 = 1;
    pub(crate) const PROTOCOL: u16 = 2;
    pub(crate) const ADDRESS: u16 = 3;
    pub(crate) const PORT: u16 = 4;
    pub(crate) const MARK: u16 = 5;
    pub(crate) const SCHEDULER: u16 = 6;
    pub(crate) const FLAGS: u16 = 7;
    pub(crate) const TIMEOUT: u16 = 8;
    pub(crate) const NETMASK: u16 = 9;
    pub(crate) const COUNTS: u16 = 12;
}

/// Inside [`SERVER`].
pub(super) mod server {
    pub(crate) const ADDRESS: u16 = 1;
    pub(crate) const PORT: u16 = 2;
    pub(crate) const FORWARDING: u16 = 3;
    pub(crate) const WEIGHT: u16 = 4;
    pub(crate) const UPPER_LIMIT: u16 = 5;
    pub(crate) const LOWER_LIMIT: u16 = 6;
    pub(crate) const ACTIVE: u16 = 7;
    pub(crate) const INACTIVE: u16 = 8;
    pub(crate) const PERSISTENT: u16 = 9;
    pub(crate) const FAMILY: u16 = 11;
    pub(crate) const COUNTS: u16 = 12;
}

/// Inside [`service::COUNTS`] and [`server::COUNTS`]: numbers of 64 bits, since Linux 4.1.
pub(super) mod counts {
    pub(crate) const CONNECTIONS: u16 = 1;
    pub(crate) const BYTES_IN: u16 = 4;
    pub(crate) const BYTES_OUT: u16 = 5;
}

pub(super) const PERSISTENT: u32 = 1;

/// The kernel's number for a family of addresses.
pub(super) const fn number(family: Family) -> u16 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// Writes the fixed part.
pub(super) fn fixed(message: &mut MessageWriter, command: u8) {
    message.raw(&[command, VERSION, 0, 0]);
}

/// Writes one change.
pub(super) fn request(message: &mut MessageWriter, request: &Request) {
    use command::{
        DELETE_SERVER, DELETE_SERVICE, NEW_SERVER, NEW_SERVICE, SET_CONFIG, SET_SERVER, SET_SERVICE,
    };
    match request {
        Request::Add(server) => virtual_server(message, NEW_SERVICE, server),
        Request::Change(server) => virtual_server(message, SET_SERVICE, server),
        Request::Delete(what) => named(message, DELETE_SERVICE, what),
        Request::AddServer(what, server) => real_server(message, NEW_SERVER, what, server),
        Request::ChangeServer(what, server) => real_server(message, SET_SERVER, what, server),
        Request::DeleteServer(what, address) => {
            named(message, DELETE_SERVER, what);
            message.nested(SERVER, |m| place(m, server::ADDRESS, server::PORT, *address));
        }
        Request::SetTimeouts(timeouts) => {
            fixed(message, SET_CONFIG);
            let Timeouts { tcp_s, tcp_fin_s, udp_s } = *timeouts;
            for (kind, seconds) in [(TIMEOUT_TCP, tcp_s), (TIMEOUT_TCP_FIN, tcp_fin_s), (TIMEOUT_UDP, udp_s)]
            {
                message.attribute(kind, &seconds.to_ne_bytes());
            }
        }
    }
}

/// Writes a command and the virtual server that it is about.
pub(super) fn named(message: &mut MessageWriter, command: u8, what: &What) {
    fixed(message, command);
    message.nested(SERVICE, |m| name(m, what));
}

fn virtual_server(message: &mut MessageWriter, command: u8, server: &VirtualServer) {
    fixed(message, command);
    message.nested(SERVICE, |m| whole(m, server));
}

/// The inside of [`SERVICE`], all of it.
pub(super) fn whole(message: &mut MessageWriter, server: &VirtualServer) {
    let persistent = if server.persistence_s.is_some() { PERSISTENT } else { 0 };
    let flags = server.flags.0 & super::Flags::SETTABLE | persistent;
    name(message, &server.what);
    message.text(service::SCHEDULER, &server.scheduler);
    // The flags, then which of them are meant: those that are not ours to set stay as they are.
    let mask = super::Flags::SETTABLE | PERSISTENT;
    message.attribute(service::FLAGS, &[flags.to_ne_bytes(), mask.to_ne_bytes()].concat());
    message.attribute(service::TIMEOUT, &server.persistence_s.unwrap_or(0).to_ne_bytes());
    message.attribute(service::NETMASK, &netmask(server));
}

/// IPv4 has a mask here, in the network's byte order; IPv6 the number of its bits, in the machine's.
fn netmask(server: &VirtualServer) -> [u8; 4] {
    match server.what.family() {
        Family::V4 => {
            u32::MAX.checked_shl(32 - u32::from(server.client_bits.min(32))).unwrap_or(0).to_be_bytes()
        }
        Family::V6 => u32::from(server.client_bits).to_ne_bytes(),
    }
}

fn name(message: &mut MessageWriter, what: &What) {
    message.attribute(service::FAMILY, &number(what.family()).to_ne_bytes());
    match what {
        What::Address(address, protocol) => {
            message.attribute(service::PROTOCOL, &u16::from(protocol.0).to_ne_bytes());
            place(message, service::ADDRESS, service::PORT, *address);
        }
        What::Mark(mark, _) => message.attribute(service::MARK, &mark.to_ne_bytes()),
    }
}

fn real_server(message: &mut MessageWriter, command: u8, what: &What, real: &RealServer) {
    named(message, command, what);
    message.nested(SERVER, |m| {
        place(m, server::ADDRESS, server::PORT, real.address);
        let forwarding = match real.forwarding {
            Forwarding::Masquerade => 0,
            Forwarding::Other(number) => number,
        };
        // Limits of zero: as many connections as come.
        let numbers = [
            (server::FORWARDING, forwarding),
            (server::WEIGHT, real.weight),
            (server::UPPER_LIMIT, 0),
            (server::LOWER_LIMIT, 0),
        ];
        for (kind, number) in numbers {
            m.attribute(kind, &number.to_ne_bytes());
        }
        m.attribute(server::FAMILY, &number(Family::of(real.address.ip())).to_ne_bytes());
    });
}

pub(super) fn place(message: &mut MessageWriter, address: u16, port: u16, place: SocketAddr) {
    let mut bytes = [0; 16];
    match place.ip() {
        IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes = ip.octets(),
    }
    message.attribute(address, &bytes);
    message.attribute(port, &place.port().to_be_bytes());
}

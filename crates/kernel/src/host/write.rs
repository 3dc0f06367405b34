//! The real thing behind [`ChangeHost`]: rtnetlink in this thread's network namespace. No `ip` program.

use std::net::IpAddr;

use super::ThisMachine;
use super::change::{ChangeError, ChangeHost, Unchanged};
use super::link::{DUMMY, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, Link, RTM_NEWLINK, named};
use crate::netlink::{self, Client, Errno, MessageWriter, Refused, Subsystem, flags};

const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u32 = 0x02;
const IFA_F_NOPREFIXROUTE: u32 = 0x200;

type Result<T> = std::result::Result<T, ChangeError>;

impl ChangeHost for ThisMachine {
    fn make_dummy(&mut self, name: &str) -> Result<()> {
        let made = one("make a dummy link", RTM_NEWLINK, flags::CREATE | flags::EXCL, |m| {
            link_head(m, 0);
            m.text(IFLA_IFNAME, name);
            m.nested(IFLA_LINKINFO, |m| m.text(IFLA_INFO_KIND, DUMMY));
        });
        match made {
            Err(error) if error.errno() == Some(Errno(libc::EEXIST)) => our_dummy(name).map(|_| ()),
            Err(error) if error.errno() == Some(Errno(libc::EOPNOTSUPP)) => Err(ChangeError::Missing),
            made => Ok(made?),
        }
    }

    fn delete_dummy(&mut self, name: &str) -> Result<()> {
        let link = match our_dummy(name) {
            Err(ChangeError::NoLink(_)) => return Ok(()),
            other => other?,
        };
        match one("delete a dummy link", RTM_DELLINK, 0, |m| link_head(m, link.index)) {
            // Somebody was quicker.
            Err(error) if error.errno() == Some(Errno(libc::ENODEV)) => Ok(()),
            deleted => Ok(deleted?),
        }
    }

    fn add_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>> {
        change(link, addresses, (RTM_NEWADDR, flags::CREATE | flags::EXCL), libc::EEXIST)
    }

    fn delete_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>> {
        change(link, addresses, (RTM_DELADDR, 0), libc::EADDRNOTAVAIL)
    }
}

fn find(client: &mut Client, name: &str) -> Result<Link> {
    named(client, name)?.ok_or_else(|| ChangeError::NoLink(name.to_owned()))
}

fn our_dummy(name: &str) -> Result<Link> {
    let link = find(&mut Client::open(Subsystem::Route)?, name)?;
    if link.is_dummy { Ok(link) } else { Err(ChangeError::NoDummy(name.to_owned())) }
}

/// Makes the same request for each address. A refusal by the number `done` says that it is so already.
fn change(link: &str, addresses: &[IpAddr], head: (u16, u16), done: i32) -> Result<Vec<Unchanged>> {
    let mut client = Client::open(Subsystem::Route)?;
    let index = find(&mut client, link)?.index;
    let refused = client.run(addresses, |_| head, |m, ip| address(m, index, *ip))?;
    let mut unchanged = Vec::new();
    for Refused { request: ip, refusal, .. } in refused {
        match refusal.errno.0 {
            errno if errno == done => {}
            libc::EPERM => return Err(ChangeError::NotPermitted),
            libc::ENODEV => return Err(ChangeError::NoLink(link.to_owned())),
            _ => unchanged.push(Unchanged { ip, refusal }),
        }
    }
    Ok(unchanged)
}

/// Makes one request about a link.
fn one(action: &str, kind: u16, own: u16, body: impl Fn(&mut MessageWriter)) -> netlink::Result<()> {
    Client::open(Subsystem::Route)?.run_one(action, (kind, own), body)
}

/// The fixed part of a message about a link: which one.
fn link_head(message: &mut MessageWriter, index: u32) {
    // Family and type; the index; the flags, and which of them are meant: none.
    for word in [0, index, 0, 0] {
        message.raw(&word.to_ne_bytes());
    }
}

/// One address of one host.
fn address(message: &mut MessageWriter, index: u32, ip: IpAddr) {
    let (family, bits, bytes, own) = match ip {
        IpAddr::V4(ip) => (2, 32, ip.octets().to_vec(), 0),
        IpAddr::V6(ip) => (10, 128, ip.octets().to_vec(), IFA_F_NODAD),
    };
    message.raw(&[family, bits, 0, 0]);
    message.raw(&index.to_ne_bytes());
    message.attribute(IFA_LOCAL, &bytes);
    message.attribute(IFA_ADDRESS, &bytes);
    message.attribute(IFA_FLAGS, &(IFA_F_NOPREFIXROUTE | own).to_ne_bytes());
}

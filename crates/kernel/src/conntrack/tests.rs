//! What is written is read back; what the kernel says becomes a sentence.

use crate::IpProtocol;
use std::net::IpAddr;

use super::read::{self, Read};
use super::*;
use crate::netlink::{self, Errno, Message, MessageWriter, Messages, Refusal};

fn at(ip: &str, port: u16) -> (IpAddr, u16) {
    (ip.parse().unwrap(), port)
}

fn body(write: impl FnOnce(&mut MessageWriter)) -> Vec<u8> {
    let mut writer = MessageWriter::default();
    let header = netlink::Header { kind: wire::kind::NEW, flags: 0, sequence: 1, port: 0 };
    writer.message(header, write);
    let Some(Ok(Message::Data(_, body))) = Messages::new(writer.bytes()).next() else { panic!("no message") };
    body.to_vec()
}

#[test]
fn an_entry_is_read_as_it_was_written() {
    let v4 = Tuple { source: at("10.1.0.1", 4000), destination: at("10.96.0.10", 53) };
    let v6 = Tuple { source: at("fd00:1::1", 4000), destination: at("fd00:96::10", 53) };
    let answer = Tuple { source: at("10.1.0.2", 5353), ..v4.reversed() };
    let zone = |id, is_of_original| Zone { id, is_of_original };
    for (protocol, original, reply, zone) in [
        (IpProtocol::UDP, v4, answer, Zone::default()),
        (IpProtocol::UDP, v4, v4.reversed(), zone(7, false)),
        (IpProtocol::SCTP, v6, v6.reversed(), zone(9, true)),
    ] {
        let entry = Entry { protocol, original, reply, zone, id: None };
        let bytes = body(|m| wire::new(m, &entry, 30));
        let family = Family::of(original.source.0);
        assert_eq!(read::entry(&bytes, &Filter::Protocol(family, protocol)), Ok(Read::Wanted(entry)));
        assert_eq!(
            read::entry(&bytes, &Filter::Destination(protocol, original.destination)),
            Ok(Read::Wanted(entry))
        );
        let elsewhere = Filter::Destination(protocol, original.source);
        assert_eq!(read::entry(&bytes, &elsewhere), Ok(Read::Unwanted));
        assert_eq!(
            read::entry(&bytes, &Filter::Protocol(family, IpProtocol::TCP)),
            Ok(Read::OfAnotherProtocol)
        );
    }
}

#[test]
fn an_entry_cut_short_is_an_error() {
    let original = Tuple { source: at("10.1.0.1", 4000), destination: at("10.96.0.10", 53) };
    let entry = Entry {
        protocol: IpProtocol::UDP,
        original,
        reply: original.reversed(),
        zone: Zone::default(),
        id: Some(1),
    };
    let bytes = body(|m| wire::new(m, &entry, 30));
    for length in [3, 6, 20, 50, 60] {
        let read = read::entry(&bytes[..length], &Filter::Protocol(Family::V4, IpProtocol::UDP));
        assert!(matches!(read, Err(netlink::Error::Malformed { .. })), "{length}: {read:?}");
    }
}

fn refused(errno: i32) -> Error {
    let refusal = Refusal { errno: Errno(errno), text: None, offset: None };
    netlink::Error::Refused { action: "list connections".into(), refusal }.into()
}

#[test]
fn what_is_missing_is_said_in_a_sentence() {
    let socket =
        netlink::Error::System { action: "open a netlink socket", errno: Errno(libc::EPROTONOSUPPORT) };
    assert_eq!(Error::from(socket), Error::Missing);
    assert!(Error::Missing.to_string().contains("nf_conntrack_netlink"));
    assert_eq!(refused(libc::EPERM), Error::NotPermitted);
    assert!(Error::NotPermitted.to_string().contains("CAP_NET_ADMIN"));
    assert_eq!(
        refused(libc::EBUSY).to_string(),
        "connection tracker: the kernel refused to list connections: EBUSY: device or resource busy"
    );
}

#[test]
fn trying_again_helps_where_the_kernel_was_busy() {
    for (error, helps) in [
        (refused(libc::ENOMEM), true),
        (refused(libc::EBUSY), true),
        (refused(libc::EINVAL), false),
        (netlink::Error::Interrupted { what: "connections", attempts: 20 }.into(), true),
        (Error::Missing, false),
        (Error::NotPermitted, false),
    ] {
        assert_eq!(error.retry_helps(), helps, "{error}");
    }
}

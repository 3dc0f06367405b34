//! Bytes there and back, broken ones, and the words of refusals.

use super::request::code;
use super::*;
use crate::IpProtocol;
use crate::netlink::{self, Errno, Message, MessageWriter, Messages};

fn body_of(message: &[u8]) -> &[u8] {
    match Messages::new(message).next() {
        Some(Ok(Message::Data(_, body))) => body,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sets_and_entries_that_are_written_are_read_back() {
    for entry in fuzzed::entries() {
        let set = fuzzed::set_of(&entry);
        let message = fuzzed::piece(&set, &[entry]);
        let read = read::piece(body_of(&message), None).unwrap();
        let found = read.set.unwrap();
        assert_eq!((found.name.as_str(), found.kind, found.references), ("KUBE-SET", Some(set.kind), 3));
        assert_eq!(found.entries_max, if set.kind == Kind::Port { 0 } else { 65_536 });
        assert_eq!(read.entries, [entry]);
    }
}

#[test]
fn sets_of_kinds_that_nobody_here_knows_are_named_alone() {
    let mut writer = MessageWriter::default();
    wire::fixed(&mut writer);
    writer.text(wire::NAME, "theirs");
    writer.text(wire::TYPE, "hash:net,iface");
    writer.attribute(wire::FAMILY, &[2]);
    writer.nested(wire::ENTRIES, |m| m.nested(wire::DATA, |m| m.attribute(99, &[1])));
    let piece = read::piece(writer.bytes(), None).unwrap();
    let set = piece.set.unwrap();
    assert_eq!((set.name.as_str(), set.kind, piece.entries.len()), ("theirs", None, 0));
}

#[test]
fn a_bitmap_of_some_ports_is_none_of_ours() {
    let mut writer = MessageWriter::default();
    wire::fixed(&mut writer);
    writer.text(wire::NAME, "some");
    writer.text(wire::TYPE, "bitmap:port");
    writer.nested(wire::DATA, |m| m.attribute(wire::data::PORT_TO, &1024u16.to_be_bytes()));
    assert_eq!(read::piece(writer.bytes(), None).unwrap().set.unwrap().kind, None);
}

#[test]
fn a_listing_cut_short_is_an_error_and_never_a_panic() {
    let mut broken = 0;
    for message in fuzzed::messages() {
        let whole = body_of(&message);
        for length in 0..whole.len() {
            match read::piece(&whole[..length], Some(Kind::Port)) {
                Ok(_) => {}
                Err(netlink::Error::Malformed { .. }) => broken += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(broken > 100, "{broken}");
}

#[test]
fn an_entry_without_all_its_parts_is_an_error() {
    let parts: [fn(&mut MessageWriter); 4] = [
        |_| (),
        |m| wire::entry(m, &Entry::Ip([10, 0, 0, 1].into())),
        |m| wire::entry(m, &Entry::Port(1)),
        |m| m.nested(wire::data::IP, |m| m.attribute(wire::IPV4, &[1, 2, 3])),
    ];
    for write in parts {
        let mut writer = MessageWriter::default();
        wire::fixed(&mut writer);
        writer.nested(wire::ENTRIES, |m| m.nested(wire::DATA, write));
        let read = read::piece(writer.bytes(), Some(Kind::IpPort(Family::V4)));
        assert!(matches!(read, Err(netlink::Error::Malformed { .. })), "{read:?}");
    }
}

#[test]
fn refusals_and_errors_are_sentences() {
    let set = Set::new(SetName::new("KUBE-A").unwrap(), Kind::IpPort(Family::V4));
    let refused = |request: Request, number| Refused { at: 0, request, refusal: Errno(number).into() };
    let said = refused(Request::Create(set.clone()), code::NO_SUCH_KIND).to_string();
    assert!(said.contains("load the module `ip_set_hash_ipport`"), "{said}");
    let busy = refused(Request::Destroy(set.name.clone()), code::BUSY);
    assert!(busy.is_in_use() && !busy.is_missing());
    assert_eq!(busy.to_string(), "the kernel refused to destroy set KUBE-A: a rule uses it");
    let full =
        refused(Request::Add(set.name, Entry::IpPort([10, 0, 0, 1].into(), IpProtocol::TCP, 80)), code::FULL);
    assert!(full.is_full());
    assert_eq!(full.to_string(), "the kernel refused to add 10.0.0.1,tcp:80 to set KUBE-A: the set is full");
    assert!(Error::Missing.to_string().contains("load the module `ip_set`"));
}

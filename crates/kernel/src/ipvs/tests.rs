//! Bytes there and back, broken ones, and the words of errors.

use super::*;
use crate::IpProtocol;
use crate::netlink::{self, Errno, Message, MessageWriter, Messages};

fn body(write: impl FnOnce(&mut MessageWriter)) -> Vec<u8> {
    let mut writer = MessageWriter::default();
    write(&mut writer);
    writer.bytes().to_vec()
}

fn is_malformed<T>(read: &netlink::Result<T>) -> bool {
    matches!(read, Err(netlink::Error::Malformed { .. }))
}

#[test]
fn servers_that_are_written_are_read_back() {
    let web = What::Address("10.96.0.1:80".parse().unwrap(), IpProtocol::SCTP);
    let six = What::Address("[fd00:96::1]:443".parse().unwrap(), IpProtocol::TCP);
    let servers = [
        VirtualServer { client_bits: 24, persistence_s: Some(10_800), ..VirtualServer::new(web, "rr") },
        VirtualServer { client_bits: 0, ..VirtualServer::new(web, "rr") },
        VirtualServer { client_bits: 64, persistence_s: Some(1), ..VirtualServer::new(six, "sh") },
        VirtualServer {
            flags: Flags::ONE_PACKET,
            ..VirtualServer::new(What::Mark(u32::MAX, Family::V4), "fo")
        },
    ];
    for server in servers {
        let bytes = body(|m| wire::request(m, &Request::Add(server.clone())));
        assert_eq!(read::virtual_server(&bytes), Ok(server));
    }
    for (what, address) in [(web, "10.1.0.1:8080"), (six, "[fd00:1::1]:0")] {
        let server = RealServer {
            forwarding: Forwarding::Other(3),
            ..RealServer::masquerading(address.parse().unwrap(), 9)
        };
        let bytes = body(|m| wire::request(m, &Request::AddServer(what, server)));
        let found = FoundServer { server, active: 0, inactive: 0, persistent: 0, counts: Counts::default() };
        assert_eq!(read::real_server(&bytes, what.family()), Ok(found));
    }
}

#[test]
fn what_was_carried_is_read() {
    use wire::{counts, server, service};
    let web = What::Address("10.96.0.1:80".parse().unwrap(), IpProtocol::TCP);
    let numbers = |m: &mut MessageWriter| {
        for (kind, number) in
            [(counts::CONNECTIONS, 3u64), (counts::BYTES_IN, 1 << 40), (counts::BYTES_OUT, 7)]
        {
            m.attribute(kind, &number.to_ne_bytes());
        }
    };
    let wanted = Counts { connections: 3, bytes_in: 1 << 40, bytes_out: 7 };
    let bytes = body(|m| {
        wire::fixed(m, wire::command::NEW_SERVICE);
        m.nested(wire::SERVICE, |m| {
            wire::whole(m, &VirtualServer::new(web, "rr"));
            m.nested(service::COUNTS, numbers);
        });
    });
    assert_eq!(read::carried(&bytes), Ok((web, wanted)));
    let bytes = body(|m| {
        wire::fixed(m, wire::command::NEW_SERVER);
        m.nested(wire::SERVER, |m| {
            wire::place(m, server::ADDRESS, server::PORT, "10.1.0.1:8080".parse().unwrap());
            m.nested(server::COUNTS, numbers);
        });
    });
    assert_eq!(read::real_server(&bytes, Family::V4).map(|found| found.counts), Ok(wanted));
}

#[test]
fn an_answer_cut_short_is_an_error_and_never_a_panic() {
    for message in fuzzed::messages() {
        let Some(Ok(Message::Data(_, whole))) = Messages::new(&message).next() else { panic!("{message:?}") };
        // Whole attributes may be missing at the end of some, but half ones may not.
        for length in 0..whole.len() {
            let cut = &whole[..length];
            let reads = [
                read::virtual_server(cut).map(drop),
                read::real_server(cut, Family::V4).map(drop),
                netlink::family_id(cut).map(drop),
            ];
            assert!(reads.iter().all(|read| read.is_ok() || is_malformed(read)), "{length}: {reads:?}");
        }
    }
    assert!(is_malformed(&read::virtual_server(&[])));
    assert!(is_malformed(&read::timeouts(&[1, 2])));
}

#[test]
fn an_answer_with_nonsense_in_it_is_an_error() {
    let service = |write: fn(&mut MessageWriter)| {
        body(|m| {
            wire::fixed(m, wire::command::NEW_SERVICE);
            m.nested(wire::SERVICE, write);
        })
    };
    let cases: [fn(&mut MessageWriter); 5] = [
        |_| (),
        |m| m.attribute(wire::service::FAMILY, &7u16.to_ne_bytes()),
        |m| m.attribute(wire::service::FAMILY, &[2]),
        |m| m.attribute(wire::service::ADDRESS, &[10, 0, 0, 1]),
        |m| {
            m.attribute(wire::service::FAMILY, &2u16.to_ne_bytes());
            m.attribute(wire::service::PROTOCOL, &256u16.to_ne_bytes());
        },
    ];
    for case in cases {
        let bytes = service(case);
        assert!(is_malformed(&read::virtual_server(&bytes)), "{bytes:?}");
    }
}

#[test]
fn what_is_missing_or_forbidden_is_said_in_a_sentence() {
    let system = |number| netlink::Error::System { action: "open a netlink socket", errno: Errno(number) };
    assert_eq!(Error::from(system(libc::EPROTONOSUPPORT)), Error::Missing);
    assert_eq!(Error::from(system(libc::EPERM)), Error::NotPermitted);
    assert!(Error::Missing.to_string().contains("`modprobe ip_vs`"));
    assert!(Error::NotPermitted.to_string().contains("CAP_NET_ADMIN"));
    assert_eq!(Error::from(netlink::Error::Lost), Error::Netlink(netlink::Error::Lost));
}

#[test]
fn a_refusal_tells_what_is_there_and_what_is_not() {
    let what = What::Address("10.96.0.1:80".parse().unwrap(), IpProtocol::TCP);
    let refused = |request: &Request, number| Refused {
        at: 0,
        request: request.clone(),
        refusal: Errno(number).into(),
    };
    let (add, gone) = (
        Request::Add(VirtualServer::new(what, "wlc")),
        Request::DeleteServer(what, "10.1.0.1:80".parse().unwrap()),
    );
    assert!(refused(&add, libc::EEXIST).is_there());
    assert!(refused(&gone, libc::ENOENT).is_missing() && refused(&gone, libc::ESRCH).is_missing());
    assert!(!refused(&add, libc::ENOENT).is_missing());
    assert_eq!(
        refused(&add, libc::ENOENT).to_string(),
        "IPVS: the kernel refused to add virtual server TCP 10.96.0.1:80 (wlc): ENOENT: no such file or directory; \
         it has no scheduler `wlc`: load the module `ip_vs_wlc`"
    );
}

//! What the fuzz test needs to see of this folder: bytes of answers, and their decoders.

use super::{Family, Flags, RealServer, Request, Timeouts, VirtualServer, What, read, wire};
use crate::IpProtocol;
use crate::netlink::{Header, MessageWriter};

/// The number that a kernel might have given the family.
const KIND: u16 = 38;

fn message(body: impl FnOnce(&mut MessageWriter)) -> Vec<u8> {
    let mut writer = MessageWriter::default();
    writer.message(Header { kind: KIND, flags: 0, sequence: 1, port: 0 }, body);
    writer.bytes().to_vec()
}

/// A virtual server of each kind, a real one of each family, and timeouts, as the kernel sends them.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let at = |text: &str| text.parse().expect("an address");
    let (v4, v6) = (at("10.96.0.1:80"), at("[fd00:96::1]:80"));
    let web = What::Address(v4, IpProtocol::TCP);
    let plain = VirtualServer { persistence_s: Some(60), ..VirtualServer::new(web, "rr") };
    let six = VirtualServer {
        flags: Flags::HASH_PORT,
        ..VirtualServer::new(What::Address(v6, IpProtocol::UDP), "mh")
    };
    let mark = VirtualServer::new(What::Mark(7, Family::V6), "wrr");
    let timeouts = Timeouts { tcp_s: 900, tcp_fin_s: 120, udp_s: 300 };
    let requests = [
        Request::Add(plain),
        Request::Add(six),
        Request::Add(mark),
        Request::AddServer(web, RealServer::masquerading(v4, 1)),
        Request::AddServer(web, RealServer::masquerading(v6, 5)),
        Request::SetTimeouts(timeouts),
    ];
    requests.iter().map(|request| message(|m| wire::request(m, request))).collect()
}

/// Tries every decoder on the body of a message; whether one of them understands it.
pub(crate) fn decodes(header: Header, body: &[u8]) -> bool {
    let timeouts = read::timeouts(body).is_ok_and(|timeouts| timeouts != Timeouts::default());
    let servers = [read::real_server(body, Family::V4).is_ok(), read::real_server(body, Family::V6).is_ok()];
    let known = [read::virtual_server(body).is_ok(), crate::netlink::family_id(body).is_ok(), timeouts];
    header.kind == KIND && servers.into_iter().chain(known).any(|is_ok| is_ok)
}

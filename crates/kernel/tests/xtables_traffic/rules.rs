//! The rules that packets meet: every match and every target that we write, in upstream's manner.

use std::net::{IpAddr, SocketAddr};

use kernel::xtables::Family;

/// Chosen at random: three pods.
pub(crate) const SPREAD: u8 = 1;
/// Two pods that remember their clients; the first one gets nine of ten.
pub(crate) const STICKY: u8 = 2;
/// As `SPREAD`, but pods see the node's address.
pub(crate) const MASQUERADED: u8 = 3;
/// Refused, dropped.
pub(crate) const REFUSED: u8 = 4;
pub(crate) const DROPPED: u8 = 5;
/// Only for clients whose address ends below 128; others go nowhere.
pub(crate) const RANGED: u8 = 6;
/// The first pod remembers its clients for a second, in which they go to the second one.
pub(crate) const BRIEF: u8 = 7;
pub(crate) const PORT: u16 = 53;
/// Of the node: as `MASQUERADED`; and refused, as seen in INPUT alone.
pub(crate) const NODE_PORT: u16 = 30053;
pub(crate) const REFUSED_NODE_PORT: u16 = 30054;
pub(crate) const POD_PORT: u16 = 5353;

/// `10.N.0.LAST`, or `fd00:N::LAST`.
pub(crate) fn address(family: Family, net: u8, last: u8) -> IpAddr {
    match family {
        Family::V4 => [10, net, 0, last].into(),
        Family::V6 => [0xfd00, net.into(), 0, 0, 0, 0, 0, last.into()].into(),
    }
}

pub(crate) fn pod(family: Family, last: u8) -> IpAddr {
    address(family, 1, last)
}

pub(crate) fn client(family: Family, last: u8) -> IpAddr {
    address(family, 2, last)
}

pub(crate) fn node(family: Family) -> IpAddr {
    address(family, 3, 1)
}

pub(crate) fn service(family: Family, last: u8) -> IpAddr {
    address(family, 96, last)
}

/// The text for one family: `@TO-N` asks for a service, `@POD-N` is a pod's address, `@DNAT-N` leads to it, `@RANGE` is the
/// lower half of the clients.
pub(crate) fn text(family: Family) -> String {
    let mut text = TEXT.to_owned();
    for last in 1..=7 {
        let to = format!("-m udp -p udp -d {} --dport {PORT}", service(family, last));
        text = text.replace(&format!("@TO-{last}"), &to);
    }
    for last in 1..=3 {
        let there = SocketAddr::new(pod(family, last), POD_PORT);
        text = text.replace(&format!("@POD-{last}"), &pod(family, last).to_string());
        text = text
            .replace(&format!("@DNAT-{last}"), &format!("-m udp -p udp -j DNAT --to-destination {there}"));
    }
    let half = if family == Family::V4 { 25 } else { 121 };
    text.replace("@RANGE", &format!("{}/{half}", client(family, 0)))
}

/// What is neither marked nor known ends in FORWARD, so that each way through it is needed. Nobody meets the first two rules of
/// the filter table, since destinations are translated before it.
const TEXT: &str = r#"*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:SPREAD - [0:0]
:STICKY - [0:0]
:EXT - [0:0]
:FW - [0:0]
:BRIEF - [0:0]
:SEP-1 - [0:0]
:SEP-2 - [0:0]
:SEP-3 - [0:0]
:STICKY-1 - [0:0]
:STICKY-2 - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-SERVICES @TO-1 -j SPREAD
-A KUBE-SERVICES @TO-2 -j STICKY
-A KUBE-SERVICES @TO-3 -j EXT
-A KUBE-SERVICES @TO-6 -j FW
-A KUBE-SERVICES @TO-7 -j BRIEF
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -m udp -p udp --dport 30053 -j EXT
-A KUBE-MARK-MASQ -j MARK --or-mark 0x004000
-A EXT -j KUBE-MARK-MASQ
-A EXT -j SPREAD
-A FW -s @RANGE -j EXT
-A FW -m comment --comment "nobody else"
-A SPREAD -m statistic --mode random --probability 0.3333333333 -j SEP-1
-A SPREAD -m statistic --mode random --probability 0.5000000000 -j SEP-2
-A SPREAD -j SEP-3
-A SEP-1 -s @POD-1 -j KUBE-MARK-MASQ
-A SEP-1 @DNAT-1
-A SEP-2 -s @POD-2 -j KUBE-MARK-MASQ
-A SEP-2 @DNAT-2
-A SEP-3 -s @POD-3 -j KUBE-MARK-MASQ
-A SEP-3 @DNAT-3
-A BRIEF -m recent --name BRIEF --rcheck --seconds 1 --reap @DNAT-2
-A BRIEF -m recent --name BRIEF --set @DNAT-1
-A STICKY -m recent --name STICKY-1 --rcheck --seconds 10800 --reap -j STICKY-1
-A STICKY -m recent --name STICKY-2 --rcheck --seconds 10800 --reap -j STICKY-2
-A STICKY -m statistic --mode random --probability 0.9000000000 -j STICKY-1
-A STICKY -j STICKY-2
-A STICKY-1 -m recent --name STICKY-1 --set @DNAT-1
-A STICKY-2 -m recent --name STICKY-2 --set @DNAT-2
-A KUBE-POSTROUTING -m mark ! --mark 0x004000/0x004000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x004000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
COMMIT
*filter
:FORWARD DROP [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
-A FORWARD @TO-1 -j DROP
-A OUTPUT @TO-1 -j DROP
-A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -j KUBE-SERVICES
-A INPUT -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES
-A FORWARD -j KUBE-FORWARD
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m mark --mark 0x004000/0x004000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT
-A KUBE-SERVICES @TO-4 -j REJECT
-A KUBE-SERVICES @TO-5 -j DROP
-A KUBE-EXTERNAL-SERVICES -m udp -p udp --dport 30054 -m addrtype --dst-type LOCAL -j REJECT
COMMIT
"#;

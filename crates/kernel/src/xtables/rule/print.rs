//! Rules as a restore text has them, in upstream's words.

use std::fmt::{self, Display, Formatter, Write};
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Is, Match, Recent, Rule, Side, State, Target};

/// Names of targets that programs know: they let no chain be called so.
#[rustfmt::skip]
const TARGETS: [&str; 40] = [
    "ACCEPT", "DROP", "REJECT", "RETURN", "MARK", "MASQUERADE", "DNAT", "SNAT", "REDIRECT", "QUEUE", "AUDIT",
    "CHECKSUM", "CLASSIFY", "CLUSTERIP", "CONNMARK", "CONNSECMARK", "CT", "DNPT", "DSCP", "ECN", "HL", "HMARK",
    "IDLETIMER", "LED", "LOG", "NETMAP", "NFLOG", "NFQUEUE", "NOTRACK", "RATEEST", "SECMARK", "SET", "SNPT",
    "SYNPROXY", "TCPMSS", "TCPOPTSTRIP", "TEE", "TOS", "TPROXY", "TRACE",
];

/// Whether it is the name of a target of the programs, which no chain can have.
pub fn is_target(name: &str) -> bool {
    TARGETS.contains(&name)
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        for part in &self.parts {
            write!(f, "{gap}{part}")?;
            gap = " ";
        }
        self.target.as_ref().map_or(Ok(()), |target| write!(f, "{gap}{target}"))
    }
}

impl Display for Match {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comment(text) => {
                f.write_str("-m comment --comment ")?;
                quoted(f, text)
            }
            Self::Protocol(protocol) if protocol.has_ports() => write!(f, "-m {protocol} -p {protocol}"),
            Self::Protocol(protocol) | Self::PlainProtocol(protocol) => write!(f, "-p {protocol}"),
            Self::DestinationPort(port) => write!(f, "--dport {port}"),
            Self::Source(is, net) => write!(f, "{}-s {}", not(*is), Short(*net)),
            Self::Destination(is, net) => write!(f, "{}-d {}", not(*is), Short(*net)),
            Self::InInterface(is, name) => write!(f, "{}-i {name}", not(*is)),
            Self::OutInterface(is, name) => write!(f, "{}-o {name}", not(*is)),
            Self::Local(side, is) => write!(f, "-m addrtype {}--{}-type LOCAL", not(*is), end(*side)),
            Self::Mark { is, value, mask: u32::MAX } => write!(f, "-m mark {}--mark {value:#08x}", not(*is)),
            Self::Mark { is, value, mask } => {
                write!(f, "-m mark {}--mark {value:#08x}/{mask:#08x}", not(*is))
            }
            Self::State(is, states) => {
                write!(f, "-m conntrack {}--ctstate ", not(*is))?;
                f.write_str(&states.iter().map(|state| state.name()).collect::<Vec<_>>().join(","))
            }
            Self::Ipvs => f.write_str("-m ipvs --ipvs"),
            Self::Set { is, name, sides } => {
                let sides: Vec<&str> = sides.iter().map(|side| end(*side)).collect();
                write!(f, "-m set {}--match-set {name} {}", not(*is), sides.join(","))
            }
            Self::Random(probability) => {
                write!(f, "-m statistic --mode random --probability {probability}")
            }
            Self::Recent(Recent::Set { list }) => write!(f, "-m recent --name {list} --set"),
            Self::Recent(Recent::Check { list, seconds, reap }) => {
                let reap = if *reap { " --reap" } else { "" };
                write!(f, "-m recent --name {list} --rcheck --seconds {seconds}{reap}")
            }
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jump(chain) => write!(f, "-j {chain}"),
            Self::Accept => f.write_str("-j ACCEPT"),
            Self::Drop => f.write_str("-j DROP"),
            Self::Reject => f.write_str("-j REJECT"),
            Self::Return => f.write_str("-j RETURN"),
            Self::OrMark(bits) => write!(f, "-j MARK --or-mark {bits:#08x}"),
            Self::XorMark(bits) => write!(f, "-j MARK --xor-mark {bits:#08x}"),
            Self::SetMark(mark) => write!(f, "-j MARK --set-mark {mark:#08x}"),
            Self::Xmark { value, mask } => write!(f, "-j MARK --set-xmark {value:#08x}/{mask:#08x}"),
            Self::Masquerade { random_fully: true } => f.write_str("-j MASQUERADE --random-fully"),
            Self::Masquerade { random_fully: false } => f.write_str("-j MASQUERADE"),
            Self::Dnat(IpAddr::V6(ip), Some(port)) => {
                write!(f, "-j DNAT --to-destination [{ip}]:{port}")
            }
            Self::Dnat(ip, Some(port)) => write!(f, "-j DNAT --to-destination {ip}:{port}"),
            Self::Dnat(ip, None) => write!(f, "-j DNAT --to-destination {ip}"),
            Self::Redirect(port) => write!(f, "-j REDIRECT --to-ports {port}"),
        }
    }
}

impl State {
    /// All, in the order in which the programs print them.
    pub(in crate::xtables) const ALL: [Self; 7] =
        [Self::Invalid, Self::New, Self::Related, Self::Established, Self::Untracked, Self::Snat, Self::Dnat];

    /// As the programs call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "INVALID",
            Self::New => "NEW",
            Self::Related => "RELATED",
            Self::Established => "ESTABLISHED",
            Self::Untracked => "UNTRACKED",
            Self::Snat => "SNAT",
            Self::Dnat => "DNAT",
        }
    }
}

/// An address, with the length of its prefix unless it is a single one.
struct Short(IpNet);

impl Display for Short {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            write!(f, "{}", self.0.addr())
        } else {
            write!(f, "{}", self.0.trunc())
        }
    }
}

fn not(is: Is) -> &'static str {
    match is {
        Is::Equal => "",
        Is::Not => "! ",
    }
}

fn end(side: Side) -> &'static str {
    match side {
        Side::Source => "src",
        Side::Destination => "dst",
    }
}

/// A line ends at a line feed whatever stands around it, so control characters become blanks.
fn quoted(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for letter in text.chars() {
        match letter {
            '"' | '\\' => write!(f, "\\{letter}")?,
            letter if letter.is_control() => f.write_char(' ')?,
            letter => f.write_char(letter)?,
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpProtocol;
    use crate::xtables::rule::{ChainName, Probability};

    #[test]
    fn rules_print_in_upstreams_words() {
        let comment = |text: &str| Match::Comment(text.to_owned());
        let jump = |chain: &str| Target::Jump(ChainName::new(chain).unwrap());
        let destination =
            |text: &str| Match::Destination(Is::Equal, IpNet::from(text.parse::<IpAddr>().unwrap()));
        let list = || "KUBE-SEP-A".to_owned();
        let cases = [
            (
                Rule::new(
                    [
                        comment("ns1/svc1:p80 cluster IP"),
                        Match::Protocol(IpProtocol::TCP),
                        destination("172.30.0.41"),
                        Match::DestinationPort(80),
                    ],
                    jump("KUBE-SVC-XPGD46QRK7WJZT7O"),
                ),
                r#"-m comment --comment "ns1/svc1:p80 cluster IP" -m tcp -p tcp -d 172.30.0.41 --dport 80 -j KUBE-SVC-XPGD46QRK7WJZT7O"#,
            ),
            (
                Rule::new([Match::Mark { is: Is::Not, value: 0x4000, mask: 0x4000 }], Target::Return),
                "-m mark ! --mark 0x004000/0x004000 -j RETURN",
            ),
            (
                Rule::new(
                    [Match::Recent(Recent::Check { list: list(), seconds: 10800, reap: true })],
                    jump("KUBE-SEP-A"),
                ),
                "-m recent --name KUBE-SEP-A --rcheck --seconds 10800 --reap -j KUBE-SEP-A",
            ),
            (
                Rule::new(
                    [Match::Recent(Recent::Set { list: list() }), Match::Protocol(IpProtocol::UDP)],
                    Target::Dnat("fd00::8".parse().unwrap(), Some(53)),
                ),
                "-m recent --name KUBE-SEP-A --set -m udp -p udp -j DNAT --to-destination [fd00::8]:53",
            ),
            (
                Rule::new([Match::Random(Probability::one_in(3))], jump("KUBE-SEP-A")),
                "-m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-A",
            ),
            (Rule::new([comment(r#"say "hi" \"#)], None), r#"-m comment --comment "say \"hi\" \\""#),
            (Rule::new([], Target::XorMark(0x4000)), "-j MARK --xor-mark 0x004000"),
        ];
        for (rule, expected) in cases {
            assert_eq!(rule.to_string(), expected);
        }
    }

    #[test]
    fn a_chain_is_called_nothing_that_a_program_would_misread() {
        for name in ["", "-A", "ACCEPT", "a b", "KUBE-SVC-0123456789ABCDEF0123", "!x", "a\"b"] {
            assert_eq!(ChainName::new(name), None, "{name}");
        }
        assert!(ChainName::new("KUBE-SVC-XPGD46QRK7WJZT7O").is_some());
    }
}

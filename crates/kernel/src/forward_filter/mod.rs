//! Would the rules on this host drop a packet that it forwards?
//!
//! In: a [`Packet`], the first of its connection, as it is after the destination was translated. Out: a [`Verdict`] with three
//! values. *Dropped* and *accepted* are said only where every rule that matters is understood; everything else is *unknown*, with
//! the rule that makes it so.
//!
//! ```no_run
//! use kernel::forward_filter::{Packet, Verdict, judge};
//! use kernel::IpProtocol;
//!
//! let packet = Packet {
//!     in_interface: Some("eth0".to_owned()),
//!     out_interface: Some("cni0".to_owned()),
//!     source: "192.0.2.7".parse().unwrap(),
//!     destination: "10.244.1.5".parse().unwrap(),
//!     protocol: IpProtocol::TCP,
//!     source_port: None, // any
//!     destination_port: Some(8080),
//!     is_destination_translated: true,
//!     mark: 0,
//! };
//! if let Verdict::Dropped { by } = judge(&packet) {
//!     println!("the packet is dropped by {by}"); // table inet firewall, chain forward: policy drop
//! }
//! ```
//!
//! [`judge`] reads the rules of the calling thread's network namespace; a [`Filter`] judges several packets and reads each chain
//! once, when the first packet reaches it.
//!
//! | file | what it is for |
//! |---|---|
//! | `rules` | base chains of `nf_tables` and legacy tables, in the order of the kernel |
//! | `walk` | the chains that a packet reaches, and every end that it may have there |
//! | `rule` | one rule, step by step, with registers of which not every bit is known |
//! | `facts` | what rules can ask about the packet |
//! | `xt` | matches and targets of iptables |
//! | `bits`, `text` | answers with three values; rules for people |
//!
//! Nothing is written, no program is started and no kernel module is loaded. Work is bounded: by the chains that a packet reaches,
//! and by a number of rules (`walk`).
//!
//! Absent on purpose: other hooks than forward, and later packets of a connection.

mod bits;
mod facts;
mod rule;
mod rules;
#[cfg(test)]
mod tests;
mod text;
mod walk;
mod xt;

use std::fmt;
use std::net::IpAddr;

use crate::IpProtocol;
use rules::Rules;

/// How often rules are read anew when other programs write meanwhile.
const ATTEMPTS: usize = 3;

/// The first packet of a connection at the forward hook. `None` stands for "any": what depends upon it is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The interface that it came in by.
    pub in_interface: Option<String>,
    /// The interface that it leaves by.
    pub out_interface: Option<String>,
    /// Where it comes from. The source is translated after this hook.
    pub source: IpAddr,
    /// Where it goes to, after the destination was translated.
    pub destination: IpAddr,
    /// Its transport protocol.
    pub protocol: IpProtocol,
    /// Its source port.
    pub source_port: Option<u16>,
    /// Its destination port, after it was translated.
    pub destination_port: Option<u16>,
    /// Whether the connection's destination was translated (conntrack status `dnat`).
    pub is_destination_translated: bool,
    /// Its mark when it reaches the hook.
    pub mark: u32,
}

/// What the rules do with a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No rule drops it.
    Accepted,
    /// It is dropped or rejected.
    Dropped {
        /// By what.
        by: Place,
    },
    /// Whether it is dropped depends upon something that is not understood or cannot be read.
    Unknown {
        /// Upon what: a rule, or why the rules cannot be read.
        because: String,
    },
}

/// Where a packet's way was decided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The table with its family or program: `inet firewall`, `iptables-legacy filter`.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// The rule as text; `None` for the chain's policy.
    pub rule: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, chain, rule } = self;
        write!(f, "table {table}, chain {chain}: {}", rule.as_deref().unwrap_or("policy drop"))
    }
}

/// The rules on the forward hook of one network namespace, of every program.
#[derive(Debug, Default)]
pub struct Filter {
    read: Option<Rules>,
}

/// Judges one packet by the rules of the calling thread's network namespace.
pub fn judge(packet: &Packet) -> Verdict {
    Filter::default().judge(packet)
}

impl Filter {
    /// Judges one packet by the rules of the calling thread's network namespace. What was read for an earlier packet is used again:
    /// rules of `nf_tables` unless a program changed them since, legacy tables and links always. Make a new `Filter` for each round.
    pub fn judge(&mut self, packet: &Packet) -> Verdict {
        for _ in 0..ATTEMPTS {
            let verdict = self.try_judge(packet);
            match verdict {
                Ok(Some(verdict)) => return verdict,
                // Another program changed the rules meanwhile.
                Ok(None) => self.read = None,
                Err(because) => {
                    self.read = None;
                    return Verdict::Unknown { because };
                }
            }
        }
        Verdict::Unknown { because: "other programs keep changing the rules".to_owned() }
    }

    /// `None` if what was read does not belong together.
    fn try_judge(&mut self, packet: &Packet) -> Result<Option<Verdict>, String> {
        let rules = match self.read.take() {
            Some(rules) => rules,
            None => Rules::read()?,
        };
        let rules = self.read.insert(rules);
        let verdict = rules.judge(packet);
        Ok(rules.are_current()?.then_some(verdict))
    }
}

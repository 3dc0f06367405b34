//! The one form of all rules that are the same to the kernel, and equality by it.
//!
//! Addresses, interfaces and the protocol are looked at first whatever the order of the text; modules in their order, which
//! counts only around one that remembers: what stands before it decides whether it is asked.

use std::borrow::Cow;

use super::{Match, Recent, Rule, Target};

impl Rule {
    /// The form by which rules are compared; it prints as a rule that does the same.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let parts = self.canonical_parts().into_iter().map(Cow::into_owned).collect();
        Self { parts, target: self.target.as_ref().map(canonical_target) }
    }

    fn canonical_parts(&self) -> Vec<Cow<'_, Match>> {
        let (first, modules) = self.asked();
        let mut parts: Vec<Cow<'_, Match>> = first.into_iter().map(canonical_match).collect();
        parts.sort();
        let mut from = parts.len();
        for part in modules {
            let ends = remembers(part);
            if ends {
                parts[from..].sort();
            }
            parts.push(canonical_match(part));
            if ends {
                from = parts.len();
            }
        }
        parts[from..].sort();
        parts
    }

    /// What the kernel asks first whatever the order of the text, and the modules that it asks then, in this order. A port is
    /// asked where the module of its protocol stands, not where the port does.
    pub fn asked(&self) -> (Vec<&Match>, Vec<&Match>) {
        let number = self.parts.iter().find(|part| matches!(part, Match::DestinationPort(_)));
        let (mut first, mut modules) = (Vec::new(), Vec::new());
        for part in &self.parts {
            match (part, number) {
                (Match::Protocol(_), Some(number)) => modules.extend([part, number]),
                (Match::DestinationPort(_), _) => {}
                _ if part.is_first() => first.push(part),
                _ => modules.push(part),
            }
        }
        (first, modules)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        // Most are seen from afar to be equal or not.
        if self.parts == other.parts && self.target == other.target {
            return true;
        }
        let may_be_equal = self.parts.len() == other.parts.len() && self.jump() == other.jump();
        let target = |rule: &Self| rule.target.as_ref().map(canonical_target);
        may_be_equal && self.canonical_parts() == other.canonical_parts() && target(self) == target(other)
    }
}

impl Eq for Rule {}

impl Match {
    /// Asked before all modules whatever the order; or without effect: a comment can be anywhere.
    fn is_first(&self) -> bool {
        matches!(
            self,
            Self::Comment(_)
                | Self::Protocol(_)
                | Self::PlainProtocol(_)
                | Self::Source(..)
                | Self::Destination(..)
                | Self::InInterface(..)
                | Self::OutInterface(..)
        )
    }
}

fn remembers(part: &Match) -> bool {
    matches!(part, Match::Recent(Recent::Set { .. } | Recent::Check { reap: true, .. }))
}

fn canonical_match(part: &Match) -> Cow<'_, Match> {
    match part {
        Match::Source(is, net) => Cow::Owned(Match::Source(*is, net.trunc())),
        Match::Destination(is, net) => Cow::Owned(Match::Destination(*is, net.trunc())),
        Match::PlainProtocol(protocol) if !protocol.has_ports() => Cow::Owned(Match::Protocol(*protocol)),
        other => Cow::Borrowed(other),
    }
}

fn canonical_target(target: &Target) -> Target {
    match *target {
        Target::OrMark(bits) => Target::Xmark { value: bits, mask: bits },
        Target::XorMark(value) => Target::Xmark { value, mask: 0 },
        Target::SetMark(value) => Target::Xmark { value, mask: u32::MAX },
        ref other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpProtocol;
    use crate::xtables::rule::Is;

    fn net(text: &str) -> ipnet::IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn order_and_words_do_not_count() {
        let port = [Match::Protocol(IpProtocol::TCP), Match::DestinationPort(80)];
        let to = Match::Destination(Is::Equal, net("10.1.2.3/8"));
        let one = Rule::new([to, port[0].clone(), port[1].clone()], Target::OrMark(1));
        let whole = Match::Destination(Is::Equal, net("10.0.0.0/8"));
        let other = Rule::new([port[0].clone(), port[1].clone(), whole], Target::Xmark { value: 1, mask: 1 });
        assert_eq!(one, other);
    }

    #[test]
    fn what_differs_differs() {
        let set = Match::Recent(Recent::Set { list: "A".to_owned() });
        let (tcp, port) = (Match::Protocol(IpProtocol::TCP), Match::DestinationPort(80));
        let rules = [
            Rule::new([], None),
            Rule::new([], Target::OrMark(1)),
            Rule::new([], Target::XorMark(1)),
            Rule::new([tcp.clone()], None),
            Rule::new([Match::PlainProtocol(IpProtocol::TCP)], None),
            Rule::new([tcp.clone(), port.clone(), set.clone()], None),
            Rule::new([set, tcp, port], None),
        ];
        for (at, one) in rules.iter().enumerate() {
            for (other_at, other) in rules.iter().enumerate() {
                assert_eq!(one == other, at == other_at, "`{one}` and `{other}`");
            }
        }
    }
}

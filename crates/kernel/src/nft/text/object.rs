//! Chains, sets and elements as nft prints them.

use super::rule::verdict;
use super::value::{interval, time};
use crate::nft::element::{Data, Element};
use crate::nft::object::{Chain, ChainKind, DataFields, Family, Field, Hook, HookPoint, Policy, Set};

impl Element {
    /// The element as nft prints it: `10.96.0.10 . tcp . 80 comment "shop/web" : 7057:4`.
    pub fn text(&self) -> String {
        element(self)
    }
}

impl Set {
    /// What nft prints between a set's braces, elements aside, in a table of this family.
    pub fn text(&self, family: Family) -> String {
        set(family, self).join(" ")
    }
}

impl Chain {
    /// What nft prints between a chain's braces, rules aside.
    pub fn text(&self) -> String {
        chain(self).join(" ")
    }
}

/// The lines inside a chain's braces that come before its rules.
pub(super) fn chain(chain: &Chain) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(comment) = &chain.comment {
        lines.push(format!("comment \"{}\";", comment.as_str()));
    }
    lines.extend(chain.base.map(hook));
    lines
}

fn hook(hook: Hook) -> String {
    let kind = match hook.kind {
        ChainKind::Filter => "filter",
        ChainKind::Nat => "nat",
    };
    let point = match hook.point {
        HookPoint::Prerouting => "prerouting",
        HookPoint::Input => "input",
        HookPoint::Forward => "forward",
        HookPoint::Output => "output",
        HookPoint::Postrouting => "postrouting",
    };
    let policy = match hook.policy {
        Policy::Accept => "accept",
        Policy::Drop => "drop",
    };
    // Numbers rather than names: nft 1.0.6 does not know `dstnat` in output.
    format!("type {kind} hook {point} priority {}; policy {policy};", hook.priority)
}

/// `set` or `map`.
pub(super) const fn set_word(set: &Set) -> &'static str {
    match set.data {
        DataFields::None => "set",
        DataFields::Verdict | DataFields::Values(_) => "map",
    }
}

/// The lines inside a set's braces that come before its elements.
pub(super) fn set(family: Family, set: &Set) -> Vec<String> {
    let mut lines = vec![typeof_line(family, set)];
    if let Some(size) = set.size {
        lines.push(format!("size {size};"));
    }
    let flags =
        [(set.flags.interval, "interval"), (set.flags.dynamic, "dynamic"), (set.flags.timeout, "timeout")];
    let flags: Vec<_> = flags.iter().filter(|flag| flag.0).map(|flag| flag.1).collect();
    if !flags.is_empty() {
        lines.push(format!("flags {};", flags.join(",")));
    }
    if let Some(comment) = &set.comment {
        lines.push(format!("comment \"{}\";", comment.as_str()));
    }
    lines
}

fn typeof_line(family: Family, set: &Set) -> String {
    let key = fields(family, &set.key);
    match &set.data {
        DataFields::None => format!("typeof {key};"),
        DataFields::Verdict => format!("typeof {key} : verdict;"),
        DataFields::Values(data) => format!("typeof {key} : {};", fields(family, data)),
    }
}

fn fields(family: Family, fields: &[Field]) -> String {
    let texts: Vec<_> = fields.iter().map(|field| self::field(family, *field)).collect();
    texts.join(" . ")
}

fn field(family: Family, field: Field) -> String {
    match field {
        Field::Source => format!("{} saddr", super::family_name(family)),
        Field::Destination => format!("{} daddr", super::family_name(family)),
        Field::Protocol => "meta l4proto".to_owned(),
        Field::Port => "th dport".to_owned(),
        Field::Priority => "meta priority".to_owned(),
        Field::Slot => "numgen random mod 4".to_owned(),
        Field::Mark => "meta mark".to_owned(),
        Field::InputInterface => "iifname".to_owned(),
    }
}

/// One element. nft wants timeout and comment behind the key, before the colon.
pub(super) fn element(element: &Element) -> String {
    let key = element_key(element);
    let timeout = element.timeout.map_or_else(String::new, |timeout| format!(" timeout {}", time(timeout)));
    let comment = super::comment(element.comment.as_ref());
    let data = match &element.data {
        Data::None => String::new(),
        Data::Verdict(data) => format!(" : {}", verdict(data)),
        Data::Values(values) => format!(" : {values}"),
    };
    [key, timeout, comment, data].concat()
}

/// The key of an element alone, as it is named in a deletion.
pub(super) fn element_key(element: &Element) -> String {
    match &element.end {
        Some(end) => interval(&element.key, end),
        None => element.key.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpProtocol;
    use crate::nft::{Comment, Flags, Part, Value, Verdict};

    #[test]
    fn elements_are_as_nft_prints_them() {
        let frontend =
            [Value::Ipv4([10, 96, 0, 10].into()), Value::Protocol(IpProtocol::TCP), Value::Port(80)];
        let note = Comment::new("shop/web");
        let class = Element::new(&frontend).values(&[Value::Priority(0x7057_0004)]).comment(&note);
        assert_eq!(class.text(), "10.96.0.10 . tcp . 80 comment \"shop/web\" : 7057:4");
        let verdict = Element::new(&[Value::Priority(1)]).verdict(Verdict::Goto("pick-4".into()));
        assert_eq!(verdict.text(), "0:1 : goto pick-4");
        let range = Element::interval(&[
            Part::Prefix([10, 0, 0, 0].into(), 8),
            Part::Range(Value::Port(1), Value::Port(9)),
        ]);
        assert_eq!(range.text(), "10.0.0.0/8 . 1-9");
    }

    #[test]
    fn sets_are_as_nft_prints_them() {
        let flags = Flags { dynamic: true, timeout: true, interval: false };
        let map = Set::map("affinity", &[Field::Source, Field::Priority], &[Field::Priority]);
        let map = Set { flags, size: Some(9), ..map };
        let text = "typeof ip6 saddr . meta priority : meta priority; size 9; flags dynamic,timeout;";
        assert_eq!(map.text(Family::V6), text);
    }
}

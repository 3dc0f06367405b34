//! How rules mark those whose source is hidden: everybody who is no pod.

use kernel::xtables::{Is, Match, Rule, Target};

use crate::iptables::names;
use crate::xtables::{Chain, Pods, name};

/// The rule by which everybody but pods is marked, of those for whom these parts hold.
pub(super) fn mark_others(pods: &Pods, parts: &[Match]) -> Rule {
    let jump = |chain| Target::Jump(name(chain));
    match pods.signs() {
        [] => Rule::new(parts.iter().cloned(), jump(names::MARK_MASQ)),
        [sign] => Rule::new(parts.iter().cloned().chain([not(sign)]), jump(names::MARK_MASQ)),
        _ => Rule::new(parts.iter().cloned(), jump(names::MARK_OUTSIDE)),
    }
}

/// One rule has room for one sign, so several make a chain: it returns for each, and marks the rest.
pub(super) fn mark_outside(pods: &Pods) -> Option<Chain> {
    let mut rules = pods.inside(&[], &Target::Return);
    rules.push(Rule::new([], Target::Jump(name(names::MARK_MASQ))));
    (pods.signs().len() > 1).then(|| Chain::new(names::MARK_OUTSIDE, rules))
}

fn not(sign: &Match) -> Match {
    match sign {
        Match::Source(_, net) => Match::Source(Is::Not, *net),
        Match::InInterface(_, name) => Match::InInterface(Is::Not, name.clone()),
        other => unreachable!("pods are not told by {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use model::Family;
    use model::table::PodDetector;

    use super::*;

    fn shown(detector: &PodDetector) -> (String, Vec<String>) {
        let pods = Pods::of(detector, Family::V4);
        let inside = pods.inside(&[], &Target::Return);
        (mark_others(&pods, &[]).to_string(), inside.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn an_interface_is_named_as_iptables_can_say_it() {
        for (prefix, others, pods) in [
            ("veth", "! -i veth+ -j KUBE-MARK-MASQ", Some("-i veth+ -j RETURN")),
            (
                "fifteen-letters",
                "! -i fifteen-letters -j KUBE-MARK-MASQ",
                Some("-i fifteen-letters -j RETURN"),
            ),
            ("more-than-fifteen", "-j KUBE-MARK-MASQ", None),
            ("a b", "-j KUBE-MARK-MASQ", None),
        ] {
            let pods: Vec<String> = pods.into_iter().map(str::to_owned).collect();
            assert_eq!(
                shown(&PodDetector::InterfacePrefix(prefix.into())),
                (others.into(), pods),
                "{prefix}"
            );
        }
    }
}

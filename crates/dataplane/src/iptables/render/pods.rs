//! How rules tell pods of this cluster from everybody else.

use kernel::xtables::{Is, Match, Rule, Target};
use model::Family;
use model::table::PodDetector;

use super::Chain;
use crate::iptables::names::{self, name};

/// The longest name of an interface that the kernel takes.
const INTERFACE_BYTES_MAX: usize = 15;

/// Each of these alone makes a packet one of a pod.
#[derive(Clone, Debug)]
pub(super) struct Pods {
    signs: Vec<Match>,
}

impl Pods {
    pub(super) fn of(detector: &PodDetector, family: Family) -> Self {
        let signs = match detector {
            PodDetector::Networks(networks) => {
                networks.get(family).iter().map(|net| Match::Source(Is::Equal, *net)).collect()
            }
            PodDetector::Interface(name) => interface(name).into_iter().collect(),
            PodDetector::InterfacePrefix(prefix) if prefix.len() < INTERFACE_BYTES_MAX => {
                interface(&format!("{prefix}+")).into_iter().collect()
            }
            PodDetector::InterfacePrefix(whole) => interface(whole).into_iter().collect(),
        };
        Self { signs }
    }

    /// Rules that hold for pods: these parts, and one sign.
    pub(super) fn inside(&self, parts: &[Match], target: &Target) -> Vec<Rule> {
        let rule = |sign: &Match| Rule::new(parts.iter().chain([sign]).cloned(), target.clone());
        self.signs.iter().map(rule).collect()
    }

    /// The rule by which everybody else is marked, of those for whom these parts hold.
    pub(super) fn mark_others(&self, parts: &[Match]) -> Rule {
        let jump = |chain| Target::Jump(name(chain));
        match self.signs.as_slice() {
            [] => Rule::new(parts.iter().cloned(), jump(names::MARK_MASQ)),
            [sign] => Rule::new(parts.iter().cloned().chain([not(sign)]), jump(names::MARK_MASQ)),
            _ => Rule::new(parts.iter().cloned(), jump(names::MARK_OUTSIDE)),
        }
    }

    /// One rule has room for one sign, so several make a chain: it returns for each, and marks the rest.
    pub(super) fn mark_outside(&self) -> Option<Chain> {
        let mut rules = self.inside(&[], &Target::Return);
        rules.push(Rule::new([], Target::Jump(name(names::MARK_MASQ))));
        (self.signs.len() > 1).then(|| Chain { name: name(names::MARK_OUTSIDE), rules })
    }
}

/// None where no interface can be called so: then no packet comes in through it.
fn interface(name: &str) -> Option<Match> {
    let is_readable = name.bytes().all(|byte| byte.is_ascii_graphic() && !b"/\"'\\".contains(&byte));
    let is_fit =
        (1..=INTERFACE_BYTES_MAX).contains(&name.len()) && is_readable && !name.starts_with(['-', '!']);
    is_fit.then(|| Match::InInterface(Is::Equal, name.to_owned()))
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
    use super::*;

    fn shown(detector: &PodDetector) -> (String, Vec<String>) {
        let pods = Pods::of(detector, Family::V4);
        let inside = pods.inside(&[], &Target::Return);
        (pods.mark_others(&[]).to_string(), inside.iter().map(ToString::to_string).collect())
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

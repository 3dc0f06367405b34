//! How rules tell pods of this cluster from everybody else.

use kernel::xtables::{Is, Match, Rule, Target};
use model::Family;
use model::table::PodDetector;

/// The longest name of an interface that the kernel takes.
const INTERFACE_BYTES_MAX: usize = 15;

/// Each of these alone makes a packet one of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Pods {
    signs: Vec<Match>,
}

impl Pods {
    pub(crate) fn of(detector: &PodDetector, family: Family) -> Self {
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
    pub(crate) fn inside(&self, parts: &[Match], target: &Target) -> Vec<Rule> {
        let rule = |sign: &Match| Rule::new(parts.iter().chain([sign]).cloned(), target.clone());
        self.signs.iter().map(rule).collect()
    }

    /// Each sign alone.
    pub(crate) fn signs(&self) -> &[Match] {
        &self.signs
    }
}

/// None where no interface can be called so: then no packet comes in through it.
fn interface(name: &str) -> Option<Match> {
    let is_readable = name.bytes().all(|byte| byte.is_ascii_graphic() && !b"/\"'\\".contains(&byte));
    let is_fit =
        (1..=INTERFACE_BYTES_MAX).contains(&name.len()) && is_readable && !name.starts_with(['-', '!']);
    is_fit.then(|| Match::InInterface(Is::Equal, name.to_owned()))
}

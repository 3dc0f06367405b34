//! Which Services select which Pods, answered from either side without looking at all of the other.
//!
//! A Service is listed under one pair of its selector, a Pod under every label. So a Pod is compared only with Services
//! that share a pair with it, and a Service only with the Pods of its rarest pair.

use std::collections::{BTreeMap, BTreeSet};

use model::ServiceName;

use super::pod::Pod;

/// `namespace`, label, value.
type Pair = (Box<str>, Box<str>, Box<str>);

/// A selector that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector(BTreeMap<Box<str>, Box<str>>);

impl Selector {
    /// Reads `spec.selector`. `None` when it is empty or unreadable: such a Service selects nothing.
    pub(crate) fn read(spec: &serde_json::Value) -> Option<Self> {
        let pairs = spec["selector"].as_object()?;
        let pairs: Option<BTreeMap<_, _>> =
            pairs.iter().map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect();
        pairs.filter(|pairs| !pairs.is_empty()).map(Self)
    }

    fn matches(&self, pod: &Pod) -> bool {
        self.0.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    }

    fn pairs<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = Pair> {
        self.0.iter().map(move |(key, value)| (namespace.into(), key.clone(), value.clone()))
    }
}

/// All Pods and selectors.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pods: BTreeMap<(Box<str>, Box<str>), Pod>,
    selectors: BTreeMap<ServiceName, Selector>,
    pods_by_pair: BTreeMap<Pair, BTreeSet<Box<str>>>,
    services_by_pair: BTreeMap<Pair, BTreeSet<ServiceName>>,
}

impl Index {
    /// A Pod is so now, or gone. Returns the Services that selected it before or do now; none when nothing changed.
    pub(crate) fn set_pod(&mut self, namespace: &str, name: &str, pod: Option<Pod>) -> BTreeSet<ServiceName> {
        let key = (Box::from(namespace), Box::from(name));
        if self.pods.get(&key) == pod.as_ref() {
            return BTreeSet::new();
        }
        let mut concerned = BTreeSet::new();
        if let Some(before) = self.pods.remove(&key) {
            concerned.extend(self.services_of(&before));
            self.list_pod(&before, false);
        }
        if let Some(pod) = pod {
            concerned.extend(self.services_of(&pod));
            self.list_pod(&pod, true);
            self.pods.insert(key, pod);
        }
        concerned
    }

    /// A Service selects so now, or nothing.
    pub(crate) fn set_selector(&mut self, service: &ServiceName, selector: Option<Selector>) {
        if let Some(before) = self.selectors.remove(service) {
            for pair in before.pairs(service.namespace()).take(1) {
                remove(&mut self.services_by_pair, &pair, service);
            }
        }
        if let Some(selector) = selector {
            for pair in selector.pairs(service.namespace()).take(1) {
                self.services_by_pair.entry(pair).or_default().insert(service.clone());
            }
            self.selectors.insert(service.clone(), selector);
        }
    }

    /// The Pods that a Service selects, by name.
    pub(crate) fn pods_of(&self, service: &ServiceName) -> Vec<&Pod> {
        let Some(selector) = self.selectors.get(service) else { return Vec::new() };
        let pairs = selector.pairs(service.namespace());
        let rarest =
            pairs.map(|pair| self.pods_by_pair.get(&pair)).min_by_key(|names| names.map_or(0, BTreeSet::len));
        let names = rarest.flatten().into_iter().flatten();
        let pods = names.filter_map(|name| self.pods.get(&(service.namespace().into(), name.clone())));
        pods.filter(|pod| selector.matches(pod)).collect()
    }

    /// What is malformed in Pods.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &model::Report> {
        self.pods.values().flat_map(|pod| &pod.reports)
    }

    fn services_of(&self, pod: &Pod) -> Vec<ServiceName> {
        let candidates = pairs_of(pod).filter_map(|pair| self.services_by_pair.get(&pair)).flatten();
        candidates
            .filter(|service| self.selectors.get(service).is_some_and(|s| s.matches(pod)))
            .cloned()
            .collect()
    }

    fn list_pod(&mut self, pod: &Pod, is_there: bool) {
        for pair in pairs_of(pod) {
            if is_there {
                self.pods_by_pair.entry(pair).or_default().insert(pod.name.clone());
            } else {
                remove(&mut self.pods_by_pair, &pair, &pod.name);
            }
        }
    }
}

fn pairs_of(pod: &Pod) -> impl Iterator<Item = Pair> {
    pod.labels.iter().map(|(key, value)| (pod.namespace.clone(), key.clone(), value.clone()))
}

fn remove<T: Ord>(lists: &mut BTreeMap<Pair, BTreeSet<T>>, pair: &Pair, member: &T) {
    if let Some(list) = lists.get_mut(pair) {
        list.remove(member);
        if list.is_empty() {
            lists.remove(pair);
        }
    }
}

//! What is to be told of a document that is right: fields without an effect here, gates, and choices that people regret.

use std::collections::BTreeSet;

use dataplane::{Mode, registry};
use model::net::{parse_cidr, parse_ip};
use model::{Family, NodePortAddress};
use serde_json::{Value, json};

use super::document::Document;
use super::fields::{FIELDS, Field, Status};
use super::gates;

/// What upstream's default becomes.
const UPSTREAMS_NEXT: &str = "nftables";

/// What upstream's Event says where no mode was chosen, in its words, so that who searches for them finds these nodes too.
pub fn note_of_default(mode: Mode) -> String {
    format!(
        "No kube-proxy mode specified: defaulting to '{mode}'. Note that in Kubernetes 1.40 the default mode will switch to \
         '{UPSTREAMS_NEXT}'. If you wish to continue using '{mode}' mode, you must explicitly specify 'mode: {mode}' in the kube-proxy \
         config file, or '--proxy-mode {mode}' on the kube-proxy command line."
    )
}

/// Whether node ports answer on every address where nobody says otherwise.
fn answers_everywhere(mode: Mode) -> bool {
    mode.semantics().default_node_port_addresses == NodePortAddress::All
}

/// One sentence each.
pub fn notices(document: &Document, mode: Mode) -> Vec<String> {
    let (said, usual) = (json!(document), json!(Document::usual()));
    let mut notices: Vec<String> =
        FIELDS.iter().filter_map(|field| without_effect(field, &said, &usual)).collect();
    notices.extend(gates::warnings(&document.feature_gates));
    notices.extend(advice(document, mode));
    notices
}

/// A field that somebody has set, and that has no effect.
fn without_effect(field: &Field, said: &Value, usual: &Value) -> Option<String> {
    let (said, usual) = (field.of(said), field.of(usual));
    let is_told = field.status == Status::NotOffered && said != usual;
    is_told.then(|| format!("`{}: {said}` has no effect: {}", field.path, field.why))
}

fn advice(document: &Document, mode: Mode) -> Vec<String> {
    let mut advice = Vec::new();
    if document.mode.is_empty() {
        // Whose default is nftables already, as that of `portway run`, need not fear upstream's change.
        let why = if mode.name() == UPSTREAMS_NEXT {
            ""
        } else {
            ", since upstream's default becomes nftables in 1.40"
        };
        advice.push(format!("no mode is chosen, so it is {mode}: write `mode: {mode}`{why}"));
    }
    if document.node_port_addresses.is_empty() && answers_everywhere(mode) {
        advice.push(
            "`nodePortAddresses` is empty, so node ports answer on every address of this host: consider `[primary]`".to_owned(),
        );
    }
    advice.extend(half_of_two_families(document, mode));
    if !document.port_range.is_empty() && !mode.has_field("portRange") {
        let modes = registry::names_of(|mode| mode.has_field("portRange"));
        advice.push(format!("`portRange` means something in mode {modes} alone"));
    }
    advice
}

/// Both families are in use, and node ports were chosen for one.
fn half_of_two_families(document: &Document, mode: Mode) -> Option<String> {
    let used = families_in_use(document);
    let entries = &document.node_port_addresses;
    let chosen: BTreeSet<Family> = entries.iter().filter_map(|entry| family(entry)).collect();
    let is_for_both = entries.iter().any(|entry| family(entry).is_none());
    let missing = used.difference(&chosen).next().filter(|_| chosen.len() == 1 && !is_for_both)?;
    let usual = if answers_everywhere(mode) { "every address" } else { "its primary address" };
    Some(format!(
        "`nodePortAddresses` has no network of {missing}, so node ports of {missing} answer on {usual} of this host"
    ))
}

/// The families of pods, and that of this node's address; both, where networks that IPVS leaves alone are of both.
fn families_in_use(document: &Document) -> BTreeSet<Family> {
    let of_pods = document.cluster_cidr.split(',').filter_map(family);
    let of_node = parse_ip(&document.bind_address).filter(|ip| !ip.is_unspecified()).map(Family::of);
    let mut used: BTreeSet<Family> = of_pods.chain(of_node).collect();
    let excluded: BTreeSet<Family> =
        document.ipvs.exclude_cidrs.iter().filter_map(|cidr| family(cidr)).collect();
    if excluded.len() > 1 {
        used.extend(excluded);
    }
    used
}

fn family(text: &str) -> Option<Family> {
    parse_cidr(text).as_ref().map(Family::of_net)
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::*;

    #[test]
    fn every_field_without_an_effect_is_told_when_it_is_set() {
        for field in FIELDS.iter().filter(|field| field.status == Status::NotOffered) {
            let mut value = json!(Document::usual());
            let other = match field.kind {
                Kind::Bool => json!(true),
                Kind::Int => json!(77),
                Kind::Float => json!(77.5),
                Kind::Duration | Kind::Nanoseconds => json!("77s"),
                Kind::Vmodule => json!([{ "filePattern": "a", "verbosity": 1 }]),
                Kind::Texts => json!(["a"]),
                Kind::Gates => json!({}),
                Kind::Text | Kind::Quantity => json!("77Ki"),
            };
            field.put(&mut value, other);
            let document = serde_json::from_value(value).expect("it is a document");
            let told = notices(&document, dataplane::nftables::MODE);
            assert!(told[0].starts_with(&format!("`{}: ", field.path)), "{told:?}");
        }
    }

    #[test]
    fn node_ports_of_one_family_on_a_node_of_two_are_told() {
        let of = |cidr: &str, addresses: &[&str]| {
            let document = Document {
                mode: "nftables".into(),
                cluster_cidr: cidr.into(),
                node_port_addresses: addresses.iter().map(|entry| (*entry).to_owned()).collect(),
                ..Document::usual()
            };
            notices(&document, dataplane::nftables::MODE)
        };
        let both = "10.0.0.0/8,fd00::/48";
        let told = of(both, &["10.0.0.0/8"]);
        assert!(told[0].contains("no network of IPv6") && told[0].contains("primary address"), "{told:?}");
        let bound = Document {
            mode: "nftables".into(),
            bind_address: "192.0.2.1".into(),
            node_port_addresses: vec!["fd00::/48".into()],
            ..Document::usual()
        };
        assert!(notices(&bound, dataplane::nftables::MODE)[0].contains("no network of IPv4"));
        for (cidr, addresses) in [
            ("10.0.0.0/8", &["10.0.0.0/8"][..]),
            (both, &["10.0.0.0/8", "fd00::/48"]),
            (both, &["10.0.0.0/8", "primary"]),
            (both, &[]),
        ] {
            assert_eq!(of(cidr, addresses), Vec::<String>::new(), "{cidr} {addresses:?}");
        }
    }

    #[test]
    fn a_plain_document_is_told_only_what_it_does_not_choose() {
        let plain = Document { mode: "nftables".into(), ..Document::usual() };
        assert_eq!(notices(&plain, dataplane::nftables::MODE), Vec::<String>::new());
        let told = notices(&Document::usual(), dataplane::iptables::MODE);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].ends_with("`mode: iptables`, since upstream's default becomes nftables in 1.40"),
            "{told:?}"
        );
        assert!(told[1].contains("`[primary]`"), "{told:?}");
        let told = notices(&Document::usual(), dataplane::nftables::MODE);
        assert_eq!(told, ["no mode is chosen, so it is nftables: write `mode: nftables`"]);
    }
}

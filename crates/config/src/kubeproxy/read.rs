//! Reads a document from a file's text.
//!
//! In: YAML or JSON. Out: the document with its defaults, and what is to be told; or why it cannot be used.
//!
//! As upstream: what is of another kind or of another type is refused; an unknown field, and one that stands twice, would be refused by
//! a strict reader, and is told and passed over, so that a file of another version works.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;
use standalone::manifests;
use standalone::suggest::nearest;

use super::document::{API_VERSION, Document, KIND};
use super::fields::{FIELDS, Field};
use super::kind::Kind;
use super::obsolete::ObsoleteField;

/// A file may have so many bytes. A ConfigMap holds as many.
const BYTES_MAX: u64 = 1 << 20;

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    /// The document, with all that it does not say.
    pub(super) document: Document,
    /// The fields that it says something about itself. Empty is nothing.
    pub(super) said: BTreeSet<&'static str>,
    /// What is wrong with it and does not matter.
    pub(super) warnings: Vec<String>,
}

/// The text of a file. The error is a sentence.
pub(super) fn text_of(path: &Path) -> Result<String, String> {
    let refused = |reason: String| format!("the config file `{}` cannot be read: {reason}", path.display());
    let file = File::open(path).map_err(|error| refused(error.to_string()))?;
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| refused(error.to_string()))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(refused(format!("it has more than {BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Reads a document. The error is a sentence about the file, without its name.
pub(super) fn document(text: &str) -> Result<Told, String> {
    let (mut value, twice) = manifests::document(text)?;
    check_type(&value)?;
    let mut warnings: Vec<String> = twice
        .iter()
        .map(|key| format!("the field `{key}` stands twice: the last one counts, remove the other"))
        .collect();
    strip(&mut value);
    make_whole(&mut value);
    warnings.extend(unknown("", &value));
    let wrong: Vec<String> = FIELDS.iter().filter_map(|field| wrong(field, &mut value)).collect();
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    let is_said = |field: &&Field| !matches!(field.of(&value), Value::Null) && field.of(&value) != "";
    let said = FIELDS.iter().filter(is_said).map(|field| field.path).collect();
    let document: Document = serde_json::from_value(value).map_err(|error| error.to_string())?;
    Ok(Told { document: document.with_defaults(), said, warnings })
}

fn check_type(value: &Value) -> Result<(), String> {
    if !value.is_object() {
        return Err(format!("it is no map: it must have `kind: {KIND}`"));
    }
    for (name, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match value.get(name).and_then(Value::as_str) {
            Some(said) if said == expected => {}
            Some(said) => return Err(format!("`{name}: {said}` is not `{expected}`, the only one there is")),
            None => return Err(format!("`{name}` is missing: add `{name}: {expected}`")),
        }
    }
    Ok(())
}

/// `null` is nothing, as in Go.
fn strip(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(strip);
    }
}

/// A number without a fraction is whole however it is written, `5.0` or `1e2`: upstream makes JSON of YAML, and JSON in Go has it so.
fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(map) => map.values_mut().for_each(make_whole),
        _ => {}
    }
}

/// Its text has a point only where it has a fraction, and never an exponent.
fn whole(number: f64) -> Option<i64> {
    number.to_string().parse().ok()
}

/// Fields that nobody knows, each with the nearest name; they have no effect.
fn unknown(prefix: &str, value: &Value) -> Vec<String> {
    let known = names(prefix);
    let mut warnings = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        if let Some(obsolete) = ObsoleteField::at(&path) {
            warnings.push(format!("`{path}` has no effect any more: {}", obsolete.why));
        } else if !known.contains(name.as_str()) {
            let hint = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "it has no effect".to_owned(),
            };
            warnings.push(format!("unknown field `{path}`: {hint}"));
        } else if Field::at(&path).is_none() {
            warnings.extend(unknown(&path, value));
        }
    }
    warnings
}

/// The names that may stand below a place.
fn names(prefix: &str) -> BTreeSet<&'static str> {
    let below = |field: &Field| {
        let rest = if prefix.is_empty() {
            field.path
        } else {
            field.path.strip_prefix(prefix)?.strip_prefix('.')?
        };
        Some(rest.split('.').next().unwrap_or(rest))
    };
    FIELDS.iter().filter_map(below).collect()
}

/// What is wrong with the value of a field. A size that is written as a number is the same as a text.
fn wrong(field: &Field, document: &mut Value) -> Option<String> {
    let value = field.of(document);
    if value.is_null() {
        return misplaced(field, document);
    }
    let value = &with_truths(field.kind, value);
    if let Some(objection) = field.kind.objection(value) {
        return Some(format!("`{}`: {objection}", field.path));
    }
    let is_number = field.kind == Kind::Quantity && value.is_number();
    let value = if is_number { value.to_string().into() } else { value.clone() };
    field.put(document, value);
    None
}

/// The same, with a truth where the kind has one and an old word stands for it.
fn with_truths(kind: Kind, value: &Value) -> Value {
    match (kind, value) {
        (Kind::Bool, Value::String(text)) => truth_of_old(text).map_or_else(|| value.clone(), Value::Bool),
        (Kind::Gates, Value::Object(gates)) => gates
            .iter()
            .map(|(name, value)| (name.clone(), with_truths(Kind::Bool, value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        _ => value.clone(),
    }
}

/// What the first YAML has for true and for false, and upstream's reader with it.
fn truth_of_old(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// A place that should be a map and is none; told with the first of its fields.
fn misplaced(field: &Field, document: &Value) -> Option<String> {
    let (above, _) = field.path.split_once('.')?;
    let value = document.get(above).filter(|value| !value.is_object())?;
    let first = FIELDS.iter().find(|other| other.path.split_once('.').is_some_and(|(of, _)| of == above))?;
    (first.path == field.path).then(|| format!("`{above}`: `{value}` is not a map"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

    fn read(rest: &str) -> Result<Told, String> {
        document(&format!("{HEAD}{rest}"))
    }

    #[test]
    fn an_unknown_field_is_told_with_the_nearest_name_and_the_rest_counts() {
        let told = read("iptabels: {}\nmode: nftables\niptables: {syncPeroid: 5s}\nnftables: {x: 1}\n")
            .expect("lenient");
        assert_eq!(told.document.mode, "nftables");
        assert_eq!(
            told.warnings,
            [
                "unknown field `iptabels`: did you mean `iptables`?",
                "unknown field `iptables.syncPeroid`: did you mean `syncPeriod`?",
                "unknown field `nftables.x`: it has no effect",
            ]
        );
    }

    #[test]
    fn an_unknown_field_that_differs_by_its_letters_alone_is_told_with_the_right_ones() {
        for (written, right) in [
            ("clusterCidr", "clusterCIDR"),
            ("clustercidr", "clusterCIDR"),
            ("ClusterCIDR", "clusterCIDR"),
            ("IPTables", "iptables"),
            ("nodeportaddresses", "nodePortAddresses"),
        ] {
            let told = read(&format!("{written}: x\n")).expect("lenient");
            assert_eq!(told.warnings, [format!("unknown field `{written}`: did you mean `{right}`?")]);
        }
        let told = read("conntrack: {TCPBELIBERAL: true}\n").expect("lenient");
        assert_eq!(told.warnings, ["unknown field `conntrack.TCPBELIBERAL`: did you mean `tcpBeLiberal`?"]);
    }

    #[test]
    fn a_number_without_a_fraction_is_whole_however_it_is_written() {
        let told = read(
            "oomScoreAdj: 5.0\nconntrack: {maxPerCore: 1e2, min: -0.0}\nclientConnection: {qps: 2.5, burst: 1.0e+1}\n\
             logging: {vmodule: [{filePattern: a, verbosity: 3.0}], options: {text: {infoBufferSize: 64.0}}}\n",
        );
        let Document { oom_score_adj, conntrack, client_connection, logging, .. } =
            told.expect("it is right").document;
        assert_eq!((oom_score_adj, conntrack.max_per_core, conntrack.min), (Some(5), Some(100), Some(0)));
        assert_eq!((client_connection.qps.to_string(), client_connection.burst), ("2.5".to_owned(), 10));
        assert_eq!((logging.vmodule[0].verbosity, &*logging.options.text.info_buffer_size), (3, "64"));
    }

    #[test]
    fn a_number_with_a_fraction_and_one_that_is_too_large_are_not_whole() {
        for number in ["5.5", "1e-2", "1e10", "1e300", ".inf", ".nan"] {
            let error = read(&format!("oomScoreAdj: {number}\n")).expect_err(number);
            assert!(error.starts_with("`oomScoreAdj`: "), "{error}");
        }
    }

    #[test]
    fn a_field_of_earlier_days_is_told_with_what_replaces_it() {
        let told = read("udpIdleTimeout: 250ms\nresourceContainer: /kube-proxy\nconntrack: {max: 7}\n")
            .expect("lenient");
        let words = [
            "`conntrack.max` has no effect any more: use conntrack.maxPerCore",
            "`resourceContainer` has no effect any more: limits",
            "`udpIdleTimeout` has no effect any more: it was of the userspace mode",
        ];
        assert_eq!(told.warnings.len(), words.len(), "{:?}", told.warnings);
        for (warning, words) in told.warnings.iter().zip(words) {
            assert!(warning.starts_with(words), "{warning}");
        }
    }

    #[test]
    fn what_a_file_says_itself_is_known_from_what_it_leaves_to_defaults() {
        let told = read(
            "healthzBindAddress: ''\noomScoreAdj: null\nmetricsBindAddress: 127.0.0.1\nconntrack: {min: 7}\n",
        );
        let said: Vec<&str> = told.expect("it is right").said.into_iter().collect();
        assert_eq!(said, ["apiVersion", "conntrack.min", "kind", "metricsBindAddress"]);
    }

    #[test]
    fn of_a_field_that_stands_twice_the_last_one_counts() {
        let told = read("mode: ipvs\nmode: nftables\n").expect("lenient");
        assert_eq!(told.document.mode, "nftables");
        assert_eq!(told.warnings, ["the field `mode` stands twice: the last one counts, remove the other"]);
    }

    #[test]
    fn another_kind_of_document_and_a_value_of_another_type_are_refused() {
        for (text, words) in [
            ("", "is empty"),
            ("[]", "it is no map"),
            ("kind: KubeProxyConfiguration", "`apiVersion` is missing"),
            ("apiVersion: v1\nkind: Service", "`apiVersion: v1` is not `kubeproxy"),
            ("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: Kubelet", "`kind: Kubelet` is not"),
            ("mode: [", "line 1"),
        ] {
            let error = document(text).expect_err(text);
            assert!(error.contains(words), "{error}");
        }
        for (rest, words) in [
            ("mode: 1", "`mode`: `1` is not a text"),
            ("iptables: {syncPeriod: soon}", "`iptables.syncPeriod`: `\"soon\"` is not a time"),
            ("iptables: 7", "`iptables`: `7` is not a map"),
            (
                "oomScoreAdj: high\nbindAddressHardFail: 3",
                "`bindAddressHardFail`: `3` is not true or false; `oomScoreAdj`",
            ),
            ("---\nkind: x", "second document"),
        ] {
            let error = read(rest).expect_err(rest);
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn yes_and_off_are_truths_as_in_the_yaml_of_upstream() {
        let told = read(
            "bindAddressHardFail: yes\nipvs: {strictARP: On}\niptables: {masqueradeAll: off}\nhostnameOverride: yes\n",
        );
        let Told { document, warnings, .. } = told.expect("it is right");
        assert!(document.bind_address_hard_fail && document.ipvs.strict_arp);
        assert!(!document.iptables.masquerade_all);
        assert_eq!((&*document.hostname_override, warnings.len()), ("yes", 0), "a text stays one");
        assert!(read("bindAddressHardFail: perhaps").is_err());
        let gates = read("featureGates: {KubeProxyIPVS: on, AllAlpha: No}").expect("it is right");
        let gates: Vec<(String, bool)> = gates.document.feature_gates.into_iter().collect();
        assert_eq!(gates, [("AllAlpha".to_owned(), false), ("KubeProxyIPVS".to_owned(), true)]);
        assert!(read("featureGates: {KubeProxyIPVS: perhaps}").is_err());
    }

    #[test]
    fn null_and_json_are_read_as_go_does() {
        let told = read(
            "iptables: {masqueradeBit: null, minSyncPeriod: 0s}\nnodePortAddresses: null\nlogging: {flushFrequency: 0, options: {text: {infoBufferSize: 0}}}\n",
        );
        let told = told.expect("it is right");
        assert_eq!((told.document, told.warnings), (Document::usual(), Vec::new()));
        let json = format!("{{\"apiVersion\": \"{API_VERSION}\", \"kind\": \"{KIND}\", \"mode\": \"ipvs\"}}");
        assert_eq!(document(&json).expect("it is YAML too").document.mode, "ipvs");
    }
}

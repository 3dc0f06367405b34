//! Which document counts: that of a file, or that of the flags.
//!
//! In: the flags, and the text of the file of `--config` where there is one. Out: one document, and what is to be told.
//!
//! As upstream: without a file, flags change a document of defaults. With one, they are passed over, but for the host's name and the
//! log, where the flag wins, and for those that are no fields. Upstream passes them over in silence; here it is told.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::defaults::{HEALTHZ_PORT, METRICS_PORT, with_port};
use super::document::Document;
use super::fields::Field;
use super::flags::{Flag, Purpose};
use super::kind::Kind;
use super::line::{self, Given};
use super::read;

/// What counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The document.
    pub document: Document,
    /// The fields that the file itself says something about.
    pub said: BTreeSet<&'static str>,
    /// What is to be told.
    pub warnings: Vec<String>,
}

/// Puts flags and file together. The error is a sentence; `file` is the text of the file.
pub fn choose(given: &Given, file: Option<&str>) -> Result<Chosen, String> {
    let (mut warnings, mut said) = (given.warnings.clone(), BTreeSet::new());
    let mut document = match file {
        Some(text) => {
            let told = read::document(text)?;
            warnings.extend(told.warnings);
            said = told.said;
            warnings.extend(passed_over(given));
            told.document
        }
        None => Document::usual(),
    };
    // The first pattern that matches a file's name counts, so those of flags come before those of the file.
    let modules_of_file = std::mem::take(&mut document.logging.vmodule);
    let mut value = json!(document);
    let mut seen = Vec::new();
    let counts = |flag: &Flag| file.is_none() || flag.beside_config;
    for (flag, text) in given.flags().filter(|(flag, _)| counts(flag)) {
        for field in flag.fields() {
            set(field, &mut value, text, file.is_some() || seen.contains(&field.path));
            seen.push(field.path);
        }
    }
    document = serde_json::from_value(value).map_err(|error| error.to_string())?;
    document.logging.vmodule.extend(modules_of_file);
    document.hostname_override = host_name(&document.hostname_override)?;
    if file.is_none() {
        complete_addresses(given, &mut document);
    }
    Ok(Chosen { document, said, warnings })
}

/// A flag that has no effect because there is a file.
fn passed_over(given: &Given) -> Option<String> {
    let mut names: Vec<String> = given
        .flags()
        .filter(|(flag, _)| !flag.beside_config && flag.purpose != Purpose::Obsolete)
        .map(|(flag, _)| format!("`--{}`", flag.name))
        .collect();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!("{} passed over, because `--config` is given: write it into the file", names.join(", "))
    })
}

/// Sets a field. Lists and gates are added to where `adds`: to those of earlier flags, or of the file.
fn set(field: &Field, document: &mut Value, text: &str, adds: bool) {
    let is_address = matches!(field.path, "bindAddress" | "healthzBindAddress" | "metricsBindAddress");
    let Some(new) = line::value(field.kind, text).filter(|_| !(is_address && text.is_empty())) else {
        return;
    };
    let new = match (field.kind, field.of(document).clone(), new) {
        (Kind::Texts | Kind::Vmodule, Value::Array(mut old), Value::Array(new)) if adds => {
            old.extend(new);
            Value::Array(old)
        }
        (Kind::Gates, Value::Object(mut old), Value::Object(new)) => {
            old.extend(new);
            Value::Object(old)
        }
        (_, _, new) => new,
    };
    field.put(document, new);
}

/// As the names of Nodes are written. One of blanks alone is a mistake in a manifest.
fn host_name(text: &str) -> Result<String, String> {
    let name = text.trim().to_lowercase();
    if name.is_empty() && !text.is_empty() {
        return Err(
            "`hostnameOverride` (`--hostname-override`) has blanks alone: write a name, or leave it out"
                .into(),
        );
    }
    Ok(name)
}

/// An address without a port gets that of the deprecated flags, or the usual one. Port 0 means nowhere. As upstream, where no address is
/// given the usual one has its port already, and any other of these flags changes nothing.
fn complete_addresses(given: &Given, document: &mut Document) {
    let ports = [
        ("healthz-port", HEALTHZ_PORT, &mut document.healthz_bind_address),
        ("metrics-port", METRICS_PORT, &mut document.metrics_bind_address),
    ];
    for (flag, usual, address) in ports {
        let port = given.value(flag).and_then(|text| line::value(Kind::Int, text)?.as_i64());
        *address = match port.unwrap_or(usual.into()) {
            0 => String::new(),
            port => with_port(address, port),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: of-file
logging: { verbosity: 2, vmodule: [{ filePattern: a, verbosity: 1 }] }
";

    fn given(line: &str) -> Given {
        Given::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).expect("they are flags")
    }

    #[test]
    fn beside_a_file_only_the_name_and_the_log_count() {
        let given = given(
            "--proxy-mode=ipvs --hostname-override=Of-Flag -v=5 --vmodule=b=2,c*=3 --vmodule=d=4 --master=http://x",
        );
        let chosen = choose(&given, Some(FILE)).expect("it is right");
        assert_eq!(chosen.document.mode, "nftables");
        assert_eq!(chosen.document.hostname_override, "of-flag");
        assert_eq!(chosen.document.logging.verbosity, 5);
        let modules: Vec<_> = chosen.document.logging.vmodule.iter().map(|m| &*m.file_pattern).collect();
        assert_eq!(modules, ["b", "c*", "d", "a"], "the first that matches counts, so flags come first");
        assert_eq!(
            chosen.warnings,
            ["`--proxy-mode` passed over, because `--config` is given: write it into the file"]
        );
        let file = choose(&Given::default(), Some(FILE)).expect("it is right").document;
        assert_eq!((&*file.hostname_override, file.logging.verbosity), ("of-file", 2));
    }

    #[test]
    fn every_flag_of_a_field_reaches_its_fields() {
        for flag in super::super::flags::FLAGS {
            for field in flag.fields() {
                let text = match field.kind {
                    Kind::Text if field.path.ends_with("ddress") => "10.0.0.1:7",
                    Kind::Text => "word",
                    Kind::Bool => "true",
                    Kind::Int => "17",
                    Kind::Float => "1.5",
                    Kind::Duration | Kind::Nanoseconds => "7s",
                    Kind::Texts => "10.0.0.0/8,primary",
                    Kind::Gates => "NativeHistograms=false",
                    Kind::Vmodule => "file=3",
                    Kind::Quantity => "64Ki",
                };
                let chosen = choose(&given(&format!("--{}={text}", flag.name)), None).expect(flag.name);
                let expected = line::value(field.kind, text).expect("it was made for it");
                assert_eq!(field.of(&json!(chosen.document)), &expected, "--{}", flag.name);
            }
        }
        let off = choose(&given("--iptables-localhost-nodeports=false"), None).expect("it is right");
        assert_eq!(off.document.iptables.localhost_node_ports, Some(false));
        let zero = choose(&given("--iptables-min-sync-period=0"), None).expect("it is right").document;
        assert_eq!(zero.nftables.min_sync_period.0, 0, "a flag can say 0, which a file cannot");
    }

    #[test]
    fn lists_that_are_given_twice_are_put_together_and_gates_are_merged() {
        let chosen = choose(
            &given(
                "--nodeport-addresses=a --nodeport-addresses=b,c --feature-gates=A=true --feature-gates=B=false",
            ),
            None,
        );
        let document = chosen.expect("it is right").document;
        assert_eq!(document.node_port_addresses, ["a", "b", "c"]);
        assert_eq!(document.feature_gates.len(), 2);
    }

    #[test]
    fn an_address_without_a_port_gets_one_and_port_0_is_nowhere() {
        for (line, healthz, metrics) in [
            ("", "0.0.0.0:10256", "127.0.0.1:10249"),
            ("--healthz-bind-address=10.0.0.1", "10.0.0.1:10256", "127.0.0.1:10249"),
            ("--healthz-bind-address=", "0.0.0.0:10256", "127.0.0.1:10249"),
            ("--healthz-port=7", "0.0.0.0:10256", "127.0.0.1:10249"),
            ("--healthz-bind-address=10.0.0.1 --healthz-port=0x10", "10.0.0.1:16", "127.0.0.1:10249"),
            ("--healthz-bind-address=:: --healthz-port=017", "[::]:15", "127.0.0.1:10249"),
            ("--healthz-bind-address=10.0.0.1 --healthz-port=70000", "10.0.0.1:70000", "127.0.0.1:10249"),
            ("--healthz-bind-address=10.0.0.1:5 --healthz-port=7", "10.0.0.1:5", "127.0.0.1:10249"),
            ("--healthz-port=0x0 --metrics-port=9", "", "127.0.0.1:10249"),
            ("--metrics-bind-address=::", "0.0.0.0:10256", "[::]:10249"),
        ] {
            let document = choose(&given(line), None).expect(line).document;
            let found = (&*document.healthz_bind_address, &*document.metrics_bind_address);
            assert_eq!(found, (healthz, metrics), "{line}");
        }
    }

    #[test]
    fn a_host_name_of_blanks_is_refused() {
        let blanks = Given::parse(&["--hostname-override= ".to_owned()]).expect("it is a flag");
        assert!(choose(&blanks, None).expect_err("blanks").contains("blanks alone"));
    }
}

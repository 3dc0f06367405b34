//! What all of it is made of, as an SPDX document: the crates that are linked in, and Debian's packages in the images.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::oci::Image;
use super::{VERSION, in_words, output};
use crate::cargo::cargo;

/// Writes it and says where it lies.
pub(super) fn write(folder: &Path, images: &[Image], epoch: u64) -> Result<PathBuf> {
    let created = in_words(epoch)?;
    let tree = output(&mut cargo(&[
        "tree",
        "--package",
        "portway",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}|{l}",
    ]))?;
    let crates: BTreeSet<(String, String, String)> = tree.lines().filter_map(linked).collect();
    ensure!(crates.len() > 10, "cargo tree lists {} crates", crates.len());
    let debian = images.iter().flat_map(|image| &image.packages).collect::<BTreeSet<_>>();
    let mut packages: Vec<Value> =
        crates.iter().map(|(name, version, licence)| package("cargo", name, version, licence)).collect();
    packages.extend(debian.iter().map(|(name, version)| package("deb/debian", name, version, "NOASSERTION")));
    let relations: Vec<Value> = packages
        .iter()
        .map(|one| json!({"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": one["SPDXID"]}))
        .collect();
    let document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("portway-{VERSION}"),
        "documentNamespace": format!("https://portway.io/spdx/portway-{VERSION}-{epoch}"),
        "creationInfo": {"created": created, "creators": ["Tool: cargo xtask dist"]},
        "packages": packages,
        "relationships": relations,
    });
    let path = folder.join(format!("portway-{VERSION}.spdx.json"));
    fs::write(&path, format!("{}\n", serde_json::to_string_pretty(&document)?))?;
    Ok(path)
}

fn package(kind: &str, name: &str, version: &str, licence: &str) -> Value {
    let id: String = format!("SPDXRef-{kind}-{name}-{version}").chars().map(allowed).collect();
    json!({
        "SPDXID": id,
        "name": name,
        "versionInfo": version,
        "licenseDeclared": licence,
        "downloadLocation": "NOASSERTION",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": format!("pkg:{kind}/{name}@{version}"),
        }],
    })
}

/// An identifier has letters, digits, dots and dashes alone.
fn allowed(letter: char) -> char {
    if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' }
}

/// `serde v1.0.228|MIT OR Apache-2.0`; a crate of the workspace has its folder after the version, and one that was listed has `(*)`.
fn linked(line: &str) -> Option<(String, String, String)> {
    let (name, licence) = line.split_once('|')?;
    let mut words = name.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let licence = licence.trim_end_matches(" (*)").replace('/', " OR ");
    let licence = if licence.is_empty() { "NOASSERTION".to_owned() } else { licence };
    Some((name.to_owned(), version.to_owned(), licence))
}

#[cfg(test)]
mod tests {
    use super::linked;

    #[test]
    fn a_crate_is_read_with_its_version_and_licence() {
        let of =
            |name: &str, version: &str, licence: &str| Some((name.into(), version.into(), licence.into()));
        assert_eq!(linked("serde v1.0.228|MIT OR Apache-2.0"), of("serde", "1.0.228", "MIT OR Apache-2.0"));
        assert_eq!(linked("libc v0.2.1|MIT/Apache-2.0 (*)"), of("libc", "0.2.1", "MIT OR Apache-2.0"));
        assert_eq!(linked("model v0.1.0 (folder)|Apache-2.0"), of("model", "0.1.0", "Apache-2.0"));
        assert_eq!(linked(""), None);
    }
}

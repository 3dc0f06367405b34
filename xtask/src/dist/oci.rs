//! Images in an OCI layout: one for nftables mode alone, and one with the iptables programs on top of it.
//!
//! In: the program; of the machine, files of Debian's packages. Out: a folder with `oci-layout`, `index.json` and `blobs/`, which
//! `skopeo copy` and others take as it is.
//!
//! Each image has `/usr/bin/portway`, and `/usr/local/bin/kube-proxy`, which manifests for upstream's name. There is no shell.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::binary::Binary;
use super::debian::{self, Packages};
use super::tree::Tree;
use super::{VERSION, digest, in_words, output};
use crate::cargo::root;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Programs of iptables by the names that portway calls; each is one of the two that follow.
const PROGRAMS: [&str; 2] = ["xtables-nft-multi", "xtables-legacy-multi"];
const NAMES: [&str; 2] = ["nft", "legacy"];

/// One image.
pub(super) struct Image {
    pub(super) tag: String,
    /// All its blobs together, packed.
    pub(super) bytes: u64,
    /// All its files together, as archives.
    pub(super) unpacked_bytes: u64,
    /// Debian's packages that it has files of.
    pub(super) packages: Packages,
}

/// A layer: what its blob is called, and its bytes before they were packed.
struct Layer {
    blob: Value,
    unpacked: String,
    unpacked_bytes: u64,
    packages: Packages,
}

/// Builds both into one layout.
pub(super) fn build(binary: &Binary, folder: &Path, epoch: u64) -> Result<Vec<Image>> {
    fs::create_dir_all(folder.join("blobs/sha256"))?;
    fs::write(folder.join("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}).to_string())?;
    let base = layer(folder, epoch, |tree| portway(tree, binary))?;
    let programs = layer(folder, epoch, |tree| iptables(tree, &base.packages))?;
    let (mut images, mut entries) = (Vec::new(), Vec::new());
    for (tag, layers) in
        [(VERSION.to_owned(), vec![&base, &programs]), (format!("{VERSION}-nftables"), vec![&base])]
    {
        let (mut manifest, bytes) = manifest(folder, &layers, epoch)?;
        manifest["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        entries.push(manifest);
        let packages = layers.iter().flat_map(|layer| layer.packages.clone()).collect();
        let unpacked_bytes = layers.iter().map(|layer| layer.unpacked_bytes).sum();
        images.push(Image { tag, bytes, unpacked_bytes, packages });
    }
    let index = json!({"schemaVersion": 2, "manifests": entries});
    fs::write(folder.join("index.json"), index.to_string())?;
    Ok(images)
}

fn portway(tree: &Tree, binary: &Binary) -> Result<Packages> {
    let mut packages = Packages::new();
    tree.copy(&binary.path, "/usr/bin/portway", 0o755)?;
    tree.link("/usr/bin/portway", "/usr/local/bin/kube-proxy")?;
    for library in debian::libraries(&binary.path)? {
        debian::copy(tree, &library, &mut packages)?;
    }
    debian::copy_of(tree, CERTIFICATES, "ca-certificates", &mut packages)?;
    tree.copy(&root().join("LICENSE"), "/usr/share/doc/portway/copyright", 0o644)?;
    tree.write(b"root:x:0:0:root:/:/usr/bin/portway\n", "/etc/passwd", 0o644)?;
    // Places that manifests mount something at, since the root itself is read-only.
    for place in ["/run/portway", "/var/lib/kube-proxy", "/var/lib/portway", "/tmp", "/proc", "/sys"] {
        tree.folder(place)?;
    }
    Ok(packages)
}

fn iptables(tree: &Tree, below: &Packages) -> Result<Packages> {
    let mut packages = below.clone();
    for (program, name) in PROGRAMS.iter().zip(NAMES) {
        let file = format!("/usr/sbin/{program}");
        debian::copy(tree, &file, &mut packages)?;
        for prefix in ["iptables", "ip6tables"] {
            for suffix in ["", "-save", "-restore"] {
                tree.link(program, &format!("/usr/sbin/{prefix}-{name}{suffix}"))?;
            }
        }
    }
    let plugins = plugins()?;
    ensure!(!plugins.is_empty(), "iptables has no plugins on this machine");
    for plugin in plugins {
        debian::copy(tree, &plugin, &mut packages)?;
    }
    tree.write(b"", "/run/xtables.lock", 0o600)?;
    Ok(packages)
}

/// The plugins of iptables, one for each match and target.
fn plugins() -> Result<Vec<String>> {
    let listed = output(Command::new("dpkg").args(["-L", "iptables"]))?;
    let is_plugin = |file: &Path| file.extension().is_some_and(|extension| extension == "so");
    let files = listed.lines().filter(|file| file.contains("/xtables/") && is_plugin(Path::new(file)));
    Ok(files.map(str::to_owned).collect())
}

fn layer(folder: &Path, epoch: u64, furnish: impl FnOnce(&Tree) -> Result<Packages>) -> Result<Layer> {
    let tree = Tree::new(&folder.join("layer"))?;
    let packages = furnish(&tree)?;
    let archive = folder.join("layer.tar");
    tree.pack(&archive, epoch)?;
    let bytes = fs::read(&archive)?;
    let (unpacked, unpacked_bytes) = (format!("sha256:{}", digest(&bytes)), u64::try_from(bytes.len())?);
    output(Command::new("gzip").args(["--no-name", "--best", "--force"]).arg(&archive))?;
    let packed = folder.join("layer.tar.gz");
    let blob = put(folder, &fs::read(&packed)?, LAYER)?;
    fs::remove_file(packed)?;
    fs::remove_dir_all(tree.root())?;
    Ok(Layer { blob, unpacked, unpacked_bytes, packages })
}

fn manifest(folder: &Path, layers: &[&Layer], epoch: u64) -> Result<(Value, u64)> {
    let created = in_words(epoch)?;
    let config = json!({
        "created": created,
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/portway"],
            "Cmd": ["run"],
            "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Labels": {
                "org.opencontainers.image.title": "portway",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.description": "A complete kube-proxy, with or without a cluster",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": layers.iter().map(|layer| &layer.unpacked).collect::<Vec<_>>()},
    });
    let config = put(folder, config.to_string().as_bytes(), CONFIG)?;
    let blobs: Vec<&Value> = layers.iter().map(|layer| &layer.blob).collect();
    let sizes = blobs.iter().chain([&&config]).filter_map(|blob| blob["size"].as_u64()).sum();
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": blobs});
    Ok((put(folder, manifest.to_string().as_bytes(), MANIFEST)?, sizes))
}

/// Files bytes under their own digest; how others refer to them.
fn put(folder: &Path, bytes: &[u8], kind: &str) -> Result<Value> {
    let digest = digest(bytes);
    let file = folder.join("blobs/sha256").join(&digest);
    fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": bytes.len()}))
}

/// This machine's, in Go's words, which images speak.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

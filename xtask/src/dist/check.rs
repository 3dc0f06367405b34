//! The images as others see them: skopeo reads each, and portway serves from within each, unpacked.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::oci::Image;
use super::{VERSION, output};
use crate::cargo::{build_test, target_dir};
use crate::install::{Needed, install_packages, is_root};
use crate::registry;

const SKOPEO: &[Needed] =
    &[Needed { program: "skopeo", package: "skopeo", reason: "images are read with it, as a user would" }];
/// The packet test that runs portway as a container would.
const TEST: &str = "root_it_serves_with_the_capabilities_of_its_manifest_on_a_read_only_root";

/// Checks all images of a layout.
pub(super) fn images(layout: &Path, images: &[Image]) -> Result<()> {
    if let Some(missing) = install_packages(SKOPEO.iter()).pop() {
        bail!("{} is needed: {}", missing.name, missing.reason);
    }
    for image in images {
        inspect(layout, image)?;
        if is_root() {
            serve(layout, image)?;
        } else {
            println!("  image:{} is not tried at work: only root can make network namespaces", image.tag);
        }
    }
    Ok(())
}

fn inspect(layout: &Path, image: &Image) -> Result<()> {
    let name = format!("oci:{}:{}", layout.display(), image.tag);
    let text = output(Command::new("skopeo").args(["inspect", &name]))?;
    let found: Value = serde_json::from_str(&text).context("skopeo prints no JSON")?;
    let version = &found["Labels"]["org.opencontainers.image.version"];
    ensure!(version == VERSION && found["Os"] == "linux", "skopeo finds something else: {text}");
    let layers = found["Layers"].as_array().map_or(0, Vec::len);
    println!("  image:{}: skopeo finds {layers} layers, version {VERSION}", image.tag);
    Ok(())
}

/// Unpacks the layers and sends packets through a portway whose root they are.
fn serve(layout: &Path, image: &Image) -> Result<()> {
    let root = target_dir()?.join("dist-root");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root)?;
    for layer in layers(layout, &image.tag)? {
        output(Command::new("tar").arg("-xzf").arg(layer).arg("-C").arg(&root))?;
    }
    let test = build_test("packets")?;
    let listed = output(Command::new(&test).args(["--list", "--format", "terse"]))?;
    let modes = modes(image, &listed);
    ensure!(!modes.is_empty(), "image:{} is for no mode that can be tried here: {listed}", image.tag);
    for mode in modes {
        let mut command = Command::new(&test);
        command.args(["--exact", &format!("needs_root::{mode}::{TEST}")]).env("PORTWAY_IMAGE_ROOT", &root);
        let said = output(&mut command).with_context(|| format!("image:{} in mode {mode}", image.tag))?;
        ensure!(said.contains("1 passed"), "image:{} in mode {mode}: {said}", image.tag);
        println!("  image:{}: served packets in mode {mode}, its files as the root", image.tag);
    }
    Ok(fs::remove_dir_all(root)?)
}

/// The modes, with their programs, in which an image is tried: those of the packet tests, or the one that its tag names.
fn modes<'a>(image: &Image, listed: &'a str) -> Vec<&'a str> {
    let only = registry::modes().find(|mode| image.tag.ends_with(mode));
    let tried = listed.lines().filter_map(|line| {
        line.strip_prefix("needs_root::")?.strip_suffix(": test")?.strip_suffix(TEST)?.strip_suffix("::")
    });
    tried.filter(|mode| only.is_none_or(|only| only == *mode)).collect()
}

fn layers(layout: &Path, tag: &str) -> Result<Vec<std::path::PathBuf>> {
    let read = |file: &Path| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(file)?)?) };
    let blob = |value: &Value| {
        let digest = value["digest"].as_str().unwrap_or_default();
        layout.join("blobs").join(digest.replace(':', "/"))
    };
    let index = read(&layout.join("index.json"))?;
    let entries = index["manifests"].as_array().context("an index without manifests")?;
    let entry = entries.iter().find(|entry| entry["annotations"]["org.opencontainers.image.ref.name"] == tag);
    let manifest = read(&blob(entry.context("no such tag")?))?;
    Ok(manifest["layers"].as_array().context("a manifest without layers")?.iter().map(blob).collect())
}

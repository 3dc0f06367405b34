//! The manifests in `deploy/`: Kubernetes knows every key in them, they ask for no more rights than they need, and kustomize takes them.
//!
//! That the capabilities suffice is shown by packets (`packets/cases/confined.rs`).
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use config::kubeproxy::{self, Given, Which};
use dataplane::{Deployment, Mode, registry};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A `kustomization.yaml`, as far as ours go: with the keys of kustomize 4 and later.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Kustomization {
    api_version: String,
    kind: String,
    namespace: String,
    resources: Vec<String>,
    #[serde(default)]
    config_map_generator: Vec<Generator>,
    #[serde(default)]
    patches: Vec<Patch>,
    #[serde(default)]
    images: Vec<Image>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Generator {
    name: String,
    files: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Image {
    name: String,
    new_tag: String,
    #[serde(default)]
    #[expect(dead_code, reason = "a user may name a registry")]
    new_name: Option<String>,
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn overlays() -> Vec<PathBuf> {
    let mut folders: Vec<_> =
        fs::read_dir(deploy().join("overlays")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

/// The mode, and the way of deploying it, that an overlay is for.
fn deployment(overlay: &Path) -> (Mode, &'static Deployment) {
    let mut deployments = all_deployments();
    deployments
        .find(|(_, deployment)| overlay.ends_with(deployment.overlay))
        .unwrap_or_else(|| panic!("{}: no mode is deployed so", overlay.display()))
}

fn all_deployments() -> impl Iterator<Item = (Mode, &'static Deployment)> {
    registry::product_modes().flat_map(|mode| mode.deployments().iter().map(move |one| (mode, one)))
}

/// One image has the packages of all modes, and one has none.
#[test]
fn each_deployment_of_a_mode_has_an_overlay_with_its_capabilities_and_packages() {
    let named: BTreeSet<_> =
        overlays().iter().map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(named, all_deployments().map(|(_, one)| one.overlay.to_owned()).collect());
    for folder in overlays() {
        let Deployment { packages, capabilities, .. } = deployment(&folder).1;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let tag = if packages.is_empty() { format!("{version}-{}", without_packages()) } else { version };
        let tags: Vec<_> = kustomization(&folder).images.into_iter().map(|image| image.new_tag).collect();
        assert_eq!(tags, [tag], "{}", folder.display());
        assert_eq!(added_capabilities(&folder), serde_json::json!(capabilities), "{}", folder.display());
    }
}

/// The image that has none is named after the first mode that needs none, whichever runs in it.
fn without_packages() -> Mode {
    all_deployments().find(|(_, one)| one.packages.is_empty()).unwrap().0
}

/// What the patch of an overlay adds, or else the base.
fn added_capabilities(overlay: &Path) -> Value {
    let patch = overlay.join("daemonset.yaml");
    let file = if patch.exists() { patch } else { deploy().join("base/daemonset.yaml") };
    let object = objects(&fs::read_to_string(file).unwrap()).remove(0);
    object["spec"]["template"]["spec"]["containers"][0]["securityContext"]["capabilities"]["add"].clone()
}

fn folders() -> Vec<PathBuf> {
    [vec![deploy().join("base")], overlays()].concat()
}

fn kustomization(folder: &Path) -> Kustomization {
    let file = folder.join("kustomization.yaml");
    let read = serde_saphyr::from_str(&fs::read_to_string(&file).unwrap());
    read.unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn objects(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    documents.filter(|document| !document.is_null()).collect()
}

/// All objects that stand in files, with the file's name.
fn written() -> Vec<(String, Value)> {
    let files = folders().into_iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let manifests = files.filter(|file| {
        file.extension().is_some_and(|extension| extension == "yaml") && !file.ends_with("kustomization.yaml")
    });
    let found = manifests.flat_map(|file| {
        let name = file.display().to_string();
        objects(&fs::read_to_string(file).unwrap()).into_iter().map(move |object| (name.clone(), object))
    });
    found.collect()
}

/// Keys that are lost when an object is read as its type: Kubernetes does not know them, or not there.
fn unknown_keys(object: &Value) -> Vec<String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let known = match kind {
        "DaemonSet" => through::<DaemonSet>(object),
        "ServiceAccount" => through::<ServiceAccount>(object),
        "ClusterRoleBinding" => through::<ClusterRoleBinding>(object),
        "ConfigMap" => through::<ConfigMap>(object),
        _ => panic!("`{kind}` is no kind that our manifests should have"),
    };
    let mut lost = Vec::new();
    missing(object, &known, kind, &mut lost);
    lost
}

fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let typed: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    serde_json::to_value(typed).unwrap()
}

fn missing(before: &Value, after: &Value, at: &str, lost: &mut Vec<String>) {
    match before {
        Value::Object(all) => {
            for (key, value) in all {
                let at = format!("{at}.{key}");
                match after.get(key) {
                    Some(found) => missing(value, found, &at, lost),
                    None => lost.push(at),
                }
            }
        }
        Value::Array(all) => {
            for (number, value) in all.iter().enumerate() {
                missing(value, &after[number], &format!("{at}[{number}]"), lost);
            }
        }
        _ if before != after => lost.push(format!("{at}: {before} became {after}")),
        _ => {}
    }
}

#[test]
fn kubernetes_knows_every_key_of_every_manifest() {
    let all = written();
    assert!(all.len() >= 5, "{} objects", all.len());
    for (file, object) in all {
        assert_eq!(unknown_keys(&object), Vec::<String>::new(), "{file}");
    }
}

#[test]
fn a_key_that_kubernetes_does_not_know_would_be_found() {
    let text = fs::read_to_string(deploy().join("base/daemonset.yaml")).unwrap();
    let misspelt = text.replacen("readOnlyRootFilesystem", "readonlyRootFilesystem", 1);
    let lost = unknown_keys(&objects(&misspelt)[0]);
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].ends_with("securityContext.readonlyRootFilesystem"), "{lost:?}");
}

#[test]
fn kustomizations_have_known_keys_and_name_files_that_are_there() {
    for folder in folders() {
        let Kustomization { api_version, kind, namespace, resources, config_map_generator, patches, images } =
            kustomization(&folder);
        assert_eq!(
            (api_version.as_str(), kind.as_str()),
            ("kustomize.config.k8s.io/v1beta1", "Kustomization")
        );
        assert_eq!(namespace, "kube-system");
        let files = config_map_generator.iter().flat_map(|generator| &generator.files);
        for file in resources.iter().chain(files).chain(patches.iter().map(|patch| &patch.path)) {
            assert!(folder.join(file).exists(), "{}: no {file}", folder.display());
        }
        assert!(config_map_generator.iter().all(|generator| generator.name == "portway"));
        let version = env!("CARGO_PKG_VERSION");
        for image in images {
            assert_eq!(image.name, "portway");
            assert!(image.new_tag.starts_with(version), "{}: {}", folder.display(), image.new_tag);
        }
    }
}

#[test]
fn the_account_has_the_role_of_upstreams_and_nothing_else() {
    let all = written();
    let kinds = |kind: &str| all.iter().filter(|(_, object)| object["kind"] == kind).count();
    assert_eq!((kinds("ClusterRoleBinding"), kinds("ServiceAccount")), (1, 1));
    let is_other = |kind: &str| kind.contains("Role") && kind != "ClusterRoleBinding";
    assert!(
        !all.iter().any(|(_, object)| object["kind"].as_str().is_some_and(is_other)),
        "no role of our own"
    );
    let (_, binding) = all.iter().find(|(_, object)| object["kind"] == "ClusterRoleBinding").unwrap();
    assert_eq!(binding["roleRef"]["name"], "system:node-proxier");
    assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
}

/// The main container's /proc/sys is read-only, so nobody else can.
#[test]
fn the_init_container_has_the_node_forward_packets() {
    let all = written();
    let (_, set) = all.iter().find(|(_, object)| object["kind"] == "DaemonSet").unwrap();
    let init = &set["spec"]["template"]["spec"]["initContainers"][0];
    let arguments: Vec<&str> =
        init["args"].as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
    assert!(arguments.contains(&"--init-only") && arguments.contains(&"--set-ip-forward"), "{arguments:?}");
    assert_eq!(init["securityContext"]["privileged"], true);
    let words: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    let given = Given::parse(&words).unwrap();
    assert!(given.is_on("set-ip-forward") && given.warnings.is_empty(), "{:?}", given.warnings);
}

/// As upstream's strict reading has it: no field is unknown, none is without an effect, and all values are right.
#[test]
fn the_settings_of_every_overlay_are_understood_whole() {
    for folder in overlays() {
        let file = folder.join("config.conf");
        let loaded = kubeproxy::load(
            &Given::default(),
            Some(&file),
            Which { usual: dataplane::iptables::MODE, forced: None },
        )
        .unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        assert_eq!(loaded.warnings, Vec::<String>::new(), "{}", file.display());
        assert_eq!(loaded.document.mode(dataplane::iptables::MODE).unwrap(), deployment(&folder).0);
    }
}

#[test]
fn the_unit_runs_portway_with_options_that_it_has() {
    let unit = fs::read_to_string(deploy().join("systemd/portway.service")).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/portway ")).unwrap();
    let folder = std::env::temp_dir().join(format!("portway-deploy-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let words =
        start.split(' ').map(|word| word.replace("/etc/portway/services", &folder.display().to_string()));
    // It is told to go on only so far that it understands its words.
    let words: Vec<String> = words.chain(["--help".to_owned()]).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_portway")).args(&words).output().unwrap();
    fs::remove_dir(folder).unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(words[..2], ["run", "--from"]);
    assert!(
        unit.lines().any(|line| line == "StateDirectoryMode=0700"),
        "else the first start warns of its own folder"
    );
}

/// The probe and the reload are command lines of this program.
#[test]
fn the_unit_reloads_by_sighup_and_the_readiness_probe_has_options_that_exist() {
    let unit = fs::read_to_string(deploy().join("systemd/portway.service")).unwrap();
    assert!(unit.lines().any(|line| line == "ExecReload=/bin/kill -HUP $MAINPID"), "{unit}");
    let text = fs::read_to_string(deploy().join("base/daemonset.yaml")).unwrap();
    let probe = &objects(&text)[0]["spec"]["template"]["spec"]["containers"][0]["readinessProbe"];
    let words: Vec<&str> =
        probe["exec"]["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words[0], "/usr/bin/portway", "where every image has it");
    let output = Command::new(env!("CARGO_BIN_EXE_portway"))
        .args(&words[1..])
        .args(["--run-dir", "/nonexistent/portway"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "not ready, and no malformed command line: {said}");
    assert!(said.contains("not ready: no portway answers at /nonexistent/portway/portway.sock"), "{said}");
}

/// After kustomize has put base and overlay together.
#[test]
fn kustomize_builds_every_overlay_and_its_container_is_held() {
    if let Err(why) = has_kustomize() {
        eprintln!("skipped: {why}");
        return;
    }
    for folder in overlays() {
        let built = kustomize(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
        let all = objects(&built);
        assert_eq!(all.len(), 4, "{}: account, binding, settings, DaemonSet", folder.display());
        for object in &all {
            assert_eq!(unknown_keys(object), Vec::<String>::new(), "{}", folder.display());
        }
        let daemon_set = all.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
        let update = &daemon_set["spec"]["updateStrategy"]["rollingUpdate"];
        assert_eq!((&update["maxSurge"], &update["maxUnavailable"]), (&1.into(), &0.into()));
        assert_eq!(
            daemon_set["spec"]["minReadySeconds"], 10,
            "an image that crashes later stops an update too"
        );
        let pod = &daemon_set["spec"]["template"]["spec"];
        let probe = &pod["containers"][0]["readinessProbe"]["exec"]["command"];
        assert_eq!(
            *probe,
            serde_json::json!(["/usr/bin/portway", "status", "--ready"]),
            "{}",
            folder.display()
        );
        assert!(pod["hostPID"].is_null(), "the probe tells processes apart by their PID namespace");
        assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
        let words = pod["containers"][0]["args"].as_array().unwrap();
        assert!(
            words.iter().any(|word| word == "--take-over"),
            "a second one beside the first must take over"
        );
        let held = &pod["containers"][0]["securityContext"];
        assert_eq!(held["privileged"], false);
        assert_eq!(held["allowPrivilegeEscalation"], false);
        assert_eq!(held["readOnlyRootFilesystem"], true);
        assert_eq!(held["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(held["capabilities"]["drop"], serde_json::json!(["ALL"]));
        let wanted = deployment(&folder).1.capabilities;
        assert_eq!(held["capabilities"]["add"], serde_json::json!(wanted), "{}", folder.display());
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        let has_lock = mounts.iter().any(|mount| mount["mountPath"] == "/run/xtables.lock");
        assert!(has_lock, "{}: upstream's rules are removed with it, whatever ours are", folder.display());
    }
}

/// Whether `kubectl` is there, and no older than the keys that we use.
fn has_kustomize() -> Result<(), String> {
    const FIRST: u32 = 21;
    let output = Command::new("kubectl").args(["version", "--client", "--output", "json"]).output();
    let output = output
        .map_err(|error| format!("`kubectl` cannot be started ({error}): install kubernetes-client"))?;
    let version: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("`kubectl version`: {error}"))?;
    let version = version["clientVersion"]["gitVersion"].as_str().unwrap_or_default();
    let minor =
        version.trim_start_matches("v1.").split('.').next().and_then(|minor| minor.parse::<u32>().ok());
    match minor {
        Some(minor) if minor >= FIRST => Ok(()),
        _ => Err(format!("kubectl {version} knows an older kustomize: 1.{FIRST} or later is needed")),
    }
}

/// What `kubectl kustomize` makes of a folder; the error says why it cannot.
fn kustomize(folder: &Path) -> Result<String, String> {
    let output = Command::new("kubectl").arg("kustomize").arg(folder).output();
    let output = output
        .map_err(|error| format!("`kubectl` cannot be started ({error}): install kubernetes-client"))?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(|error| error.to_string());
    }
    Err(format!("`kubectl kustomize` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

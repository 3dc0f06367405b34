//! Manifests, read and followed: what is in force, what is reported, and what each refusal costs.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it counted"
)]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use standalone::manifests::{Source, SourceError};
use standalone::objects::{Change, Problem};

/// A folder that goes when the test does.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("portway-manifests-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    fn source(&self) -> Source {
        Source::open(std::slice::from_ref(&self.0)).unwrap()
    }

    /// Changes and problems in words, with file names relative to the folder.
    fn look(&self, source: &mut Source) -> (Vec<String>, Vec<String>) {
        let (changes, problems) = source.changes();
        let changes = changes.iter().map(|change| self.relative(&described(change))).collect();
        (changes, problems.iter().map(|problem| self.relative(&problem.to_string())).collect())
    }

    fn relative(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.display()), "")
    }

    /// What a fresh source says of the folder.
    fn read(&self) -> (Vec<String>, Vec<String>) {
        self.look(&mut self.source())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn described(change: &Change) -> String {
    match change {
        Change::Apply(object) => format!("{} at {}", object.key, object.origin.as_ref().unwrap()),
        Change::Delete(key) => format!("{key} deleted"),
    }
}

fn service(name: &str) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n")
}

/// Checks that the folder gives these objects, and a problem for each of `problems`, which holds all of its words.
#[track_caller]
fn check(folder: &Folder, objects: &[&str], problems: &[&[&str]]) {
    let (changes, said) = folder.read();
    assert_eq!(changes, objects, "problems: {said:#?}");
    check_problems(&said, problems);
}

#[track_caller]
fn check_problems(said: &[String], expected: &[&[&str]]) {
    assert_eq!(said.len(), expected.len(), "problems: {said:#?}");
    for (problem, words) in said.iter().zip(expected) {
        for word in *words {
            assert!(problem.contains(word), "`{word}` is missing in `{problem}`");
        }
    }
}

// What is read.

#[test]
fn all_kinds_are_read_from_yaml_and_json_in_the_order_of_keys() {
    let folder = Folder::new();
    folder.write(
        "a.yaml",
        "# ours\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\n---\n---\n",
    );
    folder.write(
        "b/c.json",
        r#"{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"e"}}
           {"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"c"}}"#,
    );
    folder.write("d.yml", service("web"));
    folder.write("e.txt", "not: [a manifest");
    let expected = [
        "Service default/web at d.yml:1",
        "EndpointSlice default/e at b/c.json:1",
        "Pod x/p at a.yaml:7",
        "Node n at a.yaml:3",
        "ServiceCIDR c at b/c.json:2",
    ];
    check(&folder, &expected, &[]);
}

#[test]
fn what_is_not_ours_is_passed_over_in_silence() {
    let folder = Folder::new();
    folder.write("a.yaml", "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: k}\n");
    folder.write("b.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n---\napiVersion: v1\nkind: ConfigMapList\n");
    folder.write(
        "c.yaml",
        "apiVersion: serving.knative.dev/v1\nkind: ServiceList\nitems: [{metadata: {name: k}}]\n",
    );
    check(&folder, &[], &[]);
}

#[test]
fn lists_are_unpacked_and_typed_lists_name_their_items() {
    let folder = Folder::new();
    folder.write(
        "a.yaml",
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n- apiVersion: v1\n  kind: ServiceList\n  items: [{metadata: {name: b}}]\n",
    );
    folder.write("b.json", r#"{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"p"}}]}"#);
    folder.write(
        "c.yaml",
        "apiVersion: v1\nkind: List\nitems: null\n---\napiVersion: v1\nkind: List\nitems: 5\n",
    );
    check(
        &folder,
        &["Service default/a at a.yaml:1", "Service default/b at a.yaml:1", "Pod default/p at b.json:1"],
        &[&["c.yaml:5: ", "`items` `5` is no list"]],
    );
    let mut source = folder.source();
    let (changes, _) = source.changes();
    let Change::Apply(pod) = &changes[2] else { panic!("{changes:?}") };
    assert_eq!((&pod.value["kind"], &pod.value["apiVersion"]), (&"Pod".into(), &"v1".into()));
}

#[test]
fn lists_inside_of_lists_have_an_end() {
    let folder = Folder::new();
    let open = r#"{"apiVersion":"v1","kind":"List","items":["#.repeat(12);
    folder.write("a.json", format!("{open}{}", "]}".repeat(12)));
    check(&folder, &[], &[&["a.json:1: ", "more than 8 lists"]]);
}

#[test]
fn copies_that_tools_keep_are_dropped() {
    let folder = Folder::new();
    folder.write(
        "a.yaml",
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  managedFields: [{manager: kubectl}]\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: '{}'\n    mysql-service: \"true\"\n    country: no\n    number: '5'\n",
    );
    let (changes, _) = folder.source().changes();
    let Change::Apply(object) = &changes[0] else { panic!("{changes:?}") };
    let expected = serde_json::json!({"name": "a", "annotations": {"mysql-service": "true", "country": "no", "number": "5"}});
    assert_eq!(object.value["metadata"], expected);
}

#[test]
fn a_named_file_is_read_whatever_it_is_called_and_only_once() {
    let folder = Folder::new();
    let file = folder.write(".hidden", service("a"));
    let mut source = Source::open(&[file.clone(), file]).unwrap();
    assert_eq!(folder.look(&mut source), (vec!["Service default/a at .hidden:1".into()], vec![]));
}

#[test]
fn overlapping_paths_are_no_problem() {
    let folder = Folder::new();
    let file = folder.write("sub/a.yaml", service("a"));
    let mut source = Source::open(&[folder.0.clone(), folder.path("sub"), file]).unwrap();
    assert_eq!(folder.look(&mut source), (vec!["Service default/a at sub/a.yaml:1".into()], vec![]));
}

#[test]
fn a_path_that_does_not_exist_is_an_error_with_a_way_out() {
    let error = Source::open(&[PathBuf::from("/nowhere/at/all")]).unwrap_err();
    assert!(matches!(error, SourceError::Missing { .. }));
    assert_eq!(
        error.to_string(),
        "`/nowhere/at/all` does not exist: give `--from` a file or a folder of manifests"
    );
}

#[test]
fn anchors_and_merge_keys_work() {
    let folder = Folder::new();
    folder.write("a.yaml", "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  labels: &l {x: y}\nspec: {selector: {<<: *l}}\n");
    let (changes, problems) = folder.source().changes();
    let Change::Apply(object) = &changes[0] else { panic!("{problems:?}") };
    assert_eq!(object.value["spec"]["selector"], serde_json::json!({"x": "y"}));
}

// What is wrong.

#[test]
fn a_file_that_does_not_parse_is_named_with_its_line_and_the_others_go_on() {
    let folder = Folder::new();
    folder.write(
        "a.yaml",
        format!("{}---\n{}  port: 80 // cluster ip port\n bad\n", service("a"), service("b")),
    );
    folder.write("b.yaml", service("good"));
    folder.write("c.json", "{\"apiVersion\": \"v1\"}\n{\"kind\": nonsense}");
    check(
        &folder,
        &["Service default/good at b.yaml:1"],
        &[&["a.yaml:8: ", "nothing of it is in force"], &["c.json:2: ", "is not JSON: expected"]],
    );
}

#[test]
fn objects_that_cannot_be_used_are_out_alone() {
    let folder = Folder::new();
    folder.write(
        "a.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: 'no good'}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: good}\n---\nmetadata: {name: x}\n---\nkind: Service\nmetadata: {name: y}\n---\napiVersion: v1\nkind: Servise\n---\n- 1\n---\napiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\n",
    );
    check(
        &folder,
        &["Service default/good at a.yaml:5"],
        &[
            &["a.yaml:1: ", "metadata.name `no good`"],
            &["a.yaml:9: ", "no `kind`"],
            &["a.yaml:11: ", "write `apiVersion: v1`"],
            &["a.yaml:14: ", "unknown kind `Servise`"],
            &["a.yaml:17: ", "`[1]` is no object"],
            &["a.yaml:19: ", "`discovery.k8s.io/v1beta1` is not read; write `discovery.k8s.io/v1`"],
        ],
    );
}

#[test]
fn endpoints_are_refused_with_what_to_write_instead() {
    let folder = Folder::new();
    folder.write("a.yaml", "apiVersion: v1\nkind: Endpoints\nmetadata: {name: web}\n");
    check(
        &folder,
        &[],
        &[&["a.yaml:1: kind `Endpoints` is not read", "`EndpointSlice`", "discovery.k8s.io/v1"]],
    );
}

#[test]
fn what_was_never_read_is_not_said_to_stay_in_force() {
    let folder = Folder::new();
    let deep = "d/".repeat(34);
    folder.write(&format!("{deep}a.yaml"), service("a"));
    check(&folder, &[], &[&["lies more than 32 folders deep", "nothing of it is in force"]]);
}

#[test]
fn a_source_says_when_every_path_was_refused() {
    let folder = Folder::new();
    let broken = folder.write("broken.yaml", "kind: [");
    fifo(&folder.path("fifo"));
    let good = folder.write("good.yaml", service("a"));
    let refusal = |paths: &[&PathBuf]| {
        let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).clone()).collect();
        let mut source = Source::open(&paths).unwrap();
        let (_, problems) = source.changes();
        source.refusal(&problems)
    };
    let sentence = refusal(&[&broken, &folder.path("fifo")]).unwrap();
    assert!(sentence.contains("is not YAML") && sentence.contains("is a FIFO"), "{sentence}");
    assert_eq!(refusal(&[&broken, &good]), None);
    assert_eq!(refusal(&[&folder.0]), None, "a folder can be read, whatever is in it");
}

#[test]
fn a_million_wrong_documents_are_a_hundred_problems() {
    let folder = Folder::new();
    folder.write("a.yaml", "---\na: 1\n".repeat(20_000));
    let (_, problems) = folder.read();
    assert_eq!(problems.len(), 101);
    assert_eq!(problems[0], "a.yaml: 19900 more problems in this file");
}

#[test]
fn a_key_that_stands_twice_is_a_problem_in_both_languages() {
    let folder = Folder::new();
    folder.write("a.yaml", "apiVersion: v1\nkind: Service\nkind: Pod\n");
    folder.write("b.json", "{\"kind\": 1,\n\"kind\": 2}");
    check(&folder, &[], &[&["a.yaml:3: ", "kind"], &["b.json:2: ", "`kind` stands twice"]]);
}

// The same object in two places.

#[test]
fn the_first_of_two_places_counts_and_the_other_takes_over_when_it_goes() {
    let folder = Folder::new();
    folder.write("b.yaml", format!("{}---\n{}", service("x"), service("x")));
    let mut source = folder.source();
    let (changes, problems) = folder.look(&mut source);
    assert_eq!(changes, ["Service default/x at b.yaml:1"]);
    check_problems(&problems, &[&["b.yaml:5: Service default/x stands in `", "b.yaml:1` already"]]);

    folder.write("a.yaml", service("x"));
    let (changes, problems) = folder.look(&mut source);
    assert_eq!(changes, ["Service default/x at a.yaml:1"]);
    check_problems(&problems, &[&["b.yaml:1: "], &["b.yaml:5: "]]);

    folder.remove("a.yaml");
    assert_eq!(folder.look(&mut source).0, ["Service default/x at b.yaml:1"]);
    folder.remove("b.yaml");
    assert_eq!(folder.look(&mut source), (vec!["Service default/x deleted".into()], vec![]));
}

#[test]
fn an_object_that_moves_to_another_file_is_one_change() {
    let folder = Folder::new();
    folder.write("a.yaml", service("x"));
    let mut source = folder.source();
    folder.look(&mut source);
    fs::rename(folder.path("a.yaml"), folder.path("z.yaml")).unwrap();
    assert_eq!(folder.look(&mut source), (vec!["Service default/x at z.yaml:1".into()], vec![]));
}

// What changes.

#[test]
fn only_what_changed_is_told() {
    let folder = Folder::new();
    folder.write("a.yaml", format!("{}---\n{}", service("x"), service("y")));
    let mut source = folder.source();
    assert_eq!(folder.look(&mut source).0.len(), 2);
    assert_eq!(folder.look(&mut source).0.len(), 0);
    folder.write(
        "a.yaml",
        format!("# a comment\n{}---\n{}  \nspec: {{ports: [{{port: 80}}]}}\n", service("x"), service("y")),
    );
    assert_eq!(folder.look(&mut source).0, ["Service default/y at a.yaml:6"]);
}

#[test]
fn a_partial_write_keeps_the_last_good_content() {
    let folder = Folder::new();
    folder.write("a.yaml", service("x"));
    let mut source = folder.source();
    folder.look(&mut source);
    folder.write("a.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name:");
    let (changes, problems) = folder.look(&mut source);
    assert_eq!(changes.len(), 0);
    check_problems(&problems, &[&["a.yaml:3: ", "its last good content stays in force"]]);
    folder.write("a.yaml", service("y"));
    let expected = ["Service default/x deleted", "Service default/y at a.yaml:1"];
    assert_eq!(folder.look(&mut source), (expected.map(String::from).to_vec(), vec![]));
}

#[test]
fn a_file_that_becomes_a_fifo_or_a_dangling_link_keeps_its_last_good_content() {
    let folder = Folder::new();
    folder.write("a.yaml", service("x"));
    let mut source = folder.source();
    folder.look(&mut source);
    folder.remove("a.yaml");
    fifo(&folder.path("a.yaml"));
    let (changes, problems) = folder.look(&mut source);
    assert_eq!(changes.len(), 0);
    check_problems(&problems, &[&["a.yaml: is a FIFO", "its last good content stays in force"]]);
    folder.remove("a.yaml");
    symlink("nowhere", folder.path("a.yaml")).unwrap();
    let (changes, problems) = folder.look(&mut source);
    assert_eq!(changes.len(), 0);
    check_problems(&problems, &[&["a.yaml: is a link to `nowhere`", "its last good content stays in force"]]);
    folder.remove("a.yaml");
    assert_eq!(folder.look(&mut source).0, ["Service default/x deleted"]);
}

#[test]
fn a_folder_below_and_a_named_file_that_are_deleted_delete_their_objects() {
    let folder = Folder::new();
    folder.write("conf/sub/a.yaml", service("x"));
    let file = folder.write("b.yaml", service("y"));
    let mut source = Source::open(&[folder.path("conf"), file]).unwrap();
    assert_eq!(folder.look(&mut source).0.len(), 2);
    fs::remove_dir_all(folder.path("conf/sub")).unwrap();
    assert_eq!(folder.look(&mut source), (vec!["Service default/x deleted".to_owned()], vec![]));
    folder.remove("b.yaml");
    let (changes, problems) = folder.look(&mut source);
    assert_eq!(changes, ["Service default/y deleted"]);
    check_problems(&problems, &[&["b.yaml: does not exist any more; nothing of it is in force"]]);
}

// Wrong values.

fn web(ports: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec: {{clusterIP: 10.96.0.10, ports: [{ports}]}}\n"
    )
}

#[test]
fn a_quoted_port_does_not_take_the_service_away() {
    let folder = Folder::new();
    let good = web("{name: a, port: 80}, {name: b, port: 81}");
    folder.write("a.yaml", &good);
    let mut source = folder.source();
    assert_eq!(folder.look(&mut source).1, [""; 0]);
    folder.write("a.yaml", format!("# by hand\n{}", web("{name: a, port: \"80\"}")));
    let (changes, problems) = folder.look(&mut source);
    assert_eq!(changes, [""; 0], "the last good version stays");
    check_problems(
        &problems,
        &[&[
            "a.yaml:2: Service default/web: spec.ports[0].port `\"80\"`: is a quoted number: write 80",
            "; its last good version stays in force",
        ]],
    );
    assert!(source.is_complete() && source.doubts().objects.is_empty());
    folder.write("a.yaml", web("{name: b, port: 81}"));
    let (changes, problems) = folder.look(&mut source);
    assert_eq!((changes.len(), problems.len()), (1, 0), "a port that is removed is meant: {problems:?}");
}

#[test]
fn a_misspelt_field_does_not_take_the_endpoints_away() {
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: w, labels: {kubernetes.io/service-name: w}}\n\
                 addressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: [10.244.0.2]}]\n";
    let folder = Folder::new();
    folder.write("a.yaml", slice);
    let mut source = folder.source();
    folder.look(&mut source);
    for (right, wrong) in [("endpoints:", "endpoint:"), ("ports:", "port:")] {
        folder.write("a.yaml", slice.replace(&format!("\n{right}"), &format!("\n{wrong}")));
        let (changes, problems) = folder.look(&mut source);
        assert_eq!(changes, [""; 0]);
        check_problems(
            &problems,
            &[&["is no field: write `", right.trim_end_matches(':'), "its last good version stays"]],
        );
    }
}

#[test]
fn a_misspelt_kind_or_name_does_not_take_the_service_away() {
    let folder = Folder::new();
    let both = format!("{}---\n{}", service("x"), service("y"));
    folder.write("a.yaml", &both);
    let mut source = folder.source();
    folder.look(&mut source);
    for wrong in [both.replacen("Service", "Servce", 1), both.replace("name: x", "name: x y")] {
        folder.write("a.yaml", wrong);
        let (changes, problems) = folder.look(&mut source);
        assert_eq!(changes, [""; 0]);
        check_problems(
            &problems,
            &[&["a.yaml: Service default/x stood here before and stays in force"], &["a.yaml:1: "]],
        );
    }
    folder.write("a.yaml", service("y"));
    assert_eq!(folder.look(&mut source), (vec!["Service default/x deleted".to_owned()], vec![]));
}

#[test]
fn an_object_that_was_wrong_from_the_start_is_in_doubt_until_it_is_right() {
    let folder = Folder::new();
    folder.write("a.yaml", web("{port: \"80\"}"));
    let mut source = folder.source();
    assert_eq!(folder.look(&mut source).0, ["Service default/web at a.yaml:1"], "its good part is in force");
    let doubtful = |source: &Source| -> Vec<String> {
        source.doubts().objects.iter().map(ToString::to_string).collect()
    };
    assert_eq!(doubtful(&source), ["Service default/web"]);
    for unhelpful in [format!("# a comment\n{}", web("{port: \"80\"}")), "metadata: {name:".to_owned()] {
        folder.write("a.yaml", unhelpful);
        folder.look(&mut source);
        assert_eq!(doubtful(&source), ["Service default/web"], "nothing better is known of it");
    }
    folder.write("a.yaml", web("{port: 80}"));
    folder.look(&mut source);
    assert_eq!(doubtful(&source), [""; 0]);
}

#[test]
fn a_document_that_was_misspelt_from_the_start_is_in_doubt_until_it_is_right() {
    let slice =
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: x}\naddressType: IPv4\n";
    for wrong in [
        service("x").replace("Service", "Servce"),
        service("x").replace("kind: Service", "knd: Service"),
        service("x").replace("v1", "vl"),
        service("x").replace("v1", "core/v1"),
        service("x").replace("name:", "nme:"),
        slice.replace("EndpointSlice", "EndpointSlices"),
        slice.replace("discovery", "discover"),
    ] {
        let folder = Folder::new();
        folder.write("a.yaml", format!("{}---\n{wrong}", service("y")));
        let mut source = folder.source();
        folder.look(&mut source);
        let doubtful = |source: &Source| -> Vec<(usize, String)> {
            let documents = source.doubts().documents;
            documents.iter().map(|one| (one.origin.line, one.namespace.to_string())).collect()
        };
        let line = service("y").lines().count() + 2;
        assert_eq!(doubtful(&source), [(line, "default".to_owned())], "{wrong}");
        folder.write("a.yaml", "metadata: {name:");
        folder.look(&mut source);
        assert_eq!(doubtful(&source).len(), 1, "nothing better is known of it");
        folder.write("a.yaml", format!("{}---\n{}", service("y"), service("x")));
        folder.look(&mut source);
        assert_eq!(doubtful(&source), [], "{wrong}");
    }
    // Kinds of other projects, and kinds that are not read, are no typing errors.
    let folder = Folder::new();
    folder.write("a.yaml", service("x").replace("v1", "serving.knative.dev/v1"));
    folder.write("b.yaml", service("x").replace("Service", "Endpoints"));
    folder.write("c.yaml", service("x").replace("Service", "Deployment").replace("v1", "apps/v1"));
    let mut source = folder.source();
    folder.look(&mut source);
    assert!(source.doubts().documents.is_empty(), "{:?}", source.doubts());
}

// Sources that vanish.

#[test]
fn a_folder_that_is_put_back_file_by_file_takes_no_service_away() {
    let folder = Folder::new();
    for name in ["a", "b", "c"] {
        folder.write(&format!("conf/{name}.yaml"), service(name));
    }
    let mut source = followed(&folder, &[folder.path("conf")]);
    source.limit_writers(Duration::from_millis(300), Duration::from_secs(30));
    fs::rename(folder.path("conf"), folder.path("away")).unwrap();
    fs::create_dir(folder.path("conf")).unwrap();
    let is_told = |problems: &[String], words: &str| problems.iter().any(|problem| problem.contains(words));
    // A file without any object says nothing about the others.
    folder.write("conf/empty.yaml", "");
    follow_until(&folder, &mut source, |seen, problems| {
        seen.is_empty() && is_told(problems, "conf: has no objects and is another folder than before")
    });
    folder.write("conf/a.yaml", service("a"));
    follow_until(&folder, &mut source, |seen, problems| {
        seen.is_empty() && is_told(problems, "conf: is another folder than before, and lacks files")
    });
    folder.write("conf/b.yaml", service("b"));
    // It was left alone for a while: now it is complete, and what it lacks is meant.
    follow_until(&folder, &mut source, |seen, problems| {
        seen.last().is_some_and(|last| last == "Service default/c deleted") && problems.is_empty()
    });
    folder.remove("conf/a.yaml");
    sees(&folder, &mut source, "Service default/a deleted");
}

#[test]
fn a_slow_write_in_a_folder_that_was_put_back_takes_no_service_away() {
    let folder = Folder::new();
    for name in ["a", "b"] {
        folder.write(&format!("conf/{name}.yaml"), service(name));
    }
    let mut source = followed(&folder, &[folder.path("conf")]);
    source.limit_writers(Duration::from_millis(300), Duration::from_secs(30));
    fs::rename(folder.path("conf"), folder.path("away")).unwrap();
    fs::create_dir(folder.path("conf")).unwrap();
    // One that is created, and written a moment later, as `cp` does.
    let mut copy = File::create(folder.path("conf/a.yaml")).unwrap();
    follow_until(&folder, &mut source, |seen, problems| seen.is_empty() && !problems.is_empty());
    copy.write_all(service("a").as_bytes()).unwrap();
    drop(copy);
    folder.write("conf/b.yaml", service("b"));
    follow_until(&folder, &mut source, |seen, problems| seen.is_empty() && problems.is_empty());
    source.limit_writers(Duration::from_secs(3), Duration::from_secs(30));
    // And one that is written in place later on.
    let mut writer = File::create(folder.path("conf/a.yaml")).unwrap();
    folder.write("conf/c.yaml", service("c"));
    follow_until(&folder, &mut source, |seen, _| seen == ["Service default/c at conf/c.yaml:1"]);
    writer.write_all(service("d").as_bytes()).unwrap();
    drop(writer);
    sees(&folder, &mut source, "Service default/d at conf/a.yaml:1");
}

#[test]
fn an_empty_path_at_the_start_is_in_doubt_until_it_was_left_alone_for_a_while() {
    let folder = Folder::new();
    let mut source = followed(&folder, std::slice::from_ref(&folder.0));
    source.limit_writers(Duration::from_millis(400), Duration::from_secs(30));
    assert_eq!(source.doubts().empty, std::slice::from_ref(&folder.0));
    folder.write("a.yaml", service("a"));
    sees(&folder, &mut source, "Service default/a at a.yaml:1");
    assert!(!source.doubts().empty.is_empty(), "others may follow");
    folder.write("b.yaml", service("b"));
    sees(&folder, &mut source, "Service default/b at b.yaml:1");
    assert!(!source.doubts().empty.is_empty(), "others may follow");
    let limit = Instant::now() + Duration::from_secs(5);
    while !source.doubts().empty.is_empty() && Instant::now() < limit {
        source.wait(Duration::from_secs(2)).unwrap();
        folder.look(&mut source);
    }
    assert_eq!(source.doubts().empty, [""; 0].map(PathBuf::from));
}

#[test]
fn a_file_that_is_empty_at_the_start_is_in_doubt_until_it_has_content() {
    let folder = Folder::new();
    folder.write("a.yaml", service("a"));
    folder.write("b.yaml", "\n");
    let mut source = folder.source();
    folder.look(&mut source);
    let documents: Vec<_> = source.doubts().documents.into_iter().collect();
    assert_eq!((documents.len(), &*documents[0].origin.file), (1, folder.path("b.yaml").as_path()));
    folder.write("b.yaml", service("b"));
    folder.look(&mut source);
    assert!(source.doubts().documents.is_empty(), "{:?}", source.doubts());
    // One that is emptied later on, and closed, is meant.
    folder.write("b.yaml", "");
    assert_eq!(folder.look(&mut source).0, ["Service default/b deleted"]);
}

#[test]
fn a_link_that_is_swapped_counts_at_once_also_for_what_it_lacks() {
    let folder = Folder::new();
    folder.write("one/a.yaml", service("a"));
    folder.write("one/b.yaml", service("b"));
    folder.write("two/a.yaml", service("a"));
    symlink("one", folder.path("conf")).unwrap();
    let mut source = followed(&folder, &[folder.path("conf")]);
    symlink("two", folder.path("next")).unwrap();
    fs::rename(folder.path("next"), folder.path("conf")).unwrap();
    let swapped = Instant::now();
    sees(&folder, &mut source, "Service default/b deleted");
    assert!(swapped.elapsed() < Duration::from_secs(3), "a swap is atomic");
}

#[test]
fn a_folder_that_is_moved_away_stays_in_force_until_it_is_back() {
    let folder = Folder::new();
    folder.write("conf/a.yaml", service("x"));
    let mut source = followed(&folder, &[folder.path("conf")]);
    fs::rename(folder.path("conf"), folder.path("away")).unwrap();
    let is_told = |problems: &[String]| {
        let words = ["conf: does not exist any more", "what was read from it before stays in force"];
        problems.iter().any(|problem| words.iter().all(|word| problem.contains(word)))
    };
    follow_until(&folder, &mut source, |seen, problems| seen.is_empty() && is_told(problems));
    assert!(source.is_complete());
    // Somebody makes an empty folder in its place: that is not the one that was deleted file by file.
    fs::create_dir(folder.path("conf")).unwrap();
    follow_until(&folder, &mut source, |seen, problems| {
        seen.is_empty() && problems.iter().any(|problem| problem.contains("moved away or unmounted"))
    });
    fs::remove_dir(folder.path("conf")).unwrap();
    fs::rename(folder.path("away"), folder.path("conf")).unwrap();
    follow_until(&folder, &mut source, |seen, problems| seen.is_empty() && problems.is_empty());
    folder.remove("conf/a.yaml");
    sees(&folder, &mut source, "Service default/x deleted");
}

#[test]
fn files_deleted_one_by_one_or_all_at_once_are_meant() {
    let folder = Folder::new();
    for name in ["a", "b", "c"] {
        folder.write(&format!("{name}.yaml"), service(name));
    }
    let mut source = folder.source();
    folder.look(&mut source);
    folder.remove("a.yaml");
    assert_eq!(folder.look(&mut source).0, ["Service default/a deleted"]);
    folder.remove("b.yaml");
    folder.remove("c.yaml");
    let expected = ["Service default/b deleted", "Service default/c deleted"];
    assert_eq!(folder.look(&mut source), (expected.map(String::from).to_vec(), vec![]));
}

#[test]
fn a_link_to_a_folder_that_dangles_keeps_what_was_read_behind_it() {
    let folder = Folder::new();
    folder.write("release/a.yaml", service("x"));
    fs::create_dir(folder.path("conf")).unwrap();
    symlink("../release", folder.path("conf/current")).unwrap();
    symlink("release", folder.path("root")).unwrap();
    for root in ["conf", "root"] {
        let mut source = Source::open(&[folder.path(root)]).unwrap();
        assert_eq!(folder.look(&mut source).0.len(), 1);
        fs::rename(folder.path("release"), folder.path("away")).unwrap();
        let (changes, problems) = folder.look(&mut source);
        assert_eq!(changes, [""; 0]);
        check_problems(&problems, &[&["is a link to", "does not exist", "stays in force"]]);
        fs::rename(folder.path("away"), folder.path("release")).unwrap();
        assert_eq!(folder.look(&mut source), (vec![], vec![]));
    }
}

#[test]
fn a_path_without_objects_is_in_doubt_unless_that_is_allowed() {
    let folder = Folder::new();
    folder.write("conf/deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n");
    folder.write("more/a.yaml", web("{port: 80}"));
    let paths = [folder.path("conf"), folder.path("more")];
    let mut source = Source::open(&paths).unwrap();
    source.limit_writers(Duration::ZERO, Duration::ZERO);
    source.changes();
    assert_eq!(source.doubts().empty, [folder.path("conf")]);
    folder.write("conf/b.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n");
    source.changes();
    assert!(source.doubts().is_empty());
    folder.remove("conf/b.yaml");
    source.allow_empty();
    source.changes();
    assert!(source.doubts().is_empty());
}

mod needs_root {
    use super::*;

    const INSIDE: &str = "PORTWAY_TEST_MOUNTS";

    /// Mounts are made in a mount namespace of the test's own, which ends with it.
    #[test]
    fn a_folder_that_is_unmounted_stays_in_force_until_it_is_mounted_again() {
        if std::env::var_os(INSIDE).is_none() {
            let name = "needs_root::a_folder_that_is_unmounted_stays_in_force_until_it_is_mounted_again";
            let inside = Command::new("unshare")
                .args(["--mount", "--propagation", "private"])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(INSIDE, "1")
                .output();
            return match inside {
                Err(error) => eprintln!("skipped: unshare cannot be run ({error})"),
                Ok(output) => {
                    let said = String::from_utf8_lossy(&output.stderr);
                    if said.contains("Operation not permitted") {
                        eprintln!("skipped: a mount namespace needs root");
                    } else {
                        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
                    }
                }
            };
        }
        for below in ["", "/team"] {
            let folder = Folder::new();
            let place = folder.path(&format!("conf{below}"));
            fs::create_dir_all(&place).unwrap();
            let mount = || run(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&place));
            mount();
            folder.write(&format!("conf{below}/a.yaml"), service("x"));
            let mut source = followed(&folder, &[folder.path("conf")]);
            run(Command::new("umount").arg(&place));
            follow_until_looked(&folder, &mut source, |seen, problems| {
                seen.is_empty() && problems.iter().any(|problem| problem.contains("moved away or unmounted"))
            });
            // Another file system, which may have the numbers of the one before.
            mount();
            follow_until_looked(&folder, &mut source, |seen, problems| {
                seen.is_empty() && problems.iter().any(|problem| problem.contains("moved away or unmounted"))
            });
            folder.write(&format!("conf{below}/a.yaml"), service("y"));
            follow_until_looked(&folder, &mut source, |seen, problems| {
                seen.iter().any(|change| change.contains("Service default/y")) && problems.is_empty()
            });
            drop(source);
            run(Command::new("umount").arg(&place));
        }
    }

    fn run(command: &mut Command) {
        assert!(command.status().unwrap().success(), "{command:?}");
    }
}

/// Looks again and again, as nothing tells of a mount, until `is_done`; at most ten seconds.
#[track_caller]
fn follow_until_looked(folder: &Folder, source: &mut Source, is_done: impl Fn(&[String], &[String]) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let (mut seen, mut said) = (Vec::new(), Vec::new());
    while Instant::now() < deadline {
        let (changes, problems) = folder.look(source);
        seen.extend(changes);
        if is_done(&seen, &problems) {
            return;
        }
        said = problems;
        source.wait(Duration::from_millis(200)).unwrap();
    }
    panic!("not seen within ten seconds; seen: {seen:#?}, problems: {said:#?}");
}

// Refusals: each by name, within a second and 64 MiB.

/// The memory of a refusal, measured at its highest point. Kept by the kernel for the whole process, so each of these
/// tests needs a process of its own, which nextest gives it; elsewhere the tests before it may hide a rise, not make one.
fn memory_peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The time that this thread has run: other tests and builds on the machine do not count.
fn cpu_time() -> Duration {
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(times.split_whitespace().next().unwrap().parse().unwrap())
}

/// Checks that the file is refused with these words, quickly and cheaply, and that its neighbour is not.
#[track_caller]
fn check_refused(folder: &Folder, words: &[&str]) {
    folder.write("neighbour.yaml", service("good"));
    let (started, memory) = (cpu_time(), memory_peak_kib());
    let (changes, problems) = folder.read();
    let (took, grown) = (cpu_time().saturating_sub(started), memory_peak_kib() - memory);
    assert_eq!(changes, ["Service default/good at neighbour.yaml:1"], "problems: {problems:#?}");
    check_problems(&problems, &[words]);
    eprintln!("refused in {took:?} and {grown} KiB: {}", problems[0]);
    assert!(took < Duration::from_secs(1), "took {took:?}");
    assert!(grown < 64 * 1024, "took {grown} KiB");
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_file_of_1_gib_is_refused() {
    let folder = Folder::new();
    File::create(folder.path("a.yaml")).unwrap().set_len(1 << 30).unwrap();
    check_refused(&folder, &["a.yaml: is longer than the 16 MiB", "1073741824", "split"]);
}

#[test]
fn a_file_of_nul_bytes_is_refused() {
    let folder = Folder::new();
    File::create(folder.path("a.yaml")).unwrap().set_len(16 << 20).unwrap();
    check_refused(&folder, &["a.yaml:1: has a NUL byte", "UTF-8"]);
}

#[test]
fn an_alias_bomb_is_refused() {
    let folder = Folder::new();
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let names = vec![format!("*a{}", level - 1); 9].join(", ");
        writeln!(bomb, "a{level}: &a{level} [{names}]").unwrap();
    }
    folder.write("a.yaml", bomb);
    check_refused(&folder, &["a.yaml:", "aliases", "write out"]);
}

#[test]
fn an_alias_bomb_of_long_texts_is_refused() {
    let folder = Folder::new();
    let bomb = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 10_000].join(", "));
    folder.write("a.yaml", bomb);
    check_refused(&folder, &["a.yaml:", "aliases", "write out"]);
}

#[test]
fn an_alias_bomb_of_merge_keys_is_refused() {
    let folder = Folder::new();
    let keys: Vec<_> = (0..1_000).map(|key| format!("k{key}: 1")).collect();
    let bomb = format!("a: &a {{{}}}\nb:\n{}", keys.join(", "), "- {<<: *a}\n".repeat(5_000));
    folder.write("a.yaml", bomb);
    check_refused(&folder, &["a.yaml:", "aliases", "write out"]);
}

#[test]
fn many_small_alias_bombs_in_one_file_are_refused() {
    let folder = Folder::new();
    let keys: Vec<_> = (0..40).map(|key| format!("k{key}: 1")).collect();
    let merges = vec!["*a"; 500].join(", ");
    let bomb = format!("---\na: &a {{{}}}\nb: {{<<: [{merges}]}}\n", keys.join(", "));
    folder.write("a.yaml", bomb.repeat(5_000));
    check_refused(&folder, &["a.yaml:2: ", "aliases", "write out"]);
}

#[test]
fn deep_nesting_is_refused() {
    let cases = [("flow.yaml", "["), ("map.yaml", "{a: "), ("block.yaml", "- "), ("pairs.yaml", "? ")];
    for (name, open) in cases {
        let folder = Folder::new();
        folder.write(name, open.repeat(100_000));
        check_refused(&folder, &[name, "is nested deeper"]);
    }
    let json = Folder::new();
    json.write("a.json", format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)));
    check_refused(&json, &["a.json:1: ", "is nested deeper"]);
    let unfinished = Folder::new();
    unfinished.write("a.json", "[".repeat(100_000));
    check_refused(&unfinished, &["a.json:1: is not JSON"]);
    let lines = Folder::new();
    let levels: Vec<_> = (0..2_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    lines.write("a.yaml", levels.concat());
    check_refused(&lines, &["a.yaml:65: ", "is nested deeper"]);
}

#[test]
fn a_file_of_millions_of_values_is_refused() {
    let folder = Folder::new();
    folder.write("a.json", format!("[1{}]", ",1".repeat(2_000_000)));
    check_refused(&folder, &["a.json:1: ", "holds more values than a manifest of its length", "remove"]);
}

#[test]
fn a_fifo_is_refused_without_waiting_for_its_writer() {
    let folder = Folder::new();
    fifo(&folder.path("a.yaml"));
    check_refused(&folder, &["a.yaml: is a FIFO", "regular"]);
}

#[test]
fn a_device_is_refused() {
    let folder = Folder::new();
    symlink("/dev/zero", folder.path("a.yaml")).unwrap();
    check_refused(&folder, &["a.yaml: is a device", "regular"]);
}

#[test]
fn a_dangling_link_is_refused() {
    let folder = Folder::new();
    symlink("nowhere", folder.path("a.yaml")).unwrap();
    check_refused(&folder, &["a.yaml: is a link to `nowhere`, which does not exist"]);
}

#[test]
fn a_link_to_itself_is_refused() {
    let folder = Folder::new();
    symlink("a.yaml", folder.path("a.yaml")).unwrap();
    check_refused(&folder, &["a.yaml: cannot be read", "remove the link"]);
}

#[test]
fn a_circle_of_folders_is_refused() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("a/b")).unwrap();
    symlink("../..", folder.path("a/b/up")).unwrap();
    check_refused(&folder, &["a/b/up: is a link to the folder `", "remove the link"]);
}

#[test]
fn invalid_utf8_is_refused() {
    let folder = Folder::new();
    folder.write("a.yaml", b"a: 1\nb: \xff\n");
    check_refused(&folder, &["a.yaml:2: is not UTF-8", "save it as UTF-8"]);
}

#[test]
fn a_file_that_fails_while_it_is_read_is_refused() {
    let folder = Folder::new();
    // A regular file of no length, which root too cannot read at its start.
    symlink("/proc/self/mem", folder.path("a.yaml")).unwrap();
    check_refused(&folder, &["a.yaml: cannot be read ("]);
}

#[test]
fn files_that_are_too_much_together_are_refused_from_the_last_one_on() {
    let folder = Folder::new();
    let first = folder.write("00.yaml", format!("#{}", "-".repeat((16 << 20) - 1)));
    for number in 1..17 {
        fs::hard_link(&first, folder.path(&format!("{number:02}.yaml"))).unwrap();
    }
    let (_, problems) = folder.read();
    check_problems(&problems, &[&["16.yaml: is past the 256 MiB", "give fewer files"]]);
}

#[test]
fn a_file_that_may_not_be_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let file = folder.write("a.yaml", service("x"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    if File::open(&file).is_ok() {
        eprintln!("this user may read everything; the words of this refusal are checked in read.rs");
        return;
    }
    check_refused(&folder, &["a.yaml: cannot be read", "allow this user to read it"]);
}

#[test]
fn comments_of_any_number_are_fine() {
    let folder = Folder::new();
    let comments = "  # one more\n".repeat(1_000);
    folder.write(
        "a.yaml",
        format!("{comments}metadata:\n{comments}  name: a\n{comments}kind: Service\napiVersion: v1\n"),
    );
    check(&folder, &["Service default/a at a.yaml:1001"], &[]);
}

// Following.

/// Waits until a look satisfies `is_done`, at most five seconds.
#[track_caller]
fn follow_until(folder: &Folder, source: &mut Source, is_done: impl Fn(&[String], &[String]) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut seen = Vec::new();
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        if source.wait(left).unwrap() {
            let (changes, problems) = folder.look(source);
            seen.extend(changes);
            if is_done(&seen, &problems) {
                return;
            }
        }
    }
    panic!("not seen within five seconds; seen: {seen:#?}");
}

/// A source that follows, and has nothing left to tell.
fn followed(folder: &Folder, roots: &[PathBuf]) -> Source {
    let mut source = Source::open(roots).unwrap();
    source.follow().unwrap();
    assert!(source.wait(Duration::ZERO).unwrap(), "the first wait returns at once");
    folder.look(&mut source);
    while source.wait(Duration::ZERO).unwrap() {
        assert_eq!(folder.look(&mut source).0.len(), 0);
    }
    source
}

#[track_caller]
fn sees(folder: &Folder, source: &mut Source, expected: &str) {
    follow_until(folder, source, |seen, _| seen.iter().any(|change| change == expected));
}

#[test]
fn waiting_needs_following() {
    let folder = Folder::new();
    assert!(matches!(folder.source().wait(Duration::ZERO), Err(SourceError::NotFollowed)));
}

#[test]
fn our_own_reading_is_not_heard() {
    let folder = Folder::new();
    folder.write("sub/a.yaml", service("x"));
    let mut source = followed(&folder, std::slice::from_ref(&folder.0));
    for _ in 0..5 {
        source.changes();
    }
    assert!(!source.wait(Duration::from_millis(200)).unwrap());
}

#[test]
fn what_happens_to_files_is_seen() {
    let folder = Folder::new();
    let mut source = followed(&folder, std::slice::from_ref(&folder.0));
    folder.write("a.yaml", service("x"));
    sees(&folder, &mut source, "Service default/x at a.yaml:1");
    folder.write("new/deep/b.yaml", service("y"));
    sees(&folder, &mut source, "Service default/y at new/deep/b.yaml:1");
    folder.write("new/deep/c.yaml", service("z"));
    sees(&folder, &mut source, "Service default/z at new/deep/c.yaml:1");
    folder.remove("a.yaml");
    sees(&folder, &mut source, "Service default/x deleted");
    fs::remove_dir_all(folder.path("new")).unwrap();
    sees(&folder, &mut source, "Service default/z deleted");
    folder.write("new/deep/b.yaml", service("y"));
    sees(&folder, &mut source, "Service default/y at new/deep/b.yaml:1");
}

#[test]
fn a_folder_that_is_replaced_is_followed() {
    let folder = Folder::new();
    folder.write("conf/a.yaml", service("x"));
    folder.write("next/a.yaml", service("y"));
    let mut source = followed(&folder, &[folder.path("conf")]);
    fs::rename(folder.path("conf"), folder.path("old")).unwrap();
    fs::rename(folder.path("next"), folder.path("conf")).unwrap();
    sees(&folder, &mut source, "Service default/y at conf/a.yaml:1");
    folder.write("conf/a.yaml", service("z"));
    sees(&folder, &mut source, "Service default/z at conf/a.yaml:1");
}

#[test]
fn a_burst_of_changes_is_followed_to_its_end() {
    let folder = Folder::new();
    let mut source = followed(&folder, std::slice::from_ref(&folder.0));
    for number in 0..2_000 {
        folder.write(&format!("{}/{number}.yaml", number % 20), service(&format!("s{number}")));
    }
    follow_until(&folder, &mut source, |seen, _| seen.len() == 2_000);
}

#[test]
fn an_editor_that_renames_is_seen_also_for_a_single_file() {
    let folder = Folder::new();
    let file = folder.write("a.yaml", service("x"));
    let mut source = followed(&folder, &[file]);
    for name in ["y", "z"] {
        folder.write("a.yaml.tmp", service(name));
        fs::rename(folder.path("a.yaml.tmp"), folder.path("a.yaml")).unwrap();
        sees(&folder, &mut source, &format!("Service default/{name} at a.yaml:1"));
    }
    folder.write("other.yaml", service("w"));
    assert!(!source.wait(Duration::from_millis(200)).unwrap(), "other files are not ours");
}

#[test]
fn a_slow_write_in_place_counts_when_its_writer_closes_the_file() {
    let folder = Folder::new();
    let file = folder.write("a.yaml", service("x"));
    let mut source = followed(&folder, std::slice::from_ref(&folder.0));
    let mut writer = File::create(&file).unwrap();
    // Another file is not held back. When its change is seen, the empty one was looked at too.
    folder.write("b.yaml", service("b"));
    follow_until(&folder, &mut source, |seen, problems| {
        seen == ["Service default/b at b.yaml:1"] && problems.is_empty()
    });
    writer.write_all(b"apiVersion: v1\nkind: Service\nmetadata: {na").unwrap();
    folder.write("b.yaml", service("c"));
    follow_until(&folder, &mut source, |seen, problems| {
        seen == ["Service default/b deleted", "Service default/c at b.yaml:1"] && problems.is_empty()
    });
    writer.write_all(b"me: y}\n").unwrap();
    drop(writer);
    follow_until(&folder, &mut source, |seen, problems| {
        seen == ["Service default/x deleted", "Service default/y at a.yaml:1"] && problems.is_empty()
    });
    // Emptied and closed: that is meant, and counts at once.
    drop(File::create(&file).unwrap());
    let emptied = Instant::now();
    sees(&folder, &mut source, "Service default/y deleted");
    assert!(emptied.elapsed() < Duration::from_secs(3), "nobody writes to it");
}

#[test]
fn a_writer_that_never_closes_its_file_is_told_and_does_not_hold_it_back_for_ever() {
    let folder = Folder::new();
    let file = folder.write("a.yaml", service("x"));
    let mut source = followed(&folder, std::slice::from_ref(&folder.0));
    source.limit_writers(Duration::from_millis(300), Duration::from_millis(1_500));
    let mut writer = File::create(file).unwrap();
    let said =
        "a.yaml: is shorter than before, and its writer has not closed it; its last good content stays";
    follow_until(&folder, &mut source, |seen, problems| {
        assert_eq!(seen, [""; 0]);
        problems.iter().any(|problem| problem.starts_with(said))
    });
    writer.write_all(format!("{}# longer\n", service("y")).as_bytes()).unwrap();
    sees(&folder, &mut source, "Service default/y at a.yaml:1");
    writer.set_len(0).unwrap();
    sees(&folder, &mut source, "Service default/y deleted");
}

#[test]
fn a_config_map_is_read_through_its_links_and_its_swap_is_seen() {
    let folder = Folder::new();
    folder.write("mount/..2026_01/a.yaml", service("x"));
    folder.write("mount/..2026_01/sub/b.yaml", service("y"));
    symlink("..2026_01", folder.path("mount/..data")).unwrap();
    symlink("..data/a.yaml", folder.path("mount/a.yaml")).unwrap();
    symlink("..data/sub", folder.path("mount/sub")).unwrap();
    let (changes, problems) = folder.read();
    assert_eq!(changes, ["Service default/x at mount/a.yaml:1", "Service default/y at mount/sub/b.yaml:1"]);
    assert_eq!(problems, [""; 0]);

    let mut source = followed(&folder, &[folder.path("mount")]);
    for (time, name) in [("..2026_02", "v"), ("..2026_03", "w")] {
        folder.write(&format!("mount/{time}/a.yaml"), service("x"));
        folder.write(&format!("mount/{time}/sub/b.yaml"), service(name));
        symlink(time, folder.path("mount/..data_tmp")).unwrap();
        fs::rename(folder.path("mount/..data_tmp"), folder.path("mount/..data")).unwrap();
        sees(&folder, &mut source, &format!("Service default/{name} at mount/sub/b.yaml:1"));
    }
    fs::create_dir(folder.path("mount/..2026_04")).unwrap();
    folder.write("mount/..2026_04/sub/b.yaml", service("w"));
    symlink("..2026_04", folder.path("mount/..data_tmp")).unwrap();
    fs::rename(folder.path("mount/..data_tmp"), folder.path("mount/..data")).unwrap();
    folder.remove("mount/a.yaml");
    sees(&folder, &mut source, "Service default/x deleted");
    fs::remove_dir_all(folder.path("mount/..2026_01")).unwrap();
    folder.write("mount/..2026_04/sub/b.yaml", service("last"));
    sees(&folder, &mut source, "Service default/last at mount/sub/b.yaml:1");
}

#[test]
fn a_link_far_away_that_is_swapped_is_seen() {
    let folder = Folder::new();
    folder.write("releases/1/a.yaml", service("x"));
    folder.write("releases/2/a.yaml", service("y"));
    symlink("releases/1", folder.path("current")).unwrap();
    fs::create_dir(folder.path("conf")).unwrap();
    symlink("../current/a.yaml", folder.path("conf/a.yaml")).unwrap();
    let mut source = followed(&folder, &[folder.path("conf")]);
    symlink("releases/2", folder.path("next")).unwrap();
    fs::rename(folder.path("next"), folder.path("current")).unwrap();
    sees(&folder, &mut source, "Service default/y at conf/a.yaml:1");
    folder.write("releases/2/a.yaml", service("z"));
    sees(&folder, &mut source, "Service default/z at conf/a.yaml:1");
}

// Anything at all.

#[test]
fn no_content_whatever_panics() {
    const CASES: u32 = 10_000;
    let folder = Folder::new();
    let (yaml, json) = (folder.path("a.yaml"), folder.path("b.json"));
    let mut source = folder.source();
    let mut count = 0;
    let mut try_all = |content: &[u8]| {
        for file in [&yaml, &json] {
            fs::write(file, content).unwrap();
        }
        let (_, problems): (_, Vec<Problem>) = source.changes();
        assert!(problems.iter().all(|problem| !problem.to_string().contains('\n')), "{problems:?}");
        count += 2;
    };
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let try_all = std::cell::RefCell::new(&mut try_all);
    runner
        .run(&prop_oneof![arbitrary_bytes(), arbitrary_manifest()], |content| {
            (try_all.borrow_mut())(&content);
            Ok(())
        })
        .unwrap();
    eprintln!("counted: {count} arbitrary files");
    assert!(count >= 2 * CASES);
}

fn arbitrary_bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..200)
}

/// Words of manifests, of YAML and of JSON in any order.
fn arbitrary_manifest() -> impl Strategy<Value = Vec<u8>> {
    let words = proptest::sample::select(vec![
        "---\n",
        "...\n",
        "\n",
        "  ",
        "- ",
        "? ",
        ": ",
        "&a ",
        "*a",
        "<<: *a\n",
        "!!str ",
        "!x ",
        "|\n",
        ">-\n",
        "\"",
        "'",
        "{",
        "}",
        "[",
        "]",
        ",",
        "#",
        "%YAML 1.2\n",
        "\t",
        "\r\n",
        "~",
        "null",
        "0x1F",
        "-1e999",
        ".nan",
        "99999999999999999999",
        "é",
        "\u{2028}",
        "apiVersion: v1\n",
        "kind: Service\n",
        "kind: List\n",
        "items:\n",
        "metadata: {name: a}\n",
        "metadata: {name: b, namespace: 'ü'}\n",
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}"#,
        r#"{"apiVersion":"v1","kind":"PodList","items":["#,
        "]}",
    ]);
    proptest::collection::vec(words, 0..40).prop_map(|words| words.concat().into_bytes())
}

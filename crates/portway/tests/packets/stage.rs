//! The playground with its two portways, and the manifests that both follow.
//!
//! In: how the case wants its playground and its portways. Out: a stage on which both are in sync, and stay so after each
//! change of the manifests, since every change waits for both.
//!
//! A case that fails leaves behind, on standard error, the rules of both nodes and all that both portways said.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dataplane::Mode;
use observe::picture::Picture;
use observe::socket;
use observe::status::Status;
use playground::plan::NODES;
use playground::{Options, Place, Playground, PodNetwork, Process, available, patient};
use serde_json::Value;

use crate::confine;
use crate::manifest::{self, Service};
use crate::talk::Talk;
use crate::way::Way;

/// Whatever is waited for comes within this time.
const DEADLINE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);
/// How the names of the stages' folders begin; the number of the process follows.
const FOLDERS: &str = "portway-packets-";
/// What shows the rules of a node.
const RULES: &[(&str, &[&str])] = &[
    ("nft", &["list", "ruleset"]),
    ("iptables-legacy-save", &[]),
    ("ip6tables-legacy-save", &[]),
    ("ipvsadm", &["-Ln"]),
    ("ip", &["address"]),
];
/// The file that holds the Nodes.
const NODES_FILE: &str = "nodes";

/// How a case wants its stage.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    way: Way,
    case: &'static str,
    pod_network: PodNetwork,
    detection: Vec<&'static str>,
    arguments: Vec<&'static str>,
    /// As a container holds it.
    is_confined: bool,
    /// In modes that need no iptables program, as their image has it: without any.
    hides_programs: bool,
}

impl Setting {
    /// The usual one: pods have a link each and are known by the cluster's networks.
    pub(crate) fn of(way: Way, case: &'static str) -> Self {
        let detection = vec!["--cluster-cidr", "10.244.0.0/16,fd00:10:244::/48"];
        Self {
            way,
            case,
            pod_network: PodNetwork::Routed,
            detection,
            arguments: Vec::new(),
            is_confined: false,
            hides_programs: false,
        }
    }

    /// Pods are known in another way.
    pub(crate) fn detecting(&self, detection: &[&'static str]) -> Self {
        Self { detection: detection.to_vec(), ..self.clone() }
    }

    /// Pods are behind a bridge.
    pub(crate) fn bridged(&self) -> Self {
        Self { pod_network: PodNetwork::Bridged, ..self.clone() }
    }

    /// Further options of `portway run`.
    pub(crate) fn with(&self, arguments: &[&'static str]) -> Self {
        Self { arguments: arguments.to_vec(), ..self.clone() }
    }

    /// Portways run as a container would hold them.
    pub(crate) fn confined(&self) -> Self {
        Self { is_confined: true, ..self.clone() }
    }

    /// Portways of modes that need no iptables program find none, as in their image.
    pub(crate) fn hiding_programs(&self) -> Self {
        Self { hides_programs: true, ..self.clone() }
    }

    pub(crate) fn way(&self) -> Way {
        self.way
    }

    /// Has the mode this setting of its own?
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.way.mode().setting(flag).is_some()
    }

    /// Makes the stage; `None`, with the reason on standard error, where that cannot be.
    pub(crate) fn stage(&self, services: &[&Service]) -> Option<Stage> {
        let mut stage = self.stage_without_portways(services)?;
        for node in NODES {
            stage.start(node);
        }
        stage.portways.keys().for_each(|node| stage.wait_for_sync(node));
        Some(stage)
    }

    /// The same with manifests that nobody follows yet.
    pub(crate) fn stage_without_portways(&self, services: &[&Service]) -> Option<Stage> {
        (available(self.case) && self.way.is_available()).then(|| Stage::new(self, services))
    }
}

/// Two nodes, each with its own portway, both in sync with the same manifests.
#[derive(Debug)]
pub(crate) struct Stage {
    setting: Setting,
    /// What is said of how many connections there were.
    counted_as: String,
    folder: PathBuf,
    revision: u64,
    /// What stands in each file, by its name.
    files: BTreeMap<String, Vec<Value>>,
    // Portways first, so that they end before their nodes go.
    portways: BTreeMap<&'static str, Process>,
    /// Those that handed over and still carry connections.
    old: Vec<Process>,
    hand_overs: usize,
    /// The next process is of the version that `PORTWAY_OTHER` names.
    is_others_turn: bool,
    /// Whether the portway of a node carries connections.
    carries: BTreeMap<&'static str, bool>,
    pub(crate) playground: Playground,
    pub(crate) talk: Talk,
    /// The node to which the outside client sends what is for Services.
    pub(crate) gateway: &'static str,
}

impl Stage {
    fn new(setting: &Setting, services: &[&Service]) -> Self {
        let options = Options { servers_per_node: 2, pod_network: setting.pod_network, ..Options::default() };
        let mut stage = Self {
            setting: setting.clone(),
            counted_as: setting.way.to_string(),
            folder: own_folder(),
            revision: 0,
            files: BTreeMap::new(),
            portways: BTreeMap::new(),
            old: Vec::new(),
            hand_overs: 0,
            is_others_turn: false,
            carries: NODES.into_iter().map(|node| (node, setting.way.carries())).collect(),
            playground: Playground::new(&options).unwrap(),
            talk: Talk::new(),
            gateway: "a",
        };
        stage.write_file(NODES_FILE, manifest::nodes(0));
        for service in services {
            stage.put(service);
        }
        stage
    }

    /// The mode, with its program.
    pub(crate) fn way(&self) -> Way {
        self.setting.way
    }

    /// The mode.
    pub(crate) fn mode(&self) -> Mode {
        self.setting.way.mode()
    }

    /// Portways that are started from now on go another way. Connections no longer count as those of one way.
    pub(crate) fn go(&mut self, way: Way) {
        self.setting.way = way;
        "switched modes".clone_into(&mut self.counted_as);
    }

    /// A place by its name.
    pub(crate) fn place(&self, name: &str) -> &Place {
        self.playground.place(name)
    }

    /// The interface by which a pod's packets reach its node.
    pub(crate) fn interface_of(&self, pod: &str) -> String {
        match self.setting.pod_network {
            PodNetwork::Routed => playground::node::pod_link(self.place(pod)),
            PodNetwork::Bridged => playground::node::BRIDGE.to_owned(),
        }
    }

    /// The name of the place that has an address.
    pub(crate) fn name_of(&self, address: IpAddr) -> String {
        let mut places = self.playground.places();
        let found = places.find(|place| place.addresses().both().contains(&address));
        found.map_or_else(|| address.to_string(), |place| place.name().to_owned())
    }

    /// Starts the portway of a node.
    pub(crate) fn start(&mut self, node: &'static str) {
        let mut command = self.command(node, "run");
        command.args(self.setting.way.arguments()).arg("--from").arg(self.folder.join("manifests"));
        command.args(["--state-dir"]).arg(self.folder.join(node).join("state"));
        command.args(["--node-name", node, "--service-cidr", "10.96.0.0/12,fd00:96::/112"]);
        command.args(&self.setting.detection).args(&self.setting.arguments);
        let process = self.playground.node(node).spawn(command).unwrap();
        self.portways.insert(node, process);
    }

    /// Waits until the portway of a node, newly started, is in sync.
    pub(crate) fn wait_for_sync(&self, node: &str) {
        let process = &self.portways[node];
        let line = process.wait_for_line("portway is in sync", DEADLINE);
        assert!(line.is_some(), "the portway of {node} is not in sync:\n{}", process.output().join("\n"));
        self.wait_for_manifests(node);
    }

    /// Kills the portway of a node, as a crash would.
    pub(crate) fn kill(&mut self, node: &str) {
        self.portways.remove(node).unwrap().kill9().unwrap();
    }

    /// Asks the portway of a node to end, and waits until it has.
    pub(crate) fn terminate(&mut self, node: &str) {
        let ended = self.portways.remove(node).unwrap().terminate(DEADLINE).unwrap();
        assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    }

    /// Starts another portway on a node that goes on in the place of the one that is there, and then ends that one, unless it
    /// carries connections.
    pub(crate) fn hand_over(&mut self, node: &'static str) {
        self.hand_over_carrying(node);
        let carried = std::mem::replace(self.carries.entry(node).or_default(), self.setting.way.carries());
        if !carried {
            self.end_old();
        }
    }

    /// The same; the old one carries connections, and stays until [`Self::end_old`].
    pub(crate) fn hand_over_carrying(&mut self, node: &'static str) {
        self.old.extend(self.portways.remove(node));
        // Both nodes change before the version does.
        self.hand_overs += 1;
        self.is_others_turn = self.hand_overs.div_ceil(2) % 2 == 1;
        self.setting.arguments.push("--take-over");
        self.start(node);
        self.setting.arguments.pop();
        self.wait_for_sync(node);
        self.tell_of_first_sync(node);
    }

    /// Whether another version adopts the rules as they are.
    #[expect(clippy::print_stderr, reason = "the test's own output")]
    fn tell_of_first_sync(&self, node: &str) {
        if std::env::var_os("PORTWAY_OTHER").is_some() {
            let who = if self.is_others_turn { "the other version" } else { "this version" };
            let output = self.portways[node].output();
            let synced = output.iter().find(|line| line.contains("portway is in sync"));
            eprintln!("{who} on {node}: {}", synced.map_or("no sync was told", String::as_str));
        }
    }

    /// Ends the portways that handed over and carried connections, which are all at their end.
    pub(crate) fn end_old(&mut self) {
        for mut old in std::mem::take(&mut self.old) {
            let ended = old.terminate(DEADLINE).unwrap();
            assert!(ended.is_some_and(|status| status.success()), "{ended:?}: {}", old.output().join("\n"));
        }
    }

    /// Adds or replaces a Service, though perhaps nobody is there who could follow.
    pub(crate) fn apply_unheard(&mut self, service: &Service) {
        self.put(service);
    }

    /// Removes a Service, though perhaps nobody is there who could follow.
    pub(crate) fn delete_unheard(&mut self, service: &Service) {
        self.files.remove(service.name());
        fs::remove_file(self.path_of(service.name())).unwrap();
    }

    /// Adds or replaces a Service, and waits until both nodes have it.
    pub(crate) fn apply(&mut self, service: &Service) {
        self.put(service);
        self.wait_for_both();
    }

    /// Adds or replaces all of these, and waits until both nodes have them.
    pub(crate) fn apply_all(&mut self, services: &[Service]) {
        for service in services {
            self.put(service);
        }
        self.wait_for_both();
    }

    /// Removes a Service, and waits until both nodes have forgotten it.
    pub(crate) fn delete(&mut self, service: &Service) {
        self.delete_unheard(service);
        self.wait_for_both();
    }

    /// From now on the outside client sends what is for Services to this node.
    pub(crate) fn route_services_via(&mut self, node: &'static str) {
        self.playground.route_services_via(node).unwrap();
        self.gateway = node;
    }

    /// How the portway of a node is doing.
    pub(crate) fn status(&self, node: &str) -> Status {
        socket::status(&self.run_dir(node)).unwrap()
    }

    /// Does on a node what an init container does, with all privileges; the connection tracker stays as it is.
    pub(crate) fn init_only(&self, node: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portway"));
        command.args([
            "kube-proxy",
            "--init-only",
            "--proxy-mode",
            self.mode().name(),
            "--hostname-override",
            node,
        ]);
        command.args(["--conntrack-max-per-core=0", "--conntrack-min=0"]);
        command.args(["--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s"]);
        let mut process = self.playground.node(node).spawn(command).unwrap();
        let ended = process.wait(DEADLINE).unwrap();
        assert!(ended.is_some_and(|status| status.success()), "{}", process.output().join("\n"));
    }

    /// Somebody on a node looks into legacy tables, which makes them.
    pub(crate) fn list_legacy_tables(&self, node: &str) {
        for program in ["iptables-legacy", "ip6tables-legacy"] {
            for table in ["filter", "nat"] {
                let mut list = Command::new(program);
                list.args(["-t", table, "-S"]);
                self.output(node, list);
            }
        }
    }

    /// The process id of the portway of a node.
    pub(crate) fn id(&self, node: &str) -> u32 {
        self.portways[node].id()
    }

    /// What the portway of a node has said so far.
    pub(crate) fn said(&self, node: &str) -> String {
        self.portways[node].output().join("\n")
    }

    /// What the readiness probe of a node says, held as the container of its portway is.
    pub(crate) fn probe(&self, node: &str) -> String {
        let mut command = confine::command(self.way(), &self.folder);
        command.args(["status", "--ready", "--run-dir"]).arg(self.run_dir(node));
        self.output(node, command)
    }

    /// What `portway cleanup` of a mode says on a node.
    pub(crate) fn clean_up(&self, node: &str, mode: Mode) -> String {
        let mut command = self.command(node, "cleanup");
        command.args(["--mode", mode.name()]);
        self.output(node, command)
    }

    /// The rules of a node that lead somewhere, as the iptables program of its mode prints them.
    pub(crate) fn rules(&self, node: &str) -> Vec<String> {
        let saved = self.output(node, Command::new("iptables-nft-save"));
        saved.lines().filter(|line| line.starts_with("-A ")).map(str::to_owned).collect()
    }

    /// The ports of our own that the rules of a node lead to.
    pub(crate) fn listening(&self, node: &str) -> BTreeSet<u16> {
        let port = |line: &String| line.split_once("--to-ports ")?.1.trim().parse().ok();
        self.rules(node).iter().filter_map(port).collect()
    }

    /// The picture that the portway of a node has.
    pub(crate) fn picture(&self, node: &str) -> Picture {
        Picture::of(socket::picture(&self.run_dir(node)).unwrap())
    }

    /// What `portway explain` says on a node.
    pub(crate) fn explain(&self, node: &str, arguments: &[String]) -> String {
        let mut command = self.command(node, "explain");
        command.args(arguments).args(["--mode", self.mode().name()]);
        self.output(node, command)
    }

    fn put(&mut self, service: &Service) {
        self.revision += 1;
        self.write_file(service.name(), service.objects(self.revision));
    }

    /// Writes it aside and moves it in, so that nobody ever reads half a file.
    fn write_file(&mut self, name: &str, objects: Vec<Value>) {
        let text = objects.iter().map(|object| format!("{object}\n")).collect::<Vec<_>>().join("---\n");
        let aside = self.folder.join("aside.yaml");
        fs::write(&aside, text).unwrap();
        fs::rename(aside, self.path_of(name)).unwrap();
        self.files.insert(name.to_owned(), objects);
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.folder.join("manifests").join(format!("{name}.yaml"))
    }

    fn run_dir(&self, node: &str) -> PathBuf {
        self.folder.join(node).join("run")
    }

    fn wait_for_both(&self) {
        self.portways.keys().for_each(|node| self.wait_for_manifests(node));
    }

    /// Waits until a node's kernel holds what the files say.
    fn wait_for_manifests(&self, node: &str) {
        until(&format!("node {node} follows the manifests"), || {
            // On a slow machine it may have no time to answer: then it is asked again.
            let has_all = self.revisions_seen(node) == Some(self.revisions_written());
            has_all && socket::status(&self.run_dir(node)).is_ok_and(|status| status.is_in_sync)
        });
    }

    fn revisions_written(&self) -> BTreeSet<String> {
        self.files.values().flatten().filter_map(revision).collect()
    }

    fn revisions_seen(&self, node: &str) -> Option<BTreeSet<String>> {
        let snapshot = socket::picture(&self.run_dir(node)).ok()?;
        Some(snapshot.objects.values().filter_map(|object| revision(&object.value)).collect())
    }

    pub(crate) fn command(&self, node: &str, verb: &str) -> Command {
        let mut command = match verb {
            "run" if self.setting.is_confined => confine::command(self.way(), &self.folder),
            "run" if self.setting.hides_programs && self.way().program().is_none() => {
                confine::without_programs(&self.folder)
            }
            _ => Command::new(self.program()),
        };
        command.arg(verb).arg("--run-dir").arg(self.run_dir(node));
        command.env_remove("PORTWAY_FROM").env_remove("RUST_LOG");
        command
    }

    /// Ours, or where `PORTWAY_OTHER` names another version and its turn has come, that one.
    fn program(&self) -> PathBuf {
        let other = std::env::var_os("PORTWAY_OTHER").filter(|_| self.is_others_turn);
        other.map_or_else(|| env!("CARGO_BIN_EXE_portway").into(), PathBuf::from)
    }

    /// Runs a program on a node to its end; all that it said.
    pub(crate) fn output(&self, node: &str, command: Command) -> String {
        let spawned = self.playground.node(node).spawn(command);
        let Ok(mut process) = spawned else { return "it cannot be started".to_owned() };
        // Its last lines may still be on their way when it has ended.
        let _ = process.wait(DEADLINE);
        std::thread::sleep(POLL * 10);
        process.output().join("\n")
    }

    #[expect(clippy::print_stderr, reason = "the test's own output")]
    fn report(&self) {
        for node in NODES {
            for (program, arguments) in RULES {
                let mut rules = Command::new(program);
                rules.args(*arguments);
                eprintln!("--- {program} of node {node}\n{}", self.output(node, rules));
            }
            let said = self.portways.get(node).map(|process| process.output().join("\n"));
            eprintln!("--- the portway of node {node}\n{}", said.unwrap_or_default());
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report();
        }
        self.talk.tell(&self.counted_as);
        self.portways.clear();
        self.old.clear();
        // What is left in the folder of temporary files harms nobody.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < patient(DEADLINE), "it is not so that {what}");
        std::thread::sleep(POLL);
    }
}

/// Kind, name and revision of an object; `None` for one that we did not write.
fn revision(object: &Value) -> Option<String> {
    let (kind, metadata) = (object["kind"].as_str()?, &object["metadata"]);
    let number = metadata["labels"]["revision"].as_str()?;
    Some(format!("{kind} {} {number}", metadata["name"].as_str()?))
}

/// A folder of this stage's own, named after this process; those of processes that are gone go.
fn own_folder() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let all = std::env::temp_dir();
    for folder in fs::read_dir(&all).unwrap().flatten().filter(|entry| is_left_over(&entry.file_name())) {
        // Another process may do the same just now.
        let _ = fs::remove_dir_all(folder.path());
    }
    let folder = all.join(format!("{FOLDERS}{}-{number}", std::process::id()));
    fs::create_dir_all(folder.join("manifests")).unwrap();
    for node in NODES {
        fs::create_dir_all(folder.join(node)).unwrap();
    }
    folder
}

fn is_left_over(name: &OsStr) -> bool {
    let process = name.to_str().and_then(|name| name.strip_prefix(FOLDERS)?.split('-').next());
    process.is_some_and(|process| !Path::new("/proc").join(process).exists())
}

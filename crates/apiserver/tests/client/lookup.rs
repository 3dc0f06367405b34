//! Questions for single Nodes: only what the server says outright counts.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use apiserver::{Access, NodeAnswers, NodeLookup, Settings};
use mockapi::{Fault, MockApi, NODES, Options, Requests, objects};

use crate::listener::quick;

const PATIENCE: Duration = Duration::from_secs(20);

/// A Node's name, and whether there is one.
type Answers = Receiver<(Box<str>, Option<bool>)>;

fn asking(server: &MockApi) -> (NodeLookup, Answers) {
    let access = Access::Master(server.url());
    let settings = Settings { access, node_name: "a".into(), service_proxy_name: None, pace: quick() };
    let (lookup, answers) = NodeAnswers::from(&settings);
    let (sender, told) = channel();
    thread::spawn(move || answers.serve(&mut |name, exists| sender.send((name, exists)).is_ok()));
    (lookup, told)
}

fn ask(lookup: &NodeLookup, told: &Answers, name: &str) -> Option<bool> {
    assert!(lookup.ask(name.into()));
    let (about, exists) = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(&*about, name);
    exists
}

#[test]
fn a_node_exists_or_not_only_if_the_server_says_so() {
    let server = MockApi::start(Options::default()).unwrap();
    server.put(NODES, objects::node("b", "192.0.2.2"));
    let (lookup, told) = asking(&server);
    assert_eq!(ask(&lookup, &told, "b"), Some(true));
    assert_eq!(ask(&lookup, &told, "gone"), Some(false));
    server.forbid("list", NODES);
    assert_eq!(ask(&lookup, &told, "gone"), None);
    server.forbid_nothing();
    server.fault(Requests::All, Fault::Status { code: 404, retry_after: None }, Some(1));
    assert_eq!(ask(&lookup, &told, "gone"), None);
    assert_eq!(ask(&lookup, &told, "gone"), Some(false));
}

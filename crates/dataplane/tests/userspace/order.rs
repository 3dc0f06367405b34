//! In which order userspace mode opens, writes and closes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use dataplane::relay::{self, Relays as _};
use dataplane::userspace::{Options, Userspace};
use dataplane::{Dataplane, Scope};
use kernel::xtables::{Error, Family, Result, Table, Variant, Xtables};
use kernel_sim::xtables::{Fault, Faulty, Simulated};
use model::{ForwardingTable, Protocol};

use dataplane::sim::cluster::{id, of, web, web_with};

type Relay = Arc<Mutex<relay::Simulated>>;

/// What listens, in words.
fn open(relay: &Relay) -> String {
    relay.ids().iter().flat_map(|id| [id.purpose.to_string(), " ".to_owned()]).collect()
}

/// A door that tells what listens whenever something is written.
struct Told(Faulty<Simulated>, Relay, Rc<RefCell<String>>);

impl Xtables for Told {
    fn variant(&self) -> Variant {
        self.0.variant()
    }

    fn family(&self) -> Family {
        self.0.family()
    }

    fn save(&mut self, table: Table) -> Result<Option<String>> {
        self.0.save(table)
    }

    fn restore(&mut self, text: &str) -> Result<()> {
        *self.2.borrow_mut() += &open(&self.1);
        self.0.restore(text)
    }
}

#[test]
fn listeners_open_before_rules_lead_to_them_and_close_when_none_does() {
    let (relay, story) = (Relay::default(), Rc::default());
    let door = Faulty::new(Simulated::new(Variant::Nft, Family::V4));
    let door = Told(door, Arc::clone(&relay), Rc::clone(&story));
    let mut mode = Userspace::new([door], Arc::clone(&relay), Options::default());
    let endpoints = ["10.244.0.1@a", "10.244.1.1@b"];
    let cluster = of(&[web("a", "10.96.0.1", "TCP", &endpoints)]);
    let local = of(&[web_with("a", "10.96.0.1", "TCP", &endpoints, "external=Local")]);
    let ids = BTreeSet::from([id("a", Protocol::Tcp)]);
    let steps = |mode: &mut Userspace<_, _>, table: &ForwardingTable| {
        let is_done = mode.sync(table, Scope::Changed(&ids)).is_ok();
        (is_done, format!("{}write {}", story.take(), open(&relay)))
    };
    assert_eq!(steps(&mut mode, &cluster), (true, "cluster write cluster ".into()));
    assert_eq!(steps(&mut mode, &local), (true, "cluster outside write cluster outside ".into()));
    // As long as rules may lead there, nothing is closed.
    let error = Error::Locked { program: "iptables-restore".into(), stderr: "injected".into() };
    mode.doors().next().unwrap().0.on_restore(0, Fault { parts: 0, answer: Some(error) });
    assert_eq!(steps(&mut mode, &cluster), (false, "cluster outside write cluster outside ".into()));
    assert_eq!(steps(&mut mode, &cluster), (true, "cluster outside write cluster ".into()));
    assert_eq!(steps(&mut mode, &of(&[])), (true, "cluster write ".into()));
}

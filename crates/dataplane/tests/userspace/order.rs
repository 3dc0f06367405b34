//! In which order userspace mode opens, writes and closes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;

use dataplane::relay::{self, Listener, ListenerId, RelayError, Relays};
use dataplane::userspace::{Options, Userspace};
use dataplane::{Dataplane, Scope};
use kernel::xtables::{Error, Family, Result, Table, Variant, Xtables};
use kernel_sim::xtables::{Fault, Faulty, Simulated};
use model::{ForwardingTable, Protocol};

use dataplane::sim::cluster::{id, of, web, web_with};

/// What happened, in order, to the relay and to a door.
type Story = Rc<RefCell<Vec<String>>>;

struct Told<T>(T, Story);

impl<R: Relays> Relays for Told<R> {
    fn open(&mut self, id: &ListenerId, wanted: &Listener) -> std::result::Result<u16, RelayError> {
        self.1.borrow_mut().push(format!("open {}", id.purpose));
        self.0.open(id, wanted)
    }

    fn close(&mut self, id: &ListenerId) {
        self.1.borrow_mut().push(format!("close {}", id.purpose));
        self.0.close(id);
    }

    fn hold(&mut self, at: SocketAddr, protocol: Protocol) -> std::result::Result<(), RelayError> {
        self.0.hold(at, protocol)
    }

    fn release(&mut self, at: SocketAddr, protocol: Protocol) {
        self.0.release(at, protocol);
    }

    fn ids(&self) -> Vec<ListenerId> {
        self.0.ids()
    }
}

impl<X: Xtables> Xtables for Told<X> {
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
        self.1.borrow_mut().push("write".into());
        self.0.restore(text)
    }
}

#[test]
fn listeners_open_before_rules_lead_to_them_and_close_when_none_does() {
    let story = Story::default();
    let door = Told(Faulty::new(Simulated::new(Variant::Nft, Family::V4)), Rc::clone(&story));
    let relay = Told(relay::Simulated::default(), Rc::clone(&story));
    let mut mode = Userspace::new([door], relay, Options::default());
    let endpoints = ["10.244.0.1@a", "10.244.1.1@b"];
    let cluster = of(&[web("a", "10.96.0.1", "TCP", &endpoints)]);
    let local = web_with("a", "10.96.0.1", "TCP", &endpoints, "external=Local");
    let ids = BTreeSet::from([id("a", Protocol::Tcp)]);
    let steps = |mode: &mut Userspace<_, _>, table: &ForwardingTable| {
        let result = mode.sync(table, Scope::Changed(&ids));
        (result.is_ok(), story.take().join(", "))
    };
    assert_eq!(steps(&mut mode, &cluster), (true, "open cluster, write".into()));
    assert_eq!(steps(&mut mode, &of(&[local])), (true, "open cluster, open outside, write".into()));
    // As long as rules may lead there, nothing is closed.
    let error = Error::Locked { program: "iptables-restore".into(), stderr: "injected".into() };
    mode.doors().next().unwrap().0.on_restore(0, Fault { parts: 0, answer: Some(error) });
    assert_eq!(steps(&mut mode, &cluster), (false, "open cluster, write".into()));
    assert_eq!(steps(&mut mode, &cluster), (true, "open cluster, write, close outside".into()));
    assert_eq!(steps(&mut mode, &of(&[])), (true, "write, close cluster".into()));
}

//! Rules of the iptables mode as they are rendered: parts and whole, comments, and an address that is refused.
#![allow(clippy::unwrap_used, reason = "it is a test, helpers included")]

mod iptables_guides;
mod world;

use dataplane::iptables::{Comments, MODE, Options, Renderer, SHARED, TO_SERVICES};
use dataplane::sim::{End, Ends};
use dataplane::{ModeSettings, Scope};
use iptables_guides::{plain, service, slice, table};
use model::fate::Payload;
use model::{Family, Packet, Protocol};
use serde_json::json;
use world::World;

const STEPS: usize = 25;

#[test]
fn a_refused_address_of_this_host_is_not_taken_for_a_node_port_of_that_number() {
    let port = json!([{"port": 30080}]);
    let refused = json!({"clusterIPs": ["10.96.0.1"], "ports": port, "externalIPs": ["192.168.0.1"]});
    let node_port = json!([{"port": 80, "nodePort": 30080}]);
    let other = json!({"type": "NodePort", "clusterIPs": ["10.96.0.2"], "ports": node_port});
    let objects = [
        service("default", "refused", &refused),
        service("default", "other", &other),
        slice("default", "other", &json!([{"port": 8080}]), &["10.244.0.1"]),
    ];
    let table = table(plain(), &objects);
    let payload = Payload::Transport { protocol: Protocol::Tcp, port: 30080 };
    let (source, destination) = ("203.0.113.7".parse().unwrap(), "192.168.0.1".parse().unwrap());
    let packet = Packet { source, destination, payload, interface: Some("eth0".into()) };
    let mut node = MODE.simulate(&ModeSettings::of(MODE)).swap_remove(0);
    node.dataplane().sync(&table, Scope::Everything).unwrap();
    assert_eq!(node.ends(&packet, &[&table]), Ok(Ends::one(End::Rejected)));
    assert_eq!(Ends::of_fate(&table.fate(&packet, &node.semantics()).fate), Ends::one(End::Rejected));
}

#[test]
fn the_whole_is_made_of_its_parts() {
    let (mut world, options) = (World::new(7), Options::default());
    for _ in 0..STEPS {
        world.step();
        for family in Family::ALL {
            let renderer = Renderer::new(&world.table, family, &options);
            let (whole, base) = (renderer.tables(), renderer.base());
            let parts: Vec<_> = world.table.ports().map(|port| renderer.of_port(port)).collect();
            let own: usize = parts.iter().map(|part| part.own.len()).sum();
            assert_eq!(whole.nat.len(), own + base.nat.len() + 2);
            for shared in SHARED {
                let rules = parts.iter().filter_map(|part| part.shared.get(&shared)).flatten();
                let last = base.last.iter().filter(|_| shared == TO_SERVICES);
                let found = whole.chains(shared.table).iter().find(|chain| chain.name == shared.chain());
                let mut rules: Vec<_> = rules.chain(last).cloned().collect();
                shared.arrange(&mut rules);
                assert_eq!(found.unwrap().rules, rules);
            }
        }
    }
}

#[test]
fn comments_of_own_chains_go_when_there_are_more_endpoints_than_that() {
    let objects = [
        service("default", "web", &json!({"clusterIPs": ["10.96.0.1"], "ports": [{"port": 80}]})),
        slice("default", "web", &json!([{"port": 80}]), &["10.244.0.1", "10.244.0.2"]),
    ];
    let table = table(plain(), &objects);
    for (comments, has_comments) in
        [(Comments::Always, true), (Comments::UpTo(2), true), (Comments::UpTo(1), false)]
    {
        let options = Options { comments, ..Options::default() };
        let renderer = Renderer::new(&table, Family::V4, &options);
        assert_eq!(renderer.has_comments(), has_comments, "{comments:?}");
        let text = renderer.tables().restore_text();
        assert_eq!(text.contains("default/web -> 10.244.0.1:80"), has_comments, "{text}");
        assert!(text.contains("default/web cluster IP"), "{text}");
    }
}

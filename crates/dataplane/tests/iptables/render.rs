//! Rules of the iptables mode as they are rendered: parts and whole, comments, and an address that is refused.
use dataplane::ModeSettings;
use dataplane::iptables::{Comments, MODE, Renderer, SHARED, TO_SERVICES};
use dataplane::sim::{End, Ends};
use model::Family;

use super::*;

const STEPS: usize = 25;

#[test]
fn a_refused_address_of_this_host_is_not_taken_for_a_node_port_of_that_number() {
    let table = table_of(
        "svc refused 10.96.0.1 30080 ips=192.168.0.1
         svc other 10.96.0.2 80@30080
         ep other 8080 10.244.0.1",
    );
    let packet = dataplane::sim::cluster::tcp("203.0.113.7", "192.168.0.1:30080", Some("eth0"));
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
    let table = table_of("svc web 10.96.0.1 80\nep web 80 10.244.0.1 10.244.0.2");
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

//! Rules of others that lead to chains of ours, on the twin and on both real programs.
use dataplane::iptables::Names;
use dataplane::sim::cluster::id;
use model::Protocol;

use super::*;

fn restore(mode: &mut Iptables<impl Xtables>, text: &str) {
    mode.doors().next().unwrap().restore(text).unwrap();
}

fn rules(mode: &mut Iptables<impl Xtables>, chain: &str) -> Option<usize> {
    let saved = Saved::parse(&mode.doors().next().unwrap().save(Table::Nat).unwrap().unwrap());
    saved.chain(chain).map(|chain| chain.rules.len())
}

/// Somebody leads to the chain of a Service, which is then deleted while others change.
fn a_service_that_others_lead_to_goes(mut mode: Iptables<impl Xtables>) {
    let mut small = Small::of(
        "svc gone 10.96.0.1 80\nep gone 8080 10.244.1.1@a\nsvc other 10.96.0.2 80\nep other 8080 10.244.1.1@a",
    );
    everything(&mut mode, &small.table);
    small.take_changed();
    let [gone, other] = ["gone", "other"].map(|name| Names::of(&id(name, Protocol::Tcp)).cluster.to_string());
    let foreign = format!("FOREIGN -p tcp -m tcp --dport 1 -j {gone}");
    restore(&mut mode, &format!("*nat\n:FOREIGN - [0:0]\n-A {foreign}\nCOMMIT\n"));
    small.remove("gone");
    small.endpoints("other", &["10.244.1.1", "10.244.1.2"]);
    let synced = small.follow(&mut mode);
    // A deletion that was put off is refused, and the next full sync finds what is left over.
    let told = if mode.settle().is_err() || synced.stays.is_empty() {
        everything(&mut mode, &small.table).stays
    } else {
        synced.stays
    };
    assert!(told.len() == 1 && told[0].contains(&gone) && told[0].contains("is empty now"), "{told:?}");
    assert_eq!(rules(&mut mode, &gone), Some(0), "it is empty, and nobody else's");
    assert_eq!(rules(&mut mode, &other), Some(2), "the other Service is served");
    assert_eq!(rules(&mut mode, "FOREIGN"), Some(1), "rules of others stay");
    // Nothing more is written, and others go on changing.
    assert_eq!(mode.differences(&small.table).unwrap(), Vec::<String>::new());
    small.endpoints("other", &["10.244.1.1"]);
    small.follow(&mut mode);
    assert_eq!(rules(&mut mode, &other), Some(1));
    // It goes when it can.
    restore(&mut mode, &format!("*nat\n-D {foreign}\nCOMMIT\n"));
    assert!(everything(&mut mode, &small.table).stays.is_empty());
    assert_eq!(rules(&mut mode, &gone), None);
}

#[test]
fn a_foreign_rule_that_leads_to_a_deleted_service_stops_no_sync() {
    for variant in Variant::ALL {
        let program = Simulated::new(variant, Family::V4);
        a_service_that_others_lead_to_goes(Iptables::new([program], Options::default()));
    }
}

mod needs_root {
    use super::*;

    #[test]
    fn root_a_foreign_rule_that_leads_to_a_deleted_service_stops_no_sync() {
        for variant in Variant::ALL {
            with_door("a foreign rule", variant, |door| {
                a_service_that_others_lead_to_goes(Iptables::new([door], Options::default()));
            });
        }
    }
}

//! Which of the two iptables programs this node already uses.
//!
//! Rules of both are in force side by side, but whoever looks with one does not see those of the other; so we write where the
//! others do. kubelet's own chains tell it for certain; without them, the program with more rules; without any, the newer one. A program
//! that may not look, as the legacy one without `CAP_NET_RAW`, may not write either: it is passed over for one that may.

use kernel::xtables::{Error, Found, Saved, Table, Variant, Xtables};

/// Chains that kubelet makes in `mangle`.
const OF_KUBELET: [&str; 2] = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"];
const TABLES: [Table; 3] = [Table::Filter, Table::Nat, Table::Mangle];

/// The program that this node uses, of those that are there; `None` if there is none.
pub fn choose<X: Xtables>(found: &mut Found<X>) -> Result<Option<Variant>, Error> {
    let mut best: Option<((bool, usize), Variant)> = None;
    let mut forbidden = None;
    for variant in Variant::ALL {
        let mut doors = found.programs.iter_mut().filter(|door| door.variant() == variant).peekable();
        if doors.peek().is_none() {
            continue;
        }
        let use_made = match doors.try_fold((false, 0), |(is_kubelets, rules), door| {
            look(door).map(|(also_kubelets, more)| (is_kubelets || also_kubelets, rules + more))
        }) {
            Ok(use_made) => use_made,
            Err(error @ Error::NotPermitted { .. }) => {
                forbidden.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        // The first of equals is the newer one.
        if best.is_none_or(|(most, _)| use_made > most) {
            best = Some((use_made, variant));
        }
    }
    match (best, forbidden) {
        (None, Some(error)) => Err(error),
        (best, _) => Ok(best.map(|(_, variant)| variant)),
    }
}

fn look(door: &mut impl Xtables) -> Result<(bool, usize), Error> {
    let (mut is_kubelets, mut rules) = (false, 0);
    for table in TABLES {
        let Some(text) = door.save(table)? else { continue };
        let saved = Saved::parse(&text);
        is_kubelets |= saved.chains.iter().any(|chain| OF_KUBELET.contains(&chain.name.as_str()));
        rules += saved.chains.iter().map(|chain| chain.rules.len()).sum::<usize>();
    }
    Ok((is_kubelets, rules))
}

#[cfg(test)]
mod tests {
    use kernel::xtables::Family;
    use kernel_sim::xtables::Simulated;

    use super::*;

    fn found(texts: [(Variant, &str); 2]) -> Found<Simulated> {
        let mut found = Found::default();
        for (variant, text) in texts {
            let mut door = Simulated::new(variant, Family::V4);
            if !text.is_empty() {
                door.restore(text).expect("it is taken");
            }
            found.programs.push(door);
        }
        found
    }

    const RULES: &str = "*filter\n-A INPUT -j ACCEPT\n-A INPUT -j DROP\nCOMMIT\n";
    const HINT: &str = "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n";

    #[test]
    fn the_program_that_the_node_uses_is_chosen() {
        for (nft, legacy, expected) in [
            ("", "", Variant::Nft),
            (RULES, "", Variant::Nft),
            ("", RULES, Variant::Legacy),
            (HINT, RULES, Variant::Nft),
            (RULES, HINT, Variant::Legacy),
        ] {
            let mut found = found([(Variant::Nft, nft), (Variant::Legacy, legacy)]);
            assert_eq!(choose(&mut found).expect("twins answer"), Some(expected), "{nft:?} {legacy:?}");
        }
    }

    #[test]
    fn without_a_program_there_is_no_choice() {
        assert_eq!(choose(&mut Found::<Simulated>::default()).expect("nothing to ask"), None);
    }
}

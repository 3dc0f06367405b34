//! What tells chains of our userspace mode from those that upstream's left until 1.25, whose names they share.
//!
//! Upstream had no chain of a single service port in this mode. Its jumps had fewer conditions: ours leave loopback addresses to the
//! relay that listens there, and guard its ports for new connections alone.

use kernel::xtables::Table;

use super::names::{self, is_of_a_service_port};

/// Whether our userspace mode alone has a chain of this name.
pub(crate) fn is_ours_alone(table: Table, chain: &str) -> bool {
    table == Table::Nat && is_of_a_service_port(chain)
}

/// Whether our userspace mode alone has a jump with these words, as `iptables-save` prints it.
pub(crate) fn is_our_jump(words: &[&str]) -> bool {
    let is_to = |chain: &str| matches!(words, [.., "-j", target] if *target == chain);
    let leaves_loopback_out = words.starts_with(&["!", "-d"]);
    let is_for_new_ones = words.windows(2).any(|pair| pair == ["--ctstate", "NEW"]);
    leaves_loopback_out && (is_to(names::NODE_PORT_CONTAINER) || is_to(names::NODE_PORT_HOST))
        || is_for_new_ones && is_to(names::NON_LOCAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_jumps_are_told_from_upstreams() {
        let cases = [
            (
                "! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -m comment --comment c -j KUBE-NODEPORT-HOST",
                true,
            ),
            ("-m addrtype --dst-type LOCAL -m comment --comment c -j KUBE-NODEPORT-HOST", false),
            ("-m conntrack --ctstate NEW -m comment --comment c -j KUBE-NODEPORT-NON-LOCAL", true),
            ("-m comment --comment c -j KUBE-NODEPORT-NON-LOCAL", false),
            ("-m comment --comment c -j KUBE-PORTALS-HOST", false),
            ("-m conntrack --ctstate NEW -m comment --comment c -j KUBE-SERVICES", false),
        ];
        for (rule, expected) in cases {
            assert_eq!(is_our_jump(&rule.split(' ').collect::<Vec<_>>()), expected, "{rule}");
        }
    }
}

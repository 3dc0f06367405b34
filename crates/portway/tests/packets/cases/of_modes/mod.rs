//! What is about one mode: cases that no other can have, and what its rules are. The mode's name chooses it, here alone.

mod carried;
mod drain;
mod ipvs;
mod remembered;
mod schedulers;
mod sores;

use kernel::xtables::Variant;

use super::{counted, preconditions, switch, takeover};
use crate::case::{Case, case};
use crate::way::Way;

/// What stands in a kernel in which a way is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rules {
    /// A table of `nf_tables`.
    Table,
    /// Chains of this iptables program.
    Chains(Variant),
    VirtualServers,
}

const NFTABLES: &[Case] = &[
    case!(remembered::root_affinity_outlives_restarts_and_another_iptables_program_but_no_other_mode),
    case!(counted::root_what_is_not_served_on_localhost_is_counted),
    case!(takeover::root_taking_over_from_upstreams_nftables_table_disturbs_nobody),
    case!(takeover::root_taking_over_from_upstreams_chains_in_iptables_nft_disturbs_nobody),
    case!(takeover::root_taking_over_from_upstreams_chains_in_iptables_legacy_disturbs_nobody),
];

const IPTABLES: &[Case] = &[
    case!(counted::root_what_a_move_to_nftables_would_change_is_counted),
    // Docker writes with this program.
    case!(preconditions::root_dockers_rules_give_no_false_error)
        .of(|way| matches!(way.program(), Some(Variant::Nft))),
    case!(switch::root_switching_to_an_image_without_programs_disturbs_nobody),
];

const USERSPACE: &[Case] = &[
    case!(carried::root_a_dead_pod_costs_the_client_no_error),
    case!(carried::root_after_a_crash_the_same_ports_are_bound_and_the_gap_is_short),
    case!(carried::root_a_port_of_ours_that_is_dialled_directly_refuses),
    case!(carried::root_switching_to_and_from_userspace_fails_no_new_connection),
    case!(carried::root_switching_from_userspace_to_an_image_without_programs_fails_no_new_connection),
];

/// The cases of the way's mode alone.
pub(crate) fn cases(way: Way) -> &'static [Case] {
    of_mode(way).0
}

pub(crate) fn rules_of(way: Way) -> Rules {
    of_mode(way).1
}

fn of_mode(way: Way) -> (&'static [Case], Rules) {
    let chains = || Rules::Chains(way.program().unwrap());
    match way.mode().name() {
        "nftables" => (NFTABLES, Rules::Table),
        "iptables" => (IPTABLES, chains()),
        "ipvs" => (ipvs::CASES, Rules::VirtualServers),
        "userspace" => (USERSPACE, chains()),
        other => panic!("what are the rules of the mode {other}, and what is tried there alone? Say it here"),
    }
}

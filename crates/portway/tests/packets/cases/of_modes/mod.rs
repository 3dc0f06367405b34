//! Cases that not every mode can have: each says by what it knows a mode that has it, so a mode of which nothing is known has none.
//!
//! Files here may name modes: what they are about is inside one, or between two.

mod carried;
mod drain;
mod remembered;
mod schedulers;
mod sores;
mod switch_from;

use kernel::xtables::Variant;

use super::{counted, preconditions, switch, takeover};
use crate::case::{Case, case};
use crate::way::Way;

/// The list.
pub(crate) const CASES: &[Case] = &[
    case!(remembered::root_affinity_outlives_restarts_and_another_iptables_program_but_no_other_mode)
        .of(Way::is_default),
    case!(counted::root_what_is_not_served_on_localhost_is_counted)
        .of(|way| way.mode().has_metric("nftables_localhost_nodeport_rejected_packets_total")),
    case!(takeover::root_taking_over_from_upstreams_nftables_table_disturbs_nobody).of(Way::is_default),
    case!(takeover::root_taking_over_from_upstreams_chains_in_iptables_nft_disturbs_nobody)
        .of(Way::is_default),
    case!(takeover::root_taking_over_from_upstreams_chains_in_iptables_legacy_disturbs_nobody)
        .of(Way::is_default),
    case!(counted::root_what_a_move_to_nftables_would_change_is_counted)
        .of(|way| way.mode().has_metric("iptables_ct_state_invalid_dropped_packets_total")),
    // Docker writes with this program.
    case!(preconditions::root_dockers_rules_give_no_false_error)
        .of(|way| way.is_by_kernel() && way.program() == Some(Variant::Nft)),
    case!(switch::root_switching_to_an_image_without_programs_disturbs_nobody)
        .of(|way| way.is_by_kernel() && way.program().is_some()),
    case!(carried::root_a_dead_pod_costs_the_client_no_error).of(Way::carries),
    case!(carried::root_after_a_crash_the_same_ports_are_bound_and_the_gap_is_short).of(Way::carries),
    case!(carried::root_a_port_of_ours_that_is_dialled_directly_refuses).of(Way::carries),
    case!(carried::root_switching_to_and_from_userspace_fails_no_new_connection).of(Way::carries),
    case!(carried::root_switching_from_userspace_to_an_image_without_programs_fails_no_new_connection)
        .of(Way::carries),
    case!(counted::root_what_virtual_servers_carried_is_counted)
        .of(Way::is_counted_by_kernel)
        .smoke(Way::is_counted_by_kernel),
    case!(sores::root_ports_of_the_host_do_not_answer_at_addresses_of_services)
        .of(Way::has_addresses_of_services)
        .smoke(Way::has_addresses_of_services),
    case!(sores::root_a_ping_of_a_service_is_answered_by_the_node).of(Way::has_addresses_of_services),
    case!(sores::root_an_address_that_is_the_hosts_too_is_told_and_never_removed)
        .of(Way::has_addresses_of_services),
    case!(sores::root_an_address_that_becomes_the_hosts_stays_when_the_service_goes)
        .of(Way::has_addresses_of_services),
    case!(sores::root_a_cleanup_leaves_nothing_and_gives_settings_back)
        .of(Way::has_addresses_of_services)
        .smoke(Way::has_addresses_of_services),
    case!(sores::root_neighbours_hear_of_no_address_with_strict_arp)
        .of(Way::has_addresses_of_services)
        .smoke(Way::has_addresses_of_services),
    case!(drain::root_an_endpoint_that_goes_keeps_its_connections_and_gets_no_new_ones)
        .of(Way::has_virtual_servers)
        .smoke(Way::has_virtual_servers),
    case!(drain::root_endpoints_that_drain_are_found_again_after_a_crash)
        .of(Way::has_virtual_servers)
        .smoke(Way::has_virtual_servers),
    case!(drain::root_an_endpoint_drains_no_longer_than_the_limit).of(Way::has_virtual_servers),
    case!(switch_from::root_switching_from_ipvs_to_nftables_and_back_disturbs_nobody)
        .of(Way::has_virtual_servers),
    case!(switch_from::root_switching_from_ipvs_to_iptables_nft_and_back_disturbs_nobody)
        .of(Way::has_virtual_servers),
    case!(switch_from::root_switching_from_ipvs_to_iptables_legacy_and_back_disturbs_nobody)
        .of(Way::has_virtual_servers),
    case!(remembered::root_affinity_in_ipvs_outlives_restarts_but_no_other_mode).of(Way::has_virtual_servers),
    case!(carried::root_switching_from_ipvs_to_userspace_and_back_fails_no_new_connection)
        .of(Way::has_virtual_servers),
    case!(schedulers::root_a_service_gets_every_scheduler_that_the_kernel_has)
        .of(has_schedulers)
        .smoke(has_schedulers),
    case!(schedulers::root_another_scheduler_fails_no_new_connection).of(has_schedulers),
    case!(schedulers::root_an_unknown_scheduler_is_told_and_the_chosen_one_serves).of(has_schedulers),
    case!(schedulers::root_source_hashing_keeps_a_client_and_least_connection_evens_out).of(has_schedulers),
];

/// Can a Service choose how its virtual servers choose?
fn has_schedulers(way: Way) -> bool {
    way.mode().setting("ipvs-scheduler").is_some()
}

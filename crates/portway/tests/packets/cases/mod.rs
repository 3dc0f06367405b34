//! The list of cases, one file for each theme. Each takes its setting, and with it the mode.
//!
//! A case that some modes alone can have says so by a property of the way; those that lean on what a mode does inside are in `of_modes`.

pub(crate) mod affinity;
pub(crate) mod balance;
pub(crate) mod changes;
pub(crate) mod confined;
pub(crate) mod counted;
pub(crate) mod crowd;
pub(crate) mod detect;
pub(crate) mod flows;
pub(crate) mod frontends;
pub(crate) mod host;
pub(crate) mod host_network;
pub(crate) mod kept_sockets;
pub(crate) mod live;
pub(crate) mod localhost;
pub(crate) mod of_modes;
pub(crate) mod payload;
pub(crate) mod policies;
pub(crate) mod preconditions;
pub(crate) mod refusals;
pub(crate) mod restart;
pub(crate) mod rolling;
pub(crate) mod sctp;
pub(crate) mod short;
pub(crate) mod sources;
pub(crate) mod starved;
pub(crate) mod strays;
pub(crate) mod switch;
pub(crate) mod takeover;
pub(crate) mod vanished;

use crate::case::{Case, case};
use crate::way::Way;

/// The list.
pub(crate) const CASES: &[Case] = &[
    case!(balance::root_connections_spread_evenly_over_endpoints),
    case!(balance::root_node_ports_spread_evenly_too),
    case!(balance::root_weights_shape_the_shares).smoke(Way::needs_vm),
    case!(affinity::root_a_client_stays_with_its_endpoint_at_every_frontend).smoke(Way::is_tried_in_vm),
    case!(affinity::root_affinity_ends_when_the_client_rests),
    case!(crowd::root_a_crowd_of_clients_is_remembered_as_far_as_the_mode_can),
    case!(sources::root_a_pod_keeps_its_address_and_others_are_masqueraded).smoke(Way::is_tried_in_vm),
    case!(sources::root_a_pod_that_reaches_itself_is_masqueraded).smoke(Way::needs_vm),
    case!(sources::root_masquerade_all_hides_pods_too),
    case!(host_network::root_endpoints_in_the_host_network_are_reached_from_everywhere).smoke(Way::needs_vm),
    case!(sources::root_without_a_detector_nobody_is_masqueraded),
    case!(detect::root_pods_are_known_by_their_nodes_network),
    case!(detect::root_pods_are_known_by_their_bridge),
    case!(detect::root_pods_are_known_by_the_names_of_their_interfaces),
    case!(policies::root_external_policy_local_keeps_the_client_or_drops_it).smoke(Way::is_tried_in_vm),
    case!(policies::root_internal_policy_local_stays_on_the_node),
    case!(policies::root_terminating_pods_serve_when_no_other_does),
    case!(refusals::root_a_service_without_endpoints_refuses_at_once).smoke(Way::is_tried_in_vm),
    case!(refusals::root_undefined_ports_unallocated_addresses_and_pings).smoke(Way::needs_vm),
    case!(refusals::root_a_service_of_another_proxy_is_left_alone),
    case!(frontends::root_node_ports_answer_on_both_nodes_whichever_has_the_pod).smoke(Way::is_tried_in_vm),
    case!(frontends::root_node_ports_answer_by_default_where_the_mode_promises),
    case!(frontends::root_node_ports_answer_on_chosen_networks),
    case!(frontends::root_node_ports_follow_the_addresses_of_the_host),
    case!(frontends::root_source_ranges_keep_strangers_from_the_load_balancer).smoke(Way::is_tried_in_vm),
    case!(frontends::root_external_ips_are_served),
    case!(frontends::root_a_service_of_one_family_ignores_the_other),
    case!(live::root_endpoints_come_and_go_without_a_failed_connection).smoke(Way::is_tried_in_vm),
    case!(changes::root_services_that_change_while_they_are_served_are_served_as_they_say_now)
        .smoke(Way::needs_vm),
    case!(rolling::root_a_rolling_update_behind_a_balancer_that_asks_for_health_fails_no_connection),
    case!(live::root_services_come_and_go_beside_one_that_serves),
    case!(restart::root_a_hand_over_disturbs_nobody).smoke(Way::needs_vm),
    case!(kept_sockets::root_a_kept_udp_socket_follows_its_pod_at_every_frontend).smoke(Way::needs_vm),
    case!(payload::root_large_payloads_pass_every_frontend_unchanged).smoke(Way::needs_vm),
    case!(flows::root_a_udp_client_whose_pod_was_replaced_during_a_restart_reaches_the_new_one)
        .smoke(Way::is_tried_in_vm),
    case!(flows::root_a_udp_client_that_spoke_before_any_endpoint_reaches_it_once_there_is_one),
    case!(flows::root_flows_of_a_deleted_service_do_not_leak_to_the_pod),
    case!(flows::root_flows_of_a_service_that_was_deleted_during_a_restart_do_not_leak),
    case!(flows::root_flows_of_others_are_left_alone),
    case!(strays::root_a_stray_segment_resets_no_connection).smoke(Way::needs_vm),
    case!(vanished::root_clients_of_a_vanished_pod_are_reset_and_all_others_go_on).smoke(Way::needs_vm),
    case!(vanished::root_clients_of_the_last_pod_are_reset_also_where_the_tracker_is_strict),
    case!(host::root_node_ports_move_with_the_address_of_the_host),
    case!(host::root_node_ports_answer_after_an_interface_was_renamed_and_went_down_and_up),
    case!(live::root_a_balancer_goes_on_when_a_node_dies),
    case!(localhost::root_node_ports_answer_on_localhost),
    case!(localhost::root_node_ports_answer_on_localhost_by_default_where_the_mode_promises),
    case!(localhost::root_a_hand_over_keeps_localhost_served),
    case!(localhost::root_nobody_else_reaches_node_ports_on_localhost),
    case!(confined::root_it_serves_with_the_capabilities_of_its_manifest_on_a_read_only_root)
        .smoke(Way::needs_vm),
    case!(restart::root_twenty_restarts_and_twenty_kills_break_nothing).of(Way::is_by_kernel),
    case!(switch::root_switching_between_modes_and_programs_disturbs_nobody).of(Way::is_default),
    case!(preconditions::root_a_host_that_does_not_forward_is_named_wherever_one_asks).of(Way::is_default),
    case!(preconditions::root_set_ip_forward_has_a_plain_host_forward).of(Way::is_default),
    case!(preconditions::root_a_firewall_that_drops_is_named_and_the_printed_command_helps)
        .of(Way::is_default),
    case!(preconditions::root_dockers_rules_give_no_false_error).of(Way::is_default),
    case!(preconditions::root_pods_on_one_bridge_without_bridge_netfilter_are_named).of(Way::is_default),
    case!(preconditions::root_a_pod_that_cannot_reach_itself_over_its_bridge_is_named).of(Way::is_default),
    case!(preconditions::root_a_client_that_the_reverse_path_filter_drops_is_told_why).of(Way::is_default),
    case!(strays::root_replies_that_alone_pass_a_node_arrive).of(Way::is_default),
    case!(short::root_a_restart_disturbs_nobody).of(Way::needs_vm).smoke(Way::is_tried_in_vm),
];

/// Beside CPU hogs, so that nothing else runs with them (see `nextest.toml`).
pub(crate) const STARVED: &[Case] = &[
    case!(starved::root_on_a_starved_machine_restarts_and_kills_lose_no_connection).of(Way::is_default),
    case!(starved::root_on_a_starved_machine_switches_of_mode_lose_no_connection).of(Way::is_default),
];

/// The same in every way, for hours.
pub(crate) const STARVED_LONG: &[Case] = &[
    case!(starved::root_on_a_starved_machine_restarts_and_kills_lose_no_connection).of(|way| !way.carries()),
    case!(starved::root_on_a_starved_machine_take_overs_lose_no_connection),
    case!(starved::root_on_a_starved_machine_switches_of_mode_lose_no_connection).of(Way::is_default),
];

/// Once a kernel has SCTP of its own, it answers hand-made packets: these come last.
pub(crate) const SCTP: &[Case] =
    &[case!(sctp::root_real_sctp_sockets_reach_their_endpoint).of(Way::is_tried_in_vm)];

/// All server pods of the playground.
const ALL: [&str; 4] = ["web-a-0", "web-a-1", "web-b-0", "web-b-1"];

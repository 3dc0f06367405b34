//! Real sockets through real rules: does traffic flow as the model says?
//!
//! Each case has a playground of its own: two nodes, each with its own `portway run`, pods on both and a client outside.
//! It writes manifests, waits until both are in sync, sends packets over IPv4 and IPv6 by TCP, UDP and SCTP, and compares
//! three things: what the case says, what `fate()` says of the same packet, and what the sockets see.
//!
//! | file | what it holds |
//! |---|---|
//! | `stage` | the playground with its two portways, and the manifests that both follow |
//! | `manifest` | Services and their slices, in few words |
//! | `talk` | one question over any protocol; how many were asked |
//! | `reference` | what the model says of a packet |
//! | `servers` | virtual servers of a node |
//! | `check` | rows of who dials what and where that must end |
//! | `confine` | a portway as a container holds it |
//! | `way` | the modes and programs for which the list is gone through |
//! | `upstream` | hand-made rules in upstream kube-proxy's shape, to take over from |
//! | `cases` | the list itself, one file for each theme |
//!
//! The list is written once; a mode or a program is one line below it. A case that fails prints the rules of both nodes, the logs of
//! both portways, and `portway explain` of its packet.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

mod cases;
mod check;
mod confine;
mod manifest;
mod reference;
mod servers;
mod stage;
mod talk;
mod upstream;
mod way;

/// The tests that need root: others leave them out by this name.
mod needs_root {
    /// A list, as tests of one mode and program.
    macro_rules! cases {
        ($way:ident: $($theme:ident::$case:ident)*) => {
            $(
                #[test]
                fn $case() {
                    crate::cases::$theme::$case(&crate::stage::Setting::of(
                        crate::way::Way::$way,
                        stringify!($case),
                    ));
                }
            )*
        };
    }

    /// One list for all modes and programs.
    macro_rules! all_cases {
        ($way:ident) => {
            cases! { $way:
                balance::root_connections_spread_evenly_over_endpoints
                balance::root_node_ports_spread_evenly_too
                balance::root_weights_shape_the_shares
                affinity::root_a_client_stays_with_its_endpoint_at_every_frontend
                affinity::root_affinity_ends_when_the_client_rests
                crowd::root_a_crowd_of_clients_is_remembered_as_far_as_the_mode_can
                sources::root_a_pod_keeps_its_address_and_others_are_masqueraded
                sources::root_a_pod_that_reaches_itself_is_masqueraded
                sources::root_masquerade_all_hides_pods_too
                host_network::root_endpoints_in_the_host_network_are_reached_from_everywhere
                sources::root_without_a_detector_nobody_is_masqueraded
                detect::root_pods_are_known_by_their_nodes_network
                detect::root_pods_are_known_by_their_bridge
                detect::root_pods_are_known_by_the_names_of_their_interfaces
                policies::root_external_policy_local_keeps_the_client_or_drops_it
                policies::root_internal_policy_local_stays_on_the_node
                policies::root_terminating_pods_serve_when_no_other_does
                refusals::root_a_service_without_endpoints_refuses_at_once
                refusals::root_undefined_ports_unallocated_addresses_and_pings
                refusals::root_a_service_of_another_proxy_is_left_alone
                frontends::root_node_ports_answer_on_both_nodes_whichever_has_the_pod
                frontends::root_node_ports_answer_by_default_where_the_mode_promises
                frontends::root_node_ports_answer_on_chosen_networks
                frontends::root_node_ports_follow_the_addresses_of_the_host
                frontends::root_source_ranges_keep_strangers_from_the_load_balancer
                frontends::root_external_ips_are_served
                frontends::root_a_service_of_one_family_ignores_the_other
                live::root_endpoints_come_and_go_without_a_failed_connection
                changes::root_services_that_change_while_they_are_served_are_served_as_they_say_now
                rolling::root_a_rolling_update_behind_a_balancer_that_asks_for_health_fails_no_connection
                live::root_services_come_and_go_beside_one_that_serves
                restart::root_a_hand_over_disturbs_nobody
                kept_sockets::root_a_kept_udp_socket_follows_its_pod_at_every_frontend
                payload::root_large_payloads_pass_every_frontend_unchanged
                flows::root_a_udp_client_whose_pod_was_replaced_during_a_restart_reaches_the_new_one
                flows::root_a_udp_client_that_spoke_before_any_endpoint_reaches_it_once_there_is_one
                flows::root_flows_of_a_deleted_service_do_not_leak_to_the_pod
                flows::root_flows_of_a_service_that_was_deleted_during_a_restart_do_not_leak
                flows::root_flows_of_others_are_left_alone
                strays::root_a_stray_segment_resets_no_connection
                vanished::root_clients_of_a_vanished_pod_are_reset_and_all_others_go_on
                vanished::root_clients_of_the_last_pod_are_reset_also_where_the_tracker_is_strict
                host::root_node_ports_move_with_the_address_of_the_host
                host::root_node_ports_answer_after_an_interface_was_renamed_and_went_down_and_up
                live::root_a_balancer_goes_on_when_a_node_dies
                localhost::root_node_ports_answer_on_localhost
                localhost::root_node_ports_answer_on_localhost_by_default_where_the_mode_promises
                localhost::root_a_hand_over_keeps_localhost_served
                localhost::root_nobody_else_reaches_node_ports_on_localhost
                confined::root_it_serves_with_the_capabilities_of_its_manifest_on_a_read_only_root
            }
        };
    }

    /// Those of modes whose connections outlive portway.
    macro_rules! kernel_cases {
        ($way:ident) => {
            cases! { $way:
                restart::root_twenty_restarts_and_twenty_kills_break_nothing
            }
        };
    }

    pub(crate) use {all_cases, cases};

    /// Beside CPU hogs, so that nothing else runs with them (see `nextest.toml`).
    mod starved {
        crate::needs_root::cases! { Nftables:
            starved::root_on_a_starved_machine_restarts_and_kills_lose_no_connection
            starved::root_on_a_starved_machine_switches_of_mode_lose_no_connection
        }
    }

    mod nftables {
        all_cases!(Nftables);
        kernel_cases!(Nftables);

        // Once for all: a tour through every mode is the same wherever it begins. And from upstream's rules into this mode.
        cases! { Nftables:
            switch::root_switching_between_modes_and_programs_disturbs_nobody
            remembered::root_affinity_outlives_restarts_and_another_iptables_program_but_no_other_mode
            preconditions::root_a_host_that_does_not_forward_is_named_wherever_one_asks
            preconditions::root_set_ip_forward_has_a_plain_host_forward
            preconditions::root_a_firewall_that_drops_is_named_and_the_printed_command_helps
            preconditions::root_dockers_rules_give_no_false_error
            preconditions::root_pods_on_one_bridge_without_bridge_netfilter_are_named
            preconditions::root_a_pod_that_cannot_reach_itself_over_its_bridge_is_named
            preconditions::root_a_client_that_the_reverse_path_filter_drops_is_told_why
            strays::root_replies_that_alone_pass_a_node_arrive
            counted::root_what_is_not_served_on_localhost_is_counted
            takeover::root_taking_over_from_upstreams_nftables_table_disturbs_nobody
            takeover::root_taking_over_from_upstreams_chains_in_iptables_nft_disturbs_nobody
            takeover::root_taking_over_from_upstreams_chains_in_iptables_legacy_disturbs_nobody
        }
    }

    mod iptables_nft {
        all_cases!(IptablesNft);
        kernel_cases!(IptablesNft);

        cases! { IptablesNft:
            counted::root_what_a_move_to_nftables_would_change_is_counted
            preconditions::root_dockers_rules_give_no_false_error
            switch::root_switching_to_an_image_without_programs_disturbs_nobody
        }
    }

    mod iptables_legacy {
        all_cases!(IptablesLegacy);
        kernel_cases!(IptablesLegacy);

        cases! { IptablesLegacy:
            counted::root_what_a_move_to_nftables_would_change_is_counted
            switch::root_switching_to_an_image_without_programs_disturbs_nobody
        }
    }

    mod userspace {
        all_cases!(Userspace);

        cases! { Userspace:
            carried::root_a_dead_pod_costs_the_client_no_error
            carried::root_after_a_crash_the_same_ports_are_bound_and_the_gap_is_short
            carried::root_a_port_of_ours_that_is_dialled_directly_refuses
            carried::root_switching_to_and_from_userspace_fails_no_new_connection
            carried::root_switching_from_userspace_to_an_image_without_programs_fails_no_new_connection
        }
    }
}

/// The tests that take minutes. Nothing runs them by itself: CONTRIBUTING.md has the command.
mod needs_time {
    mod starved {
        macro_rules! starved_cases {
            ($way:ident) => {
                crate::needs_root::cases! { $way:
                    starved::root_on_a_starved_machine_restarts_and_kills_lose_no_connection
                    starved::root_on_a_starved_machine_take_overs_lose_no_connection
                }
            };
        }

        mod nftables {
            starved_cases!(Nftables);
            crate::needs_root::cases! { Nftables:
                starved::root_on_a_starved_machine_switches_of_mode_lose_no_connection
            }
        }

        mod iptables_nft {
            starved_cases!(IptablesNft);
        }

        mod iptables_legacy {
            starved_cases!(IptablesLegacy);
        }

        mod userspace {
            crate::needs_root::cases! { Userspace: starved::root_on_a_starved_machine_take_overs_lose_no_connection }
        }
    }
}

/// The tests that need the VM's kernel: `cargo xtask test` runs them there, and leaves them out elsewhere by this name.
mod needs_vm {
    use crate::needs_root::{all_cases, cases};

    mod nftables {
        super::cases! { Nftables:
            short::root_a_restart_disturbs_nobody
        }
    }

    mod ipvs {
        use super::cases;

        super::all_cases!(Ipvs);

        cases! { Ipvs:
            short::root_a_restart_disturbs_nobody
            counted::root_what_virtual_servers_carried_is_counted
            sores::root_ports_of_the_host_do_not_answer_at_addresses_of_services
            sores::root_a_ping_of_a_service_is_answered_by_the_node
            sores::root_an_address_that_is_the_hosts_too_is_told_and_never_removed
            sores::root_an_address_that_becomes_the_hosts_stays_when_the_service_goes
            sores::root_a_cleanup_leaves_nothing_and_gives_settings_back
            sores::root_neighbours_hear_of_no_address_with_strict_arp
            drain::root_an_endpoint_that_goes_keeps_its_connections_and_gets_no_new_ones
            drain::root_endpoints_that_drain_are_found_again_after_a_crash
            drain::root_an_endpoint_drains_no_longer_than_the_limit
            switch::root_switching_from_ipvs_to_nftables_and_back_disturbs_nobody
            switch::root_switching_from_ipvs_to_iptables_nft_and_back_disturbs_nobody
            switch::root_switching_from_ipvs_to_iptables_legacy_and_back_disturbs_nobody
            remembered::root_affinity_in_ipvs_outlives_restarts_but_no_other_mode
            carried::root_switching_from_ipvs_to_userspace_and_back_fails_no_new_connection
            schedulers::root_a_service_gets_every_scheduler_that_the_kernel_has
            schedulers::root_another_scheduler_fails_no_new_connection
            schedulers::root_an_unknown_scheduler_is_told_and_the_chosen_one_serves
            schedulers::root_source_hashing_keeps_a_client_and_least_connection_evens_out
            starved::root_on_a_starved_machine_restarts_and_kills_lose_no_connection
            starved::root_on_a_starved_machine_take_overs_lose_no_connection
        }
    }

    /// By themselves, since they come last: once a kernel has SCTP of its own, it answers hand-made packets.
    mod sctp {
        use super::cases;

        mod nftables {
            super::cases! { Nftables: sctp::root_real_sctp_sockets_reach_their_endpoint }
        }

        mod ipvs {
            super::cases! { Ipvs: sctp::root_real_sctp_sockets_reach_their_endpoint }
        }
    }
}

//! What becomes of all that the ipvs mode wrote when somebody takes it away, cleans up, or changes the mode.

use kernel::ipvs::Ipvs as _;

use super::{HOST, Kernel, cleanup, place, start, tcp};
use crate::common::{Place, Running};

/// How the mode that comes after is started.
type Start = fn(&Place, &str) -> Running;

#[test]
fn root_ipvs_another_mode_removes_all_of_it_once_its_own_rules_are_in_force() {
    another_mode_removes_all(Place::start_with);
}

/// As in the image of the nftables mode.
#[test]
fn root_ipvs_without_programs_another_mode_removes_all_of_it_too() {
    another_mode_removes_all(Place::start_without_programs);
}

fn another_mode_removes_all(start_other: Start) {
    let Some(place) = place() else { return };
    assert_eq!(start(&place, "").terminate(), Some(0));
    assert_eq!(Kernel::read(&place).servers.len(), 2);
    let running = start_other(&place, "--mode nftables --service-cidr 10.10.0.0/16");
    running.wait_for("portway is in sync");
    place.until("all of it is gone", || {
        let now = Kernel::read(&place);
        now.servers.is_empty() && now.sets.is_empty() && !place.ip("link").contains("kube-ipvs0")
    });
    let after = Kernel::read(&place);
    assert_eq!(after.setting("net/ipv4/vs/conntrack"), "0", "settings are as they were");
    assert_eq!(after.setting("net/ipv4/ip_forward"), "1", "but the mode in force needs this one");
    assert!(!place.tool("iptables-save", "").contains("PORTWAY-"));
    assert!(after.is_on(HOST, "eth0"));
    assert!(place.nft("list table ip kube-proxy").contains("10.10.0.1"), "the mode in force is not touched");
    place.until("it is told", || {
        place.portway("status").says_anything_of("2 virtual servers and 1 addresses of our ipvs mode")
    });
    let took_over = place.portway("status");
    took_over.says(&["chains of our ipvs mode"]);
    assert!(!took_over.says_anything_of("Stays:"), "{took_over}");
    // Beside a portway of another mode, somebody who cleans up hears what that means.
    place
        .portway("cleanup --mode ipvs")
        .refused(1, &["a portway runs on this node in mode `nftables`", "its rules stay"]);
    place
        .portway("cleanup --mode ipvs --force")
        .ends_with(0)
        .says(&["Nothing of the ipvs mode is in this kernel."]);
}

#[test]
fn root_ipvs_a_cleanup_of_another_mode_names_what_stays_and_the_one_of_this_counts_it() {
    let Some(place) = place() else { return };
    let mut running = start(&place, "");
    place.portway("cleanup --mode ipvs").refused(1, &["would write its rules again: stop it first"]);
    assert_eq!(running.terminate(), Some(0));
    let stays = "2 virtual servers, 1 address, 26 sets, the interface kube-ipvs0 of the ipvs mode stay";
    let said = place.portway("cleanup").ends_with(1);
    for words in [stays, "chains of our ipvs mode", "`portway cleanup --mode ipvs` removes them"] {
        assert!(said.err.contains(words), "no {words:?} in {said}");
    }
    assert!(!said.err.contains("--mode iptables"), "{said}");
    let said = place.portway("cleanup --mode iptables").ends_with(1);
    assert!(said.err.contains(stays), "{said}");
    assert!(Kernel::read(&place).servers.contains_key(&tcp("10.10.0.1:8410")));
    cleanup(&place)
        .says(&["Removed 2 virtual servers, 1 address, 26 sets, the interface kube-ipvs0 of the ipvs mode"]);
    cleanup(&place).says(&["Nothing of the ipvs mode is in this kernel."]);
    place.portway("cleanup").fine();
}

#[test]
fn root_ipvs_a_cleanup_under_upstreams_name_leaves_what_its_flags_exclude() {
    let Some(place) = place() else { return };
    assert_eq!(start(&place, "").terminate(), Some(0));
    let node_port = tcp(&format!("{HOST}:30410"));
    assert!(Kernel::read(&place).servers.contains_key(&node_port));
    place.finish_kube_proxy("--cleanup --ipvs-exclude-cidrs=10.10.0.0/16").ends_with(0);
    let after = Kernel::read(&place);
    assert!(after.servers.contains_key(&tcp("10.10.0.1:8410")), "{after:#?}");
    assert!(!after.servers.contains_key(&node_port), "{after:#?}");
}

/// The periodic compare would come after ten minutes.
#[test]
fn root_ipvs_the_interface_and_addresses_that_somebody_deletes_are_back_within_seconds() {
    let Some(place) = place() else { return };
    let _running = start(&place, "--sync-period 10m");
    let written = Kernel::read(&place);
    for command in ["address delete 10.10.0.1/32 dev kube-ipvs0", "link delete kube-ipvs0"] {
        place.ip(command);
        place.until("all is as it was", || Kernel::read(&place) == written);
    }
    place.until("the repairs are counted", || super::status(&place)["drift"]["repairs"].as_u64() >= Some(2));
}

#[test]
fn root_ipvs_a_scheduler_whose_module_is_missing_is_refused_before_anything_is_written() {
    let Some(place) = place() else { return };
    let before = Kernel::read(&place);
    // Nobody loads modules meanwhile; one that an earlier test had loaded goes.
    let loader = "/proc/sys/kernel/modprobe";
    let former = std::fs::read_to_string(loader).unwrap();
    std::fs::write(loader, "/nonexistent").unwrap();
    let _ = std::process::Command::new("rmmod").arg("ip_vs_ovf").output();
    let said = place.portway(&format!("run --from manifests {} --ipvs-scheduler ovf", super::MODE));
    std::fs::write(loader, former.trim()).unwrap();
    said.refused(1, &["this kernel has no IPVS scheduler `ovf`: load the module `ip_vs_ovf`"]);
    assert_eq!(Kernel::read(&place), before);
    // With a module that can be loaded it is the Service's.
    let mut running = start(&place, "--ipvs-scheduler mh");
    let all = place.inside(|| kernel::ipvs::Netlink::open().unwrap().virtual_servers().unwrap());
    assert!(all.len() == 2 && all.iter().all(|one| one.scheduler == "mh"), "{all:?}");
    assert_eq!(running.terminate(), Some(0));
}

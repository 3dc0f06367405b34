//! The twin executes packets. The same layout carries real traffic in `nft_traffic.rs`.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use common::layout::{self, PICK_2, STICKY, pod, service};
use kernel::IpProtocol;
use kernel::nft::{Error, Family, Kernel, Operation, Reject, Transaction};
use kernel_sim::nft::{Fate, Outcome, Path, SimPacket, Simulated};

const START: Duration = Duration::from_secs(1_000);

fn twin(family: Family) -> Simulated {
    let mut twin = Simulated::default();
    twin.run(&layout::full(family)).unwrap();
    twin
}

fn packet(family: Family, source: IpAddr, destination: IpAddr) -> SimPacket {
    SimPacket {
        family,
        path: Path::Arrives("veth0".into()),
        source,
        destination,
        protocol: IpProtocol::TCP,
        port: Some(80),
        mark: 0,
        priority: 0,
        local: BTreeSet::new(),
    }
}

fn send(twin: &mut Simulated, packet: &SimPacket, slot: u32) -> Outcome {
    twin.send(packet, START, &mut |modulus| slot % modulus)
}

#[test]
fn each_slot_leads_to_its_endpoint_and_the_source_of_a_pod_is_kept() {
    for family in Family::ALL {
        let mut twin = twin(family);
        let packet = packet(family, pod(family, 9), service(family, 10));
        for slot in 0..2u8 {
            let outcome = send(&mut twin, &packet, slot.into());
            let fate = Fate::Dnat(pod(family, slot + 1), Some(8080));
            assert_eq!(outcome, Outcome { fate, masqueraded: false, mark: 0, priority: 0 });
        }
    }
}

#[test]
fn outside_clients_are_masqueraded_and_a_foreign_mark_is_kept() {
    let family = Family::V4;
    let outside = "172.16.0.10".parse().unwrap();
    let packet = SimPacket { mark: 0x2_0001, ..packet(family, outside, service(family, 10)) };
    let outcome = send(&mut twin(family), &packet, 0);
    assert!(outcome.masqueraded);
    assert_eq!(outcome.mark, 0x2_0001);
}

#[test]
fn a_pod_that_is_sent_back_to_itself_is_masqueraded() {
    let family = Family::V6;
    let packet = packet(family, pod(family, 1), service(family, 10));
    assert!(send(&mut twin(family), &packet, 0).masqueraded);
    assert!(!send(&mut twin(family), &packet, 1).masqueraded);
}

#[test]
fn a_service_without_endpoints_is_refused_by_reset_or_icmp() {
    let family = Family::V4;
    let mut tcp = packet(family, pod(family, 9), service(family, 40));
    assert_eq!(send(&mut twin(family), &tcp, 0).fate, Fate::Rejected(Reject::TcpReset));
    tcp.protocol = IpProtocol::UDP;
    assert_eq!(send(&mut twin(family), &tcp, 0).fate, Fate::Untouched, "udp is another frontend");
}

#[test]
fn other_traffic_is_untouched() {
    for family in Family::ALL {
        let mut ping = packet(family, pod(family, 9), service(family, 10));
        (ping.protocol, ping.port) = (IpProtocol::ICMP, None);
        assert_eq!(send(&mut twin(family), &ping, 0).fate, Fate::Untouched);
        let other = packet(family, pod(family, 9), pod(family, 2));
        assert_eq!(send(&mut twin(family), &other, 0).fate, Fate::Untouched);
    }
}

#[test]
fn a_client_stays_with_its_endpoint_until_it_is_idle_for_the_timeout() {
    for family in Family::ALL {
        let mut twin = twin(family);
        let packet = packet(family, pod(family, 9), service(family, 60));
        let mut at = |seconds, slot: u32| {
            let now = START + Duration::from_secs(seconds);
            twin.send(&packet, now, &mut |modulus| slot % modulus).fate
        };
        let (first, second) =
            (Fate::Dnat(pod(family, 1), Some(8080)), Fate::Dnat(pod(family, 2), Some(8080)));
        assert_eq!(at(0, 0), first, "picked");
        assert_eq!(at(10_000, 1), first, "remembered");
        assert_eq!(at(20_000, 1), first, "refreshed by the last connection");
        assert_eq!(at(20_000 + 10_801, 1), second, "forgotten, picked anew");
    }
}

#[test]
fn a_retired_endpoint_is_missed_and_another_one_is_picked() {
    let family = Family::V4;
    let mut twin = twin(family);
    let packet = packet(family, pod(family, 9), service(family, 60));
    assert_eq!(send(&mut twin, &packet, 0).fate, Fate::Dnat(pod(family, 1), Some(8080)));
    let listed = twin.list(family, layout::TABLE).unwrap().unwrap();
    let retired = listed.sets["sticky-endpoints"].elements[0].clone();
    let mut transaction = Transaction::new(family, layout::TABLE);
    transaction.push(Operation::DeleteElements("sticky-endpoints".into(), vec![retired]));
    twin.run(&transaction).unwrap();
    assert_eq!(send(&mut twin, &packet, 1).fate, Fate::Dnat(pod(family, 2), Some(8080)));
    assert_eq!(send(&mut twin, &packet, 0).fate, Fate::Dnat(pod(family, 2), Some(8080)), "and remembered");
}

#[test]
fn the_host_itself_goes_through_output() {
    let family = Family::V4;
    let own = pod(family, 200);
    let packet = SimPacket {
        path: Path::Output,
        local: BTreeSet::from([own]),
        ..packet(family, own, service(family, 10))
    };
    let outcome = send(&mut twin(family), &packet, 1);
    assert_eq!(outcome.fate, Fate::Dnat(pod(family, 2), Some(8080)));
    assert_eq!(outcome.priority, 0, "the class is taken off again");
    assert_ne!(PICK_2 & STICKY, STICKY);
}

#[test]
fn injected_faults_apply_nothing_and_look_like_the_kernels_own() {
    let family = Family::V4;
    let mut twin = Simulated::default();
    for (errno, expected) in [
        (libc::EPERM, Error::NotPermitted),
        (libc::ENOBUFS, Error::Overrun),
        (libc::ENOMEM, Error::OutOfMemory),
        (libc::EINTR, Error::Raced),
    ] {
        twin.refuse_next(1, errno);
        assert_eq!(twin.run(&layout::full(family)), Err(expected));
        assert_eq!(twin.list(family, layout::TABLE), Ok(None));
    }
    twin.refuse_next(2, libc::EBUSY);
    for _ in 0..2 {
        let error = twin.run(&layout::full(family)).unwrap_err();
        assert!(error.retry_helps() && error.to_string().contains("EBUSY"), "{error}");
    }
    twin.run(&layout::full(family)).unwrap();
}

//! IPVS: the same steps on the simulated one and on the real kernel's end alike: same servers, same refusals, same ways of
//! packets. The real side needs a kernel that has IPVS: it runs in the VM.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

#[path = "../common/mod.rs"]
mod common;
mod steps;
mod traffic;

use std::net::SocketAddr;

use kernel::IpProtocol;
use kernel::ipvs::{Error, FoundServer, Ipvs, Netlink, Request, Timeouts, VirtualServer, What};
use kernel_sim::ipvs::Simulated;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn tcp(text: &str) -> What {
    What::Address(at(text), IpProtocol::TCP)
}

fn contents(door: &mut impl Ipvs) -> Vec<(VirtualServer, Vec<FoundServer>)> {
    let servers = door.virtual_servers().unwrap();
    let with_real = |server: VirtualServer| {
        let real = door.real_servers(&server.what).unwrap();
        (server, real)
    };
    servers.into_iter().map(with_real).collect()
}

#[test]
fn clones_of_a_twin_are_one_kernel_and_a_copy_is_another() {
    let mut one = Simulated::default();
    let (mut same, mut other) = (one.clone(), one.copy());
    one.run(&[Request::Add(VirtualServer::new(tcp("10.96.0.1:80"), "rr"))]).unwrap();
    assert_eq!((contents(&mut same).len(), contents(&mut other).len()), (1, 0));
}

#[test]
fn a_fault_strikes_everything_and_goes() {
    let mut twin = Simulated::default();
    twin.set_fault(Some(Error::Missing));
    assert_eq!(twin.virtual_servers(), Err(Error::Missing));
    assert_eq!(twin.run(&[Request::Delete(tcp("10.96.0.1:80"))]), Err(Error::Missing));
    twin.set_fault(None);
    assert_eq!(twin.virtual_servers(), Ok(vec![]));
    assert_eq!(twin.messages(), 3);
}

#[test]
fn a_missing_scheduler_is_named_with_its_module() {
    let mut twin = Simulated::default();
    twin.forget_scheduler("wrr");
    let refused = twin.run(&[Request::Add(VirtualServer::new(tcp("10.96.0.1:80"), "wrr"))]).unwrap();
    assert_eq!(refused[0].missing_scheduler(), Some("wrr"));
    let said = refused[0].to_string();
    assert!(said.contains("add virtual server TCP 10.96.0.1:80") && said.contains("`ip_vs_wrr`"), "{said}");
}

#[test]
fn connections_are_counted_as_a_test_says() {
    let mut twin = Simulated::default();
    let (what, server) = (tcp("10.96.0.1:80"), at("10.1.0.1:8080"));
    assert!(!twin.set_connections(&what, server, 1, 2), "there is no such server");
    twin.run(&[
        Request::Add(VirtualServer::new(what, "rr")),
        Request::AddServer(what, kernel::ipvs::RealServer::masquerading(server, 1)),
    ])
    .unwrap();
    assert!(twin.set_connections(&what, server, 1, 2));
    let found = twin.real_servers(&what).unwrap();
    assert_eq!((found[0].active, found[0].inactive), (1, 2));
}

mod needs_root {
    use super::*;

    #[test]
    fn root_a_kernel_without_ipvs_says_which_module_to_load() {
        match Netlink::open() {
            Ok(_) => eprintln!("skipped: this kernel has IPVS"),
            Err(error) => {
                assert_eq!(error, Error::Missing);
                assert!(error.to_string().contains("load the module `ip_vs`"), "{error}");
            }
        }
    }
}

mod needs_vm {
    use super::*;

    /// IPVS in a namespace of this thread's own. The tests load the module, as an administrator would.
    fn real() -> Option<Netlink> {
        if std::env::var_os("PORTWAY_VM").is_none() {
            eprintln!("skipped: it needs the VM's kernel: `cargo xtask vm --smoke`");
            return None;
        }
        // Where no link was ever up the kernel has no table of addresses, and takes every server for a broadcast address.
        assert!(common::enter_namespace() && common::ip(&["link set lo up"]), "the VM's tests are root's");
        common::run("modprobe", &["ip_vs"], "").unwrap();
        Some(Netlink::open().unwrap())
    }

    #[test]
    fn root_real_and_simulated_servers_end_alike() {
        let (Some(mut real), mut twin) = (real(), Simulated::default()) else { return };
        assert_eq!(contents(&mut real), contents(&mut twin), "nothing is there");
        let mut requests = 0;
        for step in steps::all() {
            let refused = [real.run(&step).unwrap(), twin.run(&step).unwrap()];
            let said = refused.map(|all| all.iter().map(|r| (r.at, r.to_string())).collect::<Vec<_>>());
            assert_eq!(said[0], said[1], "{step:#?}");
            assert_eq!(contents(&mut real), contents(&mut twin), "{step:#?}");
            assert_eq!(real.timeouts(), twin.timeouts());
            requests += step.len();
        }
        assert_eq!(
            real.real_servers(&tcp("10.96.9.9:9")),
            Ok(vec![]),
            "unknown servers have none behind them"
        );
        assert_eq!(contents(&mut real).len(), 0, "all steps were walked to their end");
        eprintln!("counted: {requests} IPVS requests on both kernels");
    }

    #[test]
    fn root_packets_reach_whom_the_twin_says() {
        let (Some(mut real), mut twin) = (real(), Simulated::default()) else { return };
        traffic::walk(&mut real, &mut twin);
    }

    #[test]
    fn root_ten_thousand_real_servers_are_written_and_read() {
        let Some(mut real) = real() else { return };
        let mut requests = Vec::new();
        for service in 0..100u8 {
            let what = tcp(&format!("10.96.0.{service}:80"));
            requests.push(Request::Add(VirtualServer::new(what, "rr")));
            let server =
                |port| kernel::ipvs::RealServer::masquerading(at(&format!("10.1.0.{service}:{port}")), 1);
            requests.extend((1..=100).map(|port| Request::AddServer(what, server(port))));
        }
        assert_eq!(real.run(&requests).unwrap().first(), None);
        let before = real.messages();
        let found = contents(&mut real);
        assert_eq!((found.len(), found.iter().map(|(_, real)| real.len()).sum::<usize>()), (100, 10_000));
        assert_eq!(real.messages() - before, 101);
        // All refused, and all told.
        assert_eq!(real.run(&requests).unwrap().len(), requests.len());
    }

    #[test]
    fn root_the_ipvsadm_program_sees_the_same() {
        let Some(mut real) = real() else { return };
        let (what, server) = (tcp("10.10.0.1:8410"), at("172.16.1.5:8080"));
        let persistent = VirtualServer { persistence_s: Some(10_800), ..VirtualServer::new(what, "wrr") };
        let requests = [
            Request::Add(persistent),
            Request::AddServer(what, kernel::ipvs::RealServer::masquerading(server, 3)),
            Request::Add(VirtualServer::new(What::Mark(7, kernel::ipvs::Family::V6), "mh")),
            Request::SetTimeouts(Timeouts { tcp_s: 7200, tcp_fin_s: 0, udp_s: 60 }),
        ];
        assert_eq!(real.run(&requests).unwrap(), []);
        let print = |option: &str| {
            let output = common::run("ipvsadm", &[option, "-n"], "").unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let rules = print("-S");
        for line in [
            "-A -t 10.10.0.1:8410 -s wrr -p 10800",
            "-a -t 10.10.0.1:8410 -r 172.16.1.5:8080 -m -w 3",
            "-A -f 7 -6 -s mh",
        ] {
            assert!(rules.lines().any(|found| found.trim_end() == line), "{line} in\n{rules}");
        }
        let output = common::run("ipvsadm", &["-L", "--timeout"], "").unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("7200 120 60"), "{output:?}");
    }
}

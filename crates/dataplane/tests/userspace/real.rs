//! Userspace mode as a whole: the rules of both iptables programs, the real relay, and connections through them; the endpoint is the
//! node itself.

mod needs_root {
    use dataplane::relay::{Options as RelayOptions, Relay};
    use kernel::xtables::Programs;
    use playground::plan::node;
    use playground::{Outcome, Place, Playground, Ports, Refusal};

    use crate::*;
    use dataplane::sim::cluster::{at, table};

    type Real = Userspace<Programs, Relay>;

    const CLUSTER_IP: &str = "10.96.0.9";

    #[test]
    fn root_connections_go_through_rules_and_relay_and_none_around_them() {
        for variant in Variant::ALL {
            let mut programs = Programs::find().programs;
            programs.retain(|program| program.variant() == variant);
            if programs.len() < 2 {
                return eprintln!("skipped: {variant} is not installed");
            }
            let options = playground::Options { serve: None, ..Default::default() };
            let mut playground = match Playground::new(&options) {
                Ok(playground) => playground,
                Err(error) => return eprintln!("skipped: {error}"),
            };
            playground.serve("a", &Ports::default()).unwrap();
            let (host, own) = (playground.place("a"), node(1).v4.to_string());
            let services =
                format!("svc web {CLUSTER_IP} web:80@30080,dns:53/UDP\nep web web:8080,dns:8080/UDP {own}@a");
            let table = table(at(&[&own]), &services);
            let mut mode = host.run(|| begin(&programs, &table)).unwrap();
            let ports = mode.ports().clone();
            let places = [playground.outside(), host];
            for place in places {
                is_served(place, CLUSTER_IP, &own);
                for (id, port) in ports.iter() {
                    let outcome = ask(place, id.port.protocol, &own, port);
                    assert!(is_refused(&outcome), "{id}, from {}: {outcome:?}", place.name());
                }
            }
            // The process is killed, and the next one binds the same ports.
            drop(mode);
            assert!(is_refused(&ask(places[0], Protocol::Tcp, CLUSTER_IP, 80)));
            mode = host.run(|| begin(&programs, &table)).unwrap();
            assert_eq!(mode.ports(), &ports);
            is_served(places[0], CLUSTER_IP, &own);
        }
    }

    fn begin(programs: &[Programs], table: &ForwardingTable) -> Real {
        let relay = Relay::start(RelayOptions::default()).unwrap();
        let mut mode = Userspace::new(programs.to_vec(), relay, Options::default());
        let synced = mode.sync(table, Scope::Everything).unwrap();
        assert!(synced.refused.is_empty() && synced.warned.is_empty(), "{synced:?}");
        mode
    }

    /// The answer must come from where the question went: a connected socket hears nothing else.
    fn is_served(place: &Place, cluster_ip: &str, node: &str) {
        let udp = (Protocol::Udp, cluster_ip, 53);
        for (protocol, ip, port) in
            [(Protocol::Tcp, cluster_ip, 80), (Protocol::Tcp, node, 30080), udp, udp, udp]
        {
            let outcome = ask(place, protocol, ip, port);
            assert!(outcome.reply().is_some(), "{protocol} {ip}:{port} from {}: {outcome:?}", place.name());
        }
    }

    fn ask(place: &Place, protocol: Protocol, ip: &str, port: u16) -> Outcome {
        let ask = if protocol == Protocol::Tcp { playground::tcp } else { playground::udp };
        ask(place, SocketAddr::new(ip.parse().unwrap(), port))
    }

    fn is_refused(outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Refused { refusal: Refusal::Port, .. })
    }
}

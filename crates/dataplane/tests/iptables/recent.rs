//! What `recent` remembers: so many clients of each endpoint, and no more. The mode's README tells users what follows.
mod needs_root {
    use std::collections::BTreeSet;
    use std::fs::read_to_string;
    use std::net::{Ipv4Addr, UdpSocket};

    use dataplane::iptables::{Names, Options, render};
    use model::{Family, ForwardingTable};

    use crate::tool::{Tool, VARIANTS};
    use dataplane::sim::cluster::table_of;

    /// How many clients a list has room for.
    const ROOM: &str = "/sys/module/xt_recent/parameters/ip_list_tot";

    #[test]
    fn root_an_endpoint_remembers_a_hundred_clients_and_those_stay_with_it() {
        let table =
            table_of("svc web 10.96.0.1 80/UDP affinity=ClientIP\nep web 8080/UDP 10.244.0.1 10.244.0.2");
        for variant in VARIANTS {
            let tool = ready(variant, &table);
            let Ok(tool) = tool.inspect_err(|why| eprintln!("skipped: iptables-{variant}: {why}")) else {
                continue;
            };
            let room: u16 = read_to_string(ROOM).map_or(100, |text| text.trim().parse().unwrap());
            // Twice what both lists hold, so that both are full whatever is drawn.
            let clients = 4 * room;
            let inside = || {
                (1..=clients).for_each(|client| send(address(client)));
                let first = lists(&table);
                // Again, those that are remembered: each is found on its list, so no list changes.
                first.iter().flatten().copied().for_each(send);
                (first, lists(&table))
            };
            let (first, second) = tool.namespace.run(inside).unwrap();
            let lengths = first.each_ref().map(BTreeSet::len);
            assert_eq!(lengths, [usize::from(room); 2], "each list is full, and no fuller");
            assert!(first[0].is_disjoint(&first[1]), "a client is on one list");
            assert_eq!(first, second, "who is remembered stays");
            // The last one who came has pushed out another, and was not pushed out.
            assert!(first.iter().any(|list| list.contains(&address(clients))));
            eprintln!("counted: {} of {clients} clients remembered by iptables-{variant}", 2 * room);
        }
    }

    /// A namespace with these rules, in which everything is sent to itself.
    fn ready(variant: &'static str, table: &ForwardingTable) -> Result<Tool, String> {
        let tool = Tool::new(variant, Family::V4)?;
        tool.run("ip link set lo up", "")?;
        tool.run("ip route add 10.0.0.0/8 dev lo", "")?;
        tool.restore("--noflush", &render(table, Family::V4, &Options::default()))?;
        Ok(tool)
    }

    fn address(client: u16) -> Ipv4Addr {
        let [high, low] = client.to_be_bytes();
        Ipv4Addr::new(127, 1, high, low)
    }

    /// The first packet of a new connection. Nobody need answer.
    fn send(client: Ipv4Addr) {
        UdpSocket::bind((client, 0)).unwrap().send_to(b"hello", "10.96.0.1:80").unwrap();
    }

    /// Who is on the list of each endpoint.
    fn lists(table: &ForwardingTable) -> [BTreeSet<Ipv4Addr>; 2] {
        let port = table.ports().next().unwrap();
        let (names, pool) = (Names::of(port.id()), port.routes[0].inside.pool().unwrap());
        [0, 1].map(|at| {
            let list = names.endpoint(&pool.endpoints()[at]);
            let text = read_to_string(format!("/proc/thread-self/net/xt_recent/{list}")).unwrap();
            let source = |line: &str| line.strip_prefix("src=")?.split(' ').next()?.parse().ok();
            text.lines().filter_map(source).collect()
        })
    }
}

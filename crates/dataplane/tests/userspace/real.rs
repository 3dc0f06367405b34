//! Userspace mode as a whole: the rules of both iptables programs, the real relay, and connections through them, in network
//! namespaces: a client, and a node that has the endpoint.

mod needs_root {
    use dataplane::registry::known_chains;
    use dataplane::upstream::clear_all;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
    use std::process::Command;
    use std::time::Duration;

    use dataplane::relay::{Options as RelayOptions, Relay};
    use dataplane::userspace::{Options, Userspace};
    use dataplane::{Dataplane, Scope};
    use kernel::xtables::{Programs, Variant, Xtables};
    use model::{ForwardingTable, Protocol};
    use playground::namespace::Namespace;

    use crate::cluster::{at, table};

    type Mode = Userspace<Programs, Relay>;

    const LIMIT: Duration = Duration::from_secs(10);
    const NODE: &str = "10.0.0.5";
    const CLUSTER_IP: &str = "10.254.0.9";

    #[test]
    fn root_connections_go_through_rules_and_relay_and_none_around_them() {
        for variant in Variant::ALL {
            let (node, client) = match stage() {
                Ok(stage) => stage,
                Err(reason) => return eprintln!("skipped: {reason}"),
            };
            let programs: Vec<Programs> =
                Programs::find().programs.into_iter().filter(|door| door.variant() == variant).collect();
            if programs.len() < 2 {
                return eprintln!("skipped: {variant} is not installed");
            }
            let echoes = node.run(serve).unwrap();
            let table = cluster();
            let mut mode = node.run(|| begin(&programs, &table)).unwrap();
            let ports = mode.ports().clone();
            for place in [&client, &node] {
                for (ip, port) in [(CLUSTER_IP, 80), (NODE, 30080)] {
                    place.run(|| asks_tcp(ip, port)).unwrap();
                }
                place.run(|| asks_udp(CLUSTER_IP, 53)).unwrap();
                for (id, port) in ports.iter() {
                    let kind = place.run(|| dials_directly(id.port.protocol, port)).unwrap();
                    assert_eq!(kind, Some(ErrorKind::ConnectionRefused), "{id}");
                }
            }
            // The process is killed, and the next one binds the same ports.
            drop(mode);
            assert_eq!(
                client.run(|| connect(CLUSTER_IP, 80).unwrap_err().kind()).unwrap(),
                ErrorKind::ConnectionRefused
            );
            mode = node.run(|| begin(&programs, &table)).unwrap();
            assert_eq!(mode.ports(), &ports);
            client.run(|| asks_tcp(CLUSTER_IP, 80)).unwrap();
            client.run(|| asks_udp(CLUSTER_IP, 53)).unwrap();
            let clear = |mut door| clear_all(known_chains(), &mut door).unwrap();
            node.run(|| programs.iter().cloned().for_each(clear)).unwrap();
            drop(mode);
            drop(echoes);
        }
    }

    fn begin(programs: &[Programs], table: &ForwardingTable) -> Mode {
        let relay = Relay::start(RelayOptions::default()).unwrap();
        let mut mode = Userspace::new(programs.to_vec(), relay, Options::default());
        let synced = mode.sync(table, Scope::Everything).unwrap();
        assert!(synced.refused.is_empty() && synced.warned.is_empty(), "{synced:?}");
        mode
    }

    fn cluster() -> ForwardingTable {
        let text = "svc web 10.254.0.9 web:80@30080,dns:53/UDP\nep web web:8080,dns:5353/UDP 10.0.0.5@a";
        table(at(&[NODE]), text)
    }

    /// The node and a client, with a link between them.
    fn stage() -> Result<(Namespace, Namespace), String> {
        let (node, client) = (Namespace::create(), Namespace::create());
        let (node, client) = (node.map_err(|e| e.to_string())?, client.map_err(|e| e.to_string())?);
        let link = format!("link add eth0 type veth peer name eth0 netns {}", client.path().display());
        for (place, line) in [
            (&node, link.as_str()),
            (&node, "link set lo up"),
            (&node, "link set eth0 up"),
            (&node, "addr add 10.0.0.5/24 dev eth0"),
            (&client, "link set lo up"),
            (&client, "link set eth0 up"),
            (&client, "addr add 10.0.0.9/24 dev eth0"),
            (&client, "route add default via 10.0.0.5"),
            (&node, "route add default via 10.0.0.9"),
        ] {
            let mut command = Command::new("ip");
            command.args(line.split(' '));
            let status =
                place.spawn(command).and_then(|mut child| child.wait()).map_err(|e| format!("ip: {e}"))?;
            assert!(status.success(), "ip {line}");
        }
        Ok((node, client))
    }

    /// The endpoint: answers with what it hears. It ends with the test.
    fn serve() -> (TcpListener, UdpSocket) {
        let tcp = TcpListener::bind((NODE, 8080)).unwrap();
        let udp = UdpSocket::bind((NODE, 5353)).unwrap();
        let (accepting, hearing) = (tcp.try_clone().unwrap(), udp.try_clone().unwrap());
        std::thread::spawn(move || {
            for stream in accepting.incoming() {
                let mut stream = stream.unwrap();
                let mut heard = [0; 5];
                stream.read_exact(&mut heard).unwrap();
                stream.write_all(&heard).unwrap();
            }
        });
        std::thread::spawn(move || {
            loop {
                let mut heard = [0; 64];
                let (size, from) = hearing.recv_from(&mut heard).unwrap();
                hearing.send_to(&heard[..size], from).unwrap();
            }
        });
        (tcp, udp)
    }

    fn connect(ip: &str, port: u16) -> std::io::Result<TcpStream> {
        TcpStream::connect_timeout(&SocketAddr::new(ip.parse().unwrap(), port), LIMIT)
    }

    fn asks_tcp(ip: &str, port: u16) {
        let mut stream = connect(ip, port).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(b"hello").unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
    }

    /// The answer must come from where the question went: a connected socket hears nothing else.
    fn asks_udp(ip: &str, port: u16) {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((ip, port)).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        for _ in 0..3 {
            socket.send(b"hello").unwrap();
            let mut heard = [0; 64];
            let size = socket.recv(&mut heard).unwrap();
            assert_eq!(&heard[..size], b"hello");
        }
    }

    /// What whoever dials a port of the proxy hears.
    fn dials_directly(protocol: Protocol, port: u16) -> Option<ErrorKind> {
        if protocol == Protocol::Tcp {
            return connect(NODE, port).err().map(|error| error.kind());
        }
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((NODE, port)).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.send(b"hello").and_then(|_| socket.recv(&mut [0; 64])).err().map(|error| error.kind())
    }
}

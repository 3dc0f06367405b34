//! Servers under the addresses of the manifests. They say which Pod they are and whom they saw.
//!
//! The playground's own servers know the playground's addresses only. These live until the process ends.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread;

use anyhow::{Context, Result};
use playground::{Place, Protocol, Reply};

use crate::facts::Pod;

/// Serves all ports of a Pod on all its addresses; who asks after this returns is answered.
pub(crate) fn serve(place: &Place, pod: &Pod) -> Result<()> {
    for address in &pod.addresses {
        for (protocol, port) in &pod.ports {
            let here = SocketAddr::new(*address, *port);
            let name = pod.name.clone();
            place
                .run(|| open(*protocol, here, name))?
                .with_context(|| format!("cannot serve {here} in `{}`", pod.name))?;
        }
    }
    Ok(())
}

/// A socket stays in the namespace where it was opened, wherever the thread that uses it runs.
fn open(protocol: Protocol, here: SocketAddr, name: String) -> io::Result<()> {
    match protocol {
        Protocol::Tcp => {
            let listener = TcpListener::bind(here)?;
            thread::Builder::new().spawn(move || answer_connections(&listener, &name))?;
        }
        Protocol::Udp => {
            let socket = UdpSocket::bind(here)?;
            thread::Builder::new().spawn(move || answer_datagrams(&socket, here, &name))?;
        }
        Protocol::Sctp => {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the demo's pods speak no SCTP"));
        }
    }
    Ok(())
}

fn answer_connections(listener: &TcpListener, name: &str) {
    for mut stream in listener.incoming().filter_map(io::Result::ok) {
        let (Ok(saw), Ok(to)) = (stream.peer_addr(), stream.local_addr()) else { continue };
        // A client that is gone does not matter to the others.
        let _ = stream.write_all(line(name, saw, to).as_bytes());
    }
}

fn answer_datagrams(socket: &UdpSocket, here: SocketAddr, name: &str) {
    let mut question = [0; 512];
    while let Ok((_, client)) = socket.recv_from(&mut question) {
        let _ = socket.send_to(line(name, client, here).as_bytes(), client);
    }
}

fn line(name: &str, saw: SocketAddr, to: SocketAddr) -> String {
    format!("{}\n", Reply { server: name.to_owned(), address: to.ip(), saw, to })
}

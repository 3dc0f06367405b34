//! What the kernel has carried is told on the metrics port.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use playground::Family;

use super::ALL;
use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::PATIENCE;

const PORT: u16 = 10249;
const DIALS: u64 = 8;

pub(crate) fn root_what_virtual_servers_carried_is_counted(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let options = ["--metrics-bind-address", "127.0.0.1:10249"];
    let Some(stage) = setting.with(&options).stage(&[&web]) else { return };
    for family in Family::ALL {
        let to = web.cluster_ip(family);
        for _ in 0..DIALS {
            let dialled = stage
                .place("client-a")
                .run(|| TcpStream::connect_timeout(&to, playground::patient(PATIENCE)));
            let mut stream = dialled.unwrap().unwrap();
            stream.write_all(b"hello\n").unwrap();
        }
        let of_family = format!("ip_family=\"{}\"", if family == Family::V4 { "IPv4" } else { "IPv6" });
        let count = |name: &str| -> u64 {
            let page = metrics(&stage);
            let is_it = |line: &&str| {
                line.starts_with(name) && line.contains(&of_family) && line.contains("default/web")
            };
            page.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        until("each connection is counted for its service port, and for an endpoint", || {
            count("portway_service_connections_total") == DIALS
                && count("portway_endpoint_connections_total") == DIALS
        });
        assert!(count("portway_service_bytes_in_total") > DIALS * 40, "{}", metrics(&stage));
    }
}

fn metrics(stage: &Stage) -> String {
    let at = SocketAddr::from(([127, 0, 0, 1], PORT));
    let read = stage.place("a").run(|| {
        let mut stream = TcpStream::connect(at)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        std::io::Result::Ok(page)
    });
    read.unwrap().unwrap()
}

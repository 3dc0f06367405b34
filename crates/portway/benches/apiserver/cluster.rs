//! The cluster that is served, and its changes.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use harness::cluster::ENDPOINTS;
use mockapi::objects::{node, service, service_cidr, slice};
use mockapi::{MockApi, NODES, Options, SERVICE_CIDRS, SERVICES, SLICES};

/// A server with so many Services.
#[derive(Debug)]
pub(crate) struct Cluster {
    server: MockApi,
    services: u32,
}

impl Cluster {
    /// Serves so many Services, in the network of the calling thread.
    pub(crate) fn of(services: u32) -> Result<Self> {
        let server = MockApi::start(Options::default()).context("the server cannot start")?;
        server.put(NODES, node("a", "192.0.2.1"));
        server.put(SERVICE_CIDRS, service_cidr("kubernetes", "10.96.0.0/12"));
        let cluster = Self { server, services };
        for number in 0..services {
            cluster.server.put(SERVICES, service(&name(number), &cluster_ip(number)));
            cluster.put_slice(number, 0);
        }
        // Nobody will ask for what happened while this was put together.
        cluster.server.compact();
        Ok(cluster)
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Gives one Service other endpoints: with each turn another Service, all over the cluster.
    pub(crate) fn change(&self, turn: u32) {
        // A prime, so that neighbours are far from each other.
        self.put_slice(turn.wrapping_mul(7919) % self.services, turn + 1);
    }

    fn put_slice(&self, number: u32, turn: u32) {
        let addresses = (0..ENDPOINTS).map(|index| {
            // Never those of the begin, which is turn 0, and none of another Service.
            let block = 0x0b00_0000 + turn.min(1 + turn % 7) * 0x0010_0000;
            Ipv4Addr::from(block + number * ENDPOINTS + index).to_string()
        });
        let addresses: Vec<String> = addresses.collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        self.server.put(SLICES, slice(&name(number), &addresses));
    }
}

fn name(number: u32) -> String {
    format!("service-{number:05}")
}

fn cluster_ip(number: u32) -> String {
    Ipv4Addr::from(0x0a60_0001 + number).to_string()
}

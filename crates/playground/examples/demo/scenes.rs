//! What is shown, as data. A new scene is a row here.

use playground::Family;

/// One question, put many times.
pub(crate) struct Scene {
    pub(crate) title: &'static str,
    pub(crate) look_at: &'static str,
    /// The places that ask. The first one's packet is explained.
    pub(crate) clients: &'static [&'static str],
    pub(crate) family: Family,
    /// The node that decides the first client's packets.
    pub(crate) node: &'static str,
    /// What is dialled, as `portway explain` takes it.
    pub(crate) destination: &'static str,
    /// How often each client dials.
    pub(crate) times: usize,
    pub(crate) expected: Expected,
}

/// What counts as right.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Each pod answers as often as explained, up to chance.
    Shares,
    /// One pod for each client.
    OnePodEach,
    /// The client is refused at once.
    Refusal,
}

pub(crate) const SCENES: &[Scene] = &[
    Scene {
        title: "A pod dials a cluster IP",
        look_at: "No file gives mysql-service an address: portway did. Its pods are on both nodes.",
        clients: &["client-a"],
        family: Family::V4,
        node: "a",
        destination: "mysql-service",
        times: 4000,
        expected: Expected::Shares,
    },
    Scene {
        title: "Somebody outside dials a node port",
        look_at: "Node b answers for all pods, wherever they run.",
        clients: &["outside"],
        family: Family::V4,
        node: "b",
        destination: "10.0.0.6:30964",
        times: 4000,
        expected: Expected::Shares,
    },
    Scene {
        title: "Weights",
        look_at: "Three of four to api-stable, one to api-canary, none to api-old, which is drained.",
        clients: &["client-b"],
        family: Family::V4,
        node: "b",
        destination: "api:80",
        times: 4000,
        expected: Expected::Shares,
    },
    Scene {
        title: "IPv6",
        look_at: "The Service `web` has an address of each family.",
        clients: &["client-a"],
        family: Family::V6,
        node: "a",
        destination: "web:80",
        times: 2000,
        expected: Expected::Shares,
    },
    Scene {
        title: "UDP",
        look_at: "Questions for cluster DNS.",
        clients: &["client-b"],
        family: Family::V4,
        node: "b",
        destination: "10.96.0.10:53/udp",
        times: 2000,
        expected: Expected::Shares,
    },
    Scene {
        title: "Sticky",
        look_at: "The Service `cart` keeps each client with one pod.",
        clients: &["client-a", "client-a-1", "client-a-2", "client-b", "client-b-1", "client-b-2"],
        family: Family::V4,
        node: "a",
        destination: "cart:80",
        times: 100,
        expected: Expected::OnePodEach,
    },
    Scene {
        title: "Nobody is there",
        look_at: "No pod is behind ssh-service1: the client is told at once, instead of waiting.",
        clients: &["client-a"],
        family: Family::V4,
        node: "a",
        destination: "ssh-service1:2222",
        times: 1,
        expected: Expected::Refusal,
    },
];

//! Choices as they are written on a command line.

use model::{Config, NodePortAddress};

/// Where node ports answer, as it is written on the command line.
pub fn node_port_addresses(config: &Config) -> Vec<String> {
    config.node_port_addresses.iter().map(node_port_address).collect()
}

fn node_port_address(entry: &NodePortAddress) -> String {
    match entry {
        NodePortAddress::Within(net) => net.to_string(),
        NodePortAddress::Primary => "primary".to_owned(),
        NodePortAddress::Localhost => "localhost".to_owned(),
        NodePortAddress::All => "all".to_owned(),
    }
}

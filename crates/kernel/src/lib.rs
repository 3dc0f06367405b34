//! The only door to the operating system.
//!
//! | room | what it speaks to |
//! |---|---|
//! | [`netlink`] | sockets, message framing and attributes: the words every kernel subsystem shares |
//! | [`host`] | this machine's addresses, links and routes, read and watched; dummy links and their addresses, written |
//! | [`nft`] | `nf_tables`: typed tables, chains, rules, sets and maps; transactions, listings, notifications |
//! | [`forward_filter`] | whether the rules of any program drop a forwarded packet |
//! | [`conntrack`] | the connection tracker: its entries, visited and deleted |
//! | [`ipvs`] | the kernel's load balancer: virtual servers and the real ones behind them |
//! | [`ipset`] | sets of addresses and ports that iptables rules ask |
//! | [`sysctl`] | settings of the kernel, by name |
//! | [`xtables`] | the iptables programs, both kinds: tables read and written as their text |
//! | [`socket`] | TCP and UDP sockets as a proxy needs them: never blocking, many datagrams in a call |
//! | [`sock_diag`] | TCP sockets of this machine, whoever holds them: ended from outside |
//! | [`poll`] | waiting for very many descriptors |
//! | [`pipe`] | pipes, and moving bytes between sockets without looking at them |
//! | [`pass`] | open files, handed from process to process |
//! | [`limit`] | how many files this process may have open |
//! | [`peer`] | who is at the other end of a unix socket |
//! | [`signal`] | the wish that this process ends; the end of what it started |
//!
//! Each module that writes has a trait. The crate `kernel-sim` has a simulated kernel behind each of these traits, and a contract test runs
//! the same steps on both.
//!
//! Absent on purpose: Services, frontends, endpoints. This crate does not know why a rule exists.
#![warn(missing_docs)]

#[cfg(test)]
extern crate self as kernel;

pub mod conntrack;
pub mod forward_filter;
#[cfg(test)]
mod fuzz;
pub mod host;
mod ip_protocol;
pub mod ipset;
pub mod ipvs;
pub mod limit;
pub mod netlink;
pub mod nft;
pub mod pass;
pub mod peer;
pub mod pipe;
pub mod poll;
mod rule_packets;
pub mod signal;
pub mod sock_diag;
pub mod socket;
pub mod sysctl;
pub mod xtables;

pub use ip_protocol::IpProtocol;
pub use rule_packets::RulePackets;

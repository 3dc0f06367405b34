//! The relay with real sockets on loopback: no root, no rules, nothing but connections.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod handover;
mod limits;
mod ports;
#[path = "../../../model/tests/support/mod.rs"]
mod random;
mod support;
mod tcp_ends;
mod tcp_flow;
mod tcp_spread;
mod udp;

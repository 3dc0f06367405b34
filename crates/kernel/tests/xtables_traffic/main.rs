//! Real packets through the rules of both iptables programs: they end where the twin says, and nowhere else.
//!
//! Three namespaces: clients, a node, pods. The node gets the rules; its twin gets the same text.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod needs_root;
mod needs_vm;
mod rules;
mod stage;

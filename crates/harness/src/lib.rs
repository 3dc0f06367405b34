//! What all benches share, so that a bench says only what it measures.
//!
//! | file | what it holds |
//! |---|---|
//! | [`mod@bench`] | [`Bench`], the command line, progress |
//! | [`process`] | fresh processes to measure in; CPU time and memory |
//! | [`samples`] | rounds, and many figures as a few |
//! | [`page`], [`picture`] | goals, tables and text as Markdown; lines as SVG |
//! | [`machine`] | the machine that was measured on |
//! | [`cluster`], [`proxy`], [`watched`] | a cluster, a mode that serves it, and what goes through the mode's interfaces to the kernel |
//! | [`node`] | the real program in a network namespace |
//!
//! Absent on purpose: what is measured, and any goal.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its page and its progress")]

pub mod bench;
pub mod cluster;
pub mod machine;
pub mod node;
pub mod page;
pub mod picture;
pub mod process;
pub mod proxy;
pub mod samples;
pub mod watched;

pub use bench::{Bench, argument, host, run, say, step};
pub use machine::Machine;
pub use page::{Goal, Page, number, table, time};
pub use process::{Cpu, fresh, memory_mib, ms};
pub use samples::{Quantiles, Spread, in_turn, median, rounds};

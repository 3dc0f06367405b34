//! Simulated kernels and fault injection, for tests and benches.
//!
//! In: the requests that a real kernel gets, by the traits of the crate `kernel`. Out: the answers and refusals of a kernel, with its error
//! numbers, and for a packet where it ends. Contract tests in `crates/kernel/tests` run the same steps on a real kernel.
//!
//! The modules are named as those of `kernel`, whose traits they implement.
//!
//! | module | simulates |
//! |---|---|
//! | [`nft`] | `nf_tables`, with packets; [`nft::Faulty`] fails on command before any kernel, [`nft::Losing`] loses notifications |
//! | [`xtables`] | the iptables programs and their tables, with packets; [`xtables::Faulty`] fails on command before any of them |
//! | [`ipset`], [`ipvs`] | sets and virtual servers: rules of [`xtables`] ask them |
//! | [`host`] | links, addresses and routes |
//! | [`conntrack`], [`sock_diag`] | the connection tracker, and TCP sockets of other programs |
//! | [`sysctl`] | settings |
//!
//! Absent on purpose: Services, clocks and chance. Time and random numbers are handed in.
#![warn(missing_docs)]

pub mod conntrack;
pub mod host;
pub mod ipset;
pub mod ipvs;
pub mod nft;
pub mod sock_diag;
pub mod sysctl;
pub mod xtables;

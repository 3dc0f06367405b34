//! The command line, run as people run it: the real binary, real files, a state folder of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

mod check;
mod config_file;
mod describe;
mod doctor;
mod documentation;
mod explain;
mod get;
mod harness;
mod kube_proxy;
mod read_only;
mod usage;

//! A table that somebody put to sleep is there with all its rules, and no packet passes it: that is a difference.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod cluster;

use cluster::Small;
use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::{Dataplane, Scope};
use kernel::nft::Netlink;
use playground::namespace::Namespace;

mod needs_root {
    use super::*;

    #[test]
    fn root_a_table_that_was_put_to_sleep_is_woken() {
        let namespace = match Namespace::create() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace can be made here: {error}"),
        };
        namespace.run(put_to_sleep_and_sync).unwrap();
    }

    fn put_to_sleep_and_sync() {
        let mut small = Small::new();
        small.service("web", "10.96.0.10", "None");
        small.endpoints("web", &["10.244.1.1"]);
        let mut mode = Nftables::new(Netlink::open().unwrap(), Options::default());
        mode.sync(&small.table, Scope::Everything).unwrap();
        let Ok(status) =
            std::process::Command::new("nft").arg("add table ip kube-proxy { flags dormant; }").status()
        else {
            return eprintln!("skipped: there is no nft to put the table to sleep");
        };
        assert!(status.success());
        assert!(!mode.differences(&small.table).unwrap().is_empty(), "it is a difference");
        let synced = mode.sync(&small.table, Scope::Everything).unwrap();
        assert!(synced.operations > 0, "{synced:?}");
        let listing = std::process::Command::new("nft").args(["list", "tables"]).output().unwrap();
        let table =
            std::process::Command::new("nft").args(["list", "table", "ip", "kube-proxy"]).output().unwrap();
        let text = String::from_utf8_lossy(&table.stdout);
        assert!(listing.status.success() && !text.contains("dormant"), "{text}");
        assert_eq!(mode.differences(&small.table).unwrap(), Vec::<String>::new());
    }
}

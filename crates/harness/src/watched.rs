//! An interface of a mode to the kernel, with a watch and a counter: what is asked through it, and how long that takes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use kernel::host::{Address, ChangeError, ChangeHost, Host, Link, Route, Unchanged};
use kernel::ipset::{Entry, FoundSet, Ipsets, SetName};
use kernel::ipvs::{FoundServer, Ipvs, Timeouts, VirtualServer, What};
use kernel::xtables::{Family, Table, Variant, Xtables};
use kernel::{ipset, ipvs, netlink, xtables};
use serde::{Deserialize, Serialize};

use crate::ms;

/// What went through an interface.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Requests that change something; of iptables, runs of the restore program.
    pub writes: u64,
    /// Listings; of iptables, runs of the save program.
    pub listings: u64,
    /// How long the interface was in use.
    pub ms: f64,
}

/// The real interface, watched.
#[derive(Debug)]
pub struct Watched<T> {
    inner: T,
    seen: Seen,
}

impl<T> Watched<T> {
    pub fn new(inner: T) -> Self {
        Self { inner, seen: Seen::default() }
    }

    /// What went through since the last call.
    pub fn take(&mut self) -> Seen {
        std::mem::take(&mut self.seen)
    }

    fn write<R>(&mut self, requests: usize, work: impl FnOnce(&mut T) -> R) -> R {
        self.seen.writes += u64::try_from(requests).unwrap_or(u64::MAX);
        self.timed(work)
    }

    fn list<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        self.seen.listings += 1;
        self.timed(work)
    }

    fn timed<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        let start = Instant::now();
        let result = work(&mut self.inner);
        self.seen.ms += ms(start.elapsed());
        result
    }
}

/// Implements an interface by the one inside. `list` and `write` are counted, the latter as so many requests; `pass` and `tell` are not.
macro_rules! watch {
    ($interface:ident: $($kind:ident $method:ident($($arg:ident: $type:ty),*) $(as $requests:expr)? => $result:ty;)*) => {
        impl<T: $interface> $interface for Watched<T> {
            $(watch! { @$kind $method($($arg: $type),*) $($requests)? => $result })*
        }
    };
    (@list $method:ident($($arg:ident: $type:ty),*) => $result:ty) => {
        fn $method(&mut self, $($arg: $type),*) -> $result {
            self.list(|inner| inner.$method($($arg),*))
        }
    };
    (@write $method:ident($($arg:ident: $type:ty),*) $requests:expr => $result:ty) => {
        fn $method(&mut self, $($arg: $type),*) -> $result {
            self.write($requests, |inner| inner.$method($($arg),*))
        }
    };
    (@pass $method:ident($($arg:ident: $type:ty),*) => $result:ty) => {
        fn $method(&mut self, $($arg: $type),*) -> $result {
            self.inner.$method($($arg),*)
        }
    };
    (@tell $method:ident() => $result:ty) => {
        fn $method(&self) -> $result {
            self.inner.$method()
        }
    };
}

watch! { Ipvs:
    list virtual_servers() => ipvs::Result<Vec<VirtualServer>>;
    list real_servers(of: &What) => ipvs::Result<Vec<FoundServer>>;
    list timeouts() => ipvs::Result<Timeouts>;
    write run(requests: &[ipvs::Request]) as requests.len() => ipvs::Result<Vec<ipvs::Refused>>;
    tell messages() => u64;
}

watch! { Ipsets:
    list sets() => ipset::Result<Vec<FoundSet>>;
    list entries(of: &SetName) => ipset::Result<Option<BTreeSet<Entry>>>;
    list contains(set: &SetName, entry: &Entry) => ipset::Result<Option<bool>>;
    write run(requests: &[ipset::Request]) as requests.len() => ipset::Result<Vec<ipset::Refused>>;
    tell messages() => u64;
}

watch! { Host:
    list addresses() => netlink::Result<BTreeSet<Address>>;
    list links() => netlink::Result<BTreeSet<Link>>;
    list routes() => netlink::Result<BTreeSet<Route>>;
    pass source_address(destination: IpAddr) => netlink::Result<Option<IpAddr>>;
}

watch! { ChangeHost:
    write make_dummy(name: &str) as 1 => Result<(), ChangeError>;
    write delete_dummy(name: &str) as 1 => Result<(), ChangeError>;
    write add_addresses(link: &str, ips: &[IpAddr]) as ips.len() => Result<Vec<Unchanged>, ChangeError>;
    write delete_addresses(link: &str, ips: &[IpAddr]) as ips.len() => Result<Vec<Unchanged>, ChangeError>;
}

watch! { Xtables:
    tell variant() => Variant;
    tell family() => Family;
    list save(table: Table) => xtables::Result<Option<String>>;
    write restore(text: &str) as 1 => xtables::Result<()>;
}

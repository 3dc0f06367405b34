//! Everything of one family as text, in the words of the programs that show it: nothing here runs them.
//!
//! Sets as `ipset restore` reads them, addresses as `ip` does, rules as `iptables-restore --noflush`, virtual servers as `ipvsadm -R`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kernel::IpProtocol;
use kernel::ipset::{self, Kind};
use kernel::ipvs::{Flags, VirtualServer, What};
use model::{Family, ForwardingTable};

use super::rules::Rules;
use crate::ipvs::Options;
use crate::ipvs::items::Item;
use crate::ipvs::names::SetId;
use crate::ipvs::wanted::Wanted;
use crate::xtables;

/// What a first sync brings into a kernel that has nothing of ours, of one family.
pub fn render(desired: &ForwardingTable, family: Family, options: &Options) -> String {
    let mut wanted = Wanted::default();
    let items = wanted.render_all(desired, &[family], options, Vec::new());
    let rules = Rules::new(options, wanted.outside());
    let mut text = String::new();
    section(&mut text, &format!("{family} sets, for ipset restore"), sets(&items, family));
    section(&mut text, &format!("{family} virtual servers, for ipvsadm -R"), servers(&items));
    text.push_str(&xtables::render(&rules, desired, family));
    section(
        &mut text,
        &format!("{family} addresses of {}, for ip -batch", options.interface),
        addresses(&items, options),
    );
    text
}

fn section(text: &mut String, title: &str, lines: impl IntoIterator<Item = String>) {
    let _ = writeln!(text, "# {title}");
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
}

fn sets(items: &BTreeSet<Item>, family: Family) -> Vec<String> {
    let created = SetId::ALL.map(|set| create(&set.set(family)));
    let added = items.iter().filter_map(|item| match item {
        Item::Entry(family, set, entry) => Some(format!("add {} {entry}", set.name(*family))),
        _ => None,
    });
    created.into_iter().chain(added).collect()
}

fn create(set: &ipset::Set) -> String {
    let ipset::Set { name, kind, hash_size, entries_max } = set;
    let inet = match kind.family() {
        Some(ipset::Family::V6) => "inet6",
        _ => "inet",
    };
    match kind {
        Kind::Port => format!("create {name} bitmap:port range 0-65535"),
        _ => {
            format!("create {name} {} family {inet} hashsize {hash_size} maxelem {entries_max}", kind.name())
        }
    }
}

fn addresses(items: &BTreeSet<Item>, options: &Options) -> Vec<String> {
    let line = |item: &Item| match item {
        Item::Address(ip) => {
            let bits = if ip.is_ipv4() { 32 } else { 128 };
            Some(format!("address add {ip}/{bits} dev {}", options.interface))
        }
        _ => None,
    };
    items.iter().filter_map(line).collect()
}

/// Each virtual server, and behind it its real ones.
fn servers(items: &BTreeSet<Item>) -> Vec<String> {
    let mut lines = Vec::new();
    for item in items {
        let Item::Server(server) = item else { continue };
        let name = name(&server.what);
        lines.push(format!("-A {name} -s {}{}", server.scheduler, options_of(server)));
        let real = items.range(Item::Real(server.what, first_address(), 0)..);
        for item in real {
            match item {
                Item::Real(what, address, weight) if *what == server.what => {
                    lines.push(format!("-a {name} -r {address} -m -w {weight}"));
                }
                _ => break,
            }
        }
    }
    lines
}

fn first_address() -> std::net::SocketAddr {
    ([0; 4], 0).into()
}

fn name(what: &What) -> String {
    match what {
        What::Address(at, IpProtocol::TCP) => format!("-t {at}"),
        What::Address(at, IpProtocol::UDP) => format!("-u {at}"),
        What::Address(at, _) => format!("--sctp-service {at}"),
        What::Mark(mark, ipset::Family::V4) => format!("-f {mark}"),
        What::Mark(mark, ipset::Family::V6) => format!("-f {mark} -6"),
    }
}

fn options_of(server: &VirtualServer) -> String {
    let mut text = server.persistence_s.map(|seconds| format!(" -p {seconds}")).unwrap_or_default();
    let scheduler = &server.scheduler;
    let named = [(Flags::HASH_FALLBACK, "fallback"), (Flags::HASH_PORT, "port")];
    let flags = named.iter().filter(|(flag, _)| server.flags.0 & flag.0 != 0);
    let flags: Vec<String> = flags.map(|(_, word)| format!("{scheduler}-{word}")).collect();
    if !flags.is_empty() {
        let _ = write!(text, " -b {}", flags.join(","));
    }
    text
}

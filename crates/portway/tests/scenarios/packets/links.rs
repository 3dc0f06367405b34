//! Links, addresses and routes of namespaces, made by the `ip` program.
//!
//! No address is ever resolved: both ends of a link have the same hardware address, and links do without ARP.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::process::{Command, Stdio};

use playground::namespace::Namespace;

const HARDWARE: &str = "02:00:00:00:00:01";

/// Settings of a node below `/proc/sys/net`. They go in before the links, which copy the defaults when they are born.
const NODE: &[(&str, &str)] = &[
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv6/conf/default/forwarding", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    // However many are refused, each hears so.
    ("ipv4/icmp_ratemask", "0"),
    ("ipv6/icmp/ratelimit", "0"),
];

/// Has a namespace pass packets on. Before it gets its links.
pub(crate) fn set_up_node(node: &Namespace) -> Result<(), String> {
    let write = |(key, value): &(&str, &str)| std::fs::write(format!("/proc/sys/net/{key}"), value);
    inside(node, || NODE.iter().try_for_each(write))
}

/// The lines that make a link to another namespace, where its end is `eth0`.
pub(crate) fn link(name: &str, other: &Namespace) -> Vec<String> {
    let path = other.path();
    let (end, peer) = (format!("{name} address {HARDWARE}"), format!("eth0 address {HARDWARE}"));
    vec![
        format!("link add name {end} type veth peer name {peer} netns {}", path.display()),
        format!("link set {name} arp off up"),
    ]
}

/// One of each family; the program takes the family from a network that says it.
pub(crate) fn default_routes(link: &str) -> [String; 2] {
    ["0.0.0.0/0", "::/0"].map(|everywhere| format!("route add {everywhere} dev {link}"))
}

/// Adds or deletes an address.
pub(crate) fn address_line(verb: &str, address: &str, link: &str) -> String {
    let is_usable_at_once = verb == "add" && address.contains(':');
    format!("addr {verb} {address} dev {link}{}", if is_usable_at_once { " nodad" } else { "" })
}

/// The address as a network of its own.
pub(crate) fn with_length(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
}

/// Runs lines of the `ip` program.
pub(crate) fn ip(namespace: &Namespace, lines: &[String]) -> Result<(), String> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = namespace.spawn(command).map_err(|e| format!("ip: {e}"))?;
    // A program that ends early does not read to the end; its exit says so.
    drop(child.stdin.take().map(|mut input| input.write_all((lines.join("\n") + "\n").as_bytes())));
    let output = child.wait_with_output().map_err(text)?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip: {}\n{}", String::from_utf8_lossy(&output.stderr).trim(), lines.join("\n")))
}

/// Runs `work` in a namespace.
pub(crate) fn inside<T: Send>(
    namespace: &Namespace,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> Result<T, String> {
    namespace.run(work).and_then(|done| done).map_err(text)
}

/// What an error says.
pub(crate) fn text(error: impl Display) -> String {
    error.to_string()
}

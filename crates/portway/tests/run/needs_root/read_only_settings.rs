//! `kube-proxy --init-only` where the kernel's settings are read-only, as on nodes that are containers (kind, minikube).

use super::place;
use crate::common::{Outcome, Place, has_program, skipped};

const READ_ONLY: &str = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys";
const FORWARDING: [&str; 2] = ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];

/// Runs the init container's command in a mount namespace of its own. No machine tracks as many flows as it asks for.
fn init_only(place: &Place) -> Outcome {
    let script = format!("{READ_ONLY} && exec \"$0\" \"$@\"");
    place.finish_kube_proxy_after(
        &["unshare", "--mount", "--propagation", "private", "sh", "-c", &script],
        "--init-only --set-ip-forward --conntrack-max-per-core=1 --conntrack-min=2000000000",
    )
}

#[test]
fn root_read_only_settings_fail_the_init_container_only_where_traffic_needs_them() {
    if !has_program("unshare") || !has_program("mount") {
        return skipped("the programs `unshare` and `mount` are not installed").unwrap_or_default();
    }
    let Some(place) = place() else { return };
    let max = "/proc/sys/net/netfilter/nf_conntrack_max";
    let Some(tracked) = place.try_tool("cat", max) else {
        return skipped("this kernel has no connection tracker loaded").unwrap_or_default();
    };
    // A kernel without IPv6 has nothing to turn on.
    let forward = |value| FORWARDING.map(|file| place.inside(|| std::fs::write(file, value)).is_ok());

    assert!(forward("1")[0]);
    let said = init_only(&place).ends_with(0);
    said.says(&["All settings that traffic needs are made"]);
    assert!(said.err.contains("nf_conntrack_max` cannot be set to `2000000000`: Read-only"), "{}", said.err);
    assert!(said.err.contains("Traffic works without it"), "{}", said.err);

    assert!(forward("0")[0]);
    let said = init_only(&place).ends_with(1);
    assert!(said.err.contains("ip_forward` cannot be set to `1`: Read-only"), "{}", said.err);
    assert!(said.err.contains("run `sysctl -w net.ipv4.ip_forward=1` on the node"), "{}", said.err);
    assert_eq!(place.try_tool("cat", max), Some(tracked), "nothing was written");
}

//! What the operator chose: ranges to give addresses from, and where to remember them.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use std::ops::RangeInclusive;

use model::net::IpNet;

use super::StoreError;
use super::ranges::Ranges;

/// The flag for cluster IPs.
pub(crate) const SERVICE_CIDR: &str = "--service-cidr";
/// The flag for ingress IPs.
pub(crate) const LOAD_BALANCER_CIDR: &str = "--load-balancer-cidr";
/// The flag for node ports.
pub(crate) const NODE_PORT_RANGE: &str = "--node-port-range";

/// What the operator chose.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where cluster IPs come from: one range, or one of each family. The first one's family is the default family.
    pub service_cidrs: Vec<IpNet>,
    /// Where ingress IPs of load balancers come from: none, one, or one of each family.
    pub load_balancer_cidrs: Vec<IpNet>,
    /// Where node ports come from.
    pub node_port_range: RangeInclusive<u16>,
    /// Where it is remembered who got what.
    pub state_dir: PathBuf,
    /// Allocate in memory, over what is remembered: no file is written and no lock is taken. Where the folder cannot be read, nothing is
    /// remembered.
    pub dry_run: bool,
}

impl Options {
    /// The ranges, or what is wrong with them.
    pub(crate) fn ranges(&self) -> Result<Ranges, StoreError> {
        let service = pair(SERVICE_CIDR, &self.service_cidrs)?;
        let load_balancer = pair(LOAD_BALANCER_CIDR, &self.load_balancer_cidrs)?;
        let Some(first) = service.first() else {
            let problem = "needs a range to give cluster IPs from, such as `10.96.0.0/12`".to_owned();
            return Err(StoreError::Range { flag: SERVICE_CIDR, problem });
        };
        if let Some(overlap) = load_balancer.iter().find(|lb| service.iter().any(|s| overlaps(s, lb))) {
            let problem = format!(
                "`{overlap}` overlaps `{SERVICE_CIDR}`: one address would serve two purposes. Keep them apart"
            );
            return Err(StoreError::Range { flag: LOAD_BALANCER_CIDR, problem });
        }
        Ok(Ranges::new(*first, &service, &load_balancer, self.checked_node_ports()?))
    }

    fn checked_node_ports(&self) -> Result<RangeInclusive<u16>, StoreError> {
        let (first, last) = (*self.node_port_range.start(), *self.node_port_range.end());
        if first == 0 || first > last {
            let problem =
                format!("`{first}-{last}` must run upwards and begin at 1 or later, as in `30000-32767`");
            return Err(StoreError::Range { flag: NODE_PORT_RANGE, problem });
        }
        Ok(first..=last)
    }
}

/// The ranges of one flag without host bits: at most one of each family.
fn pair(flag: &'static str, ranges: &[IpNet]) -> Result<Vec<IpNet>, StoreError> {
    let ranges: Vec<IpNet> = ranges.iter().map(IpNet::trunc).collect();
    let is_pair = match ranges.as_slice() {
        [] | [_] => true,
        [a, b] => a.addr().is_ipv4() != b.addr().is_ipv4(),
        _ => false,
    };
    if is_pair {
        return Ok(ranges);
    }
    let shown: Vec<_> = ranges.iter().map(ToString::to_string).collect();
    let problem = format!(
        "`{}` must be one range, or one of each family as in `10.96.0.0/12,fd00:96::/112`",
        shown.join(",")
    );
    Err(StoreError::Range { flag, problem })
}

/// Do two networks share an address?
pub(crate) fn overlaps(a: &IpNet, b: &IpNet) -> bool {
    a.contains(b) || b.contains(a)
}

/// Where root's allocations are remembered.
const OF_ROOT: &str = "/var/lib/portway";

/// Where allocations are remembered unless the operator says otherwise: `/var/lib/portway` for root, else the user's own
/// state folder.
pub fn default_state_dir() -> PathBuf {
    if is_root() { OF_ROOT.into() } else { own_state_dir() }
}

/// Where a command that only reads finds what is remembered: a user without a state folder asks about root's portway.
pub fn default_state_dir_to_read() -> PathBuf {
    let dir = default_state_dir();
    if dir.exists() { dir } else { OF_ROOT.into() }
}

fn own_state_dir() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    state.unwrap_or_else(std::env::temp_dir).join("portway")
}

/// The owner of our own process folder is who we are: this needs neither unsafe code nor a crate.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|us| us.uid() == 0)
}

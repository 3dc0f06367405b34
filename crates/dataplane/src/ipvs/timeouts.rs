//! For how long IPVS remembers a connection on which nothing happens.
//!
//! In: what the operator chose; 0 leaves the kernel's, as upstream has it. Out: a kernel that does so. What it had before is kept in
//! a set, and [`restore`] gives it back.

use std::collections::BTreeMap;

use kernel::ipset::{Entry, Ipsets, Request};
use kernel::ipvs::{self, Ipvs, Timeouts};

use super::doors::Doors;
use super::error::{Error, refused};
use super::names;
use crate::SyncError;

/// A value below this can be kept: as a number of a set, of which there are 65,536 for three of them.
const KEPT_MAX: u32 = 20_000;
const NAMES: [&str; 3] = ["TCP", "TCP after FIN", "UDP"];

/// Brings timeouts to what they should be. Returns how many were written.
pub(super) fn apply(doors: &mut dyn Doors, wanted: Timeouts) -> Result<usize, SyncError> {
    let different = differences(doors.servers(), wanted)?;
    if different.is_empty() {
        return Ok(0);
    }
    let (set, known) = (names::former_timeouts(), former(doors.sets())?);
    let mut requests = vec![Request::Create(set.clone())];
    for (which, before, _) in &different {
        let number = u16::try_from(u32::from(*which) * KEPT_MAX + before).ok();
        let number = number.filter(|_| *before < KEPT_MAX && !known.contains_key(which));
        requests.extend(number.map(|number| Request::Add(set.name.clone(), Entry::Port(number))));
    }
    refused(doors.sets().run(&requests)?)?;
    set_to(doors, wanted)?;
    Ok(different.len())
}

/// What is not as it should be, in words.
pub(super) fn lines(servers: &mut dyn Ipvs, wanted: Timeouts) -> Result<Vec<String>, SyncError> {
    let different = differences(servers, wanted)?.into_iter();
    let line = |(which, _, seconds): (u8, u32, u32)| {
        format!("set the IPVS timeout of {} to {seconds} s", NAMES[usize::from(which)])
    };
    Ok(different.map(line).collect())
}

/// Gives back what there was before.
pub(super) fn restore(doors: &mut dyn Doors) -> Result<(), SyncError> {
    let former = former(doors.sets())?;
    if former.is_empty() {
        return Ok(());
    }
    let of = |which: u8| former.get(&which).copied().unwrap_or(0);
    set_to(doors, Timeouts { tcp_s: of(0), tcp_fin_s: of(1), udp_s: of(2) })?;
    refused(doors.sets().run(&[Request::Destroy(names::former_timeouts().name)])?)
}

/// 0 leaves what there is, to the kernel too.
fn set_to(doors: &mut dyn Doors, timeouts: Timeouts) -> Result<(), SyncError> {
    let refused: Vec<ipvs::Refused> = doors.servers().run(&[ipvs::Request::SetTimeouts(timeouts)])?;
    match refused.first() {
        None => Ok(()),
        Some(first) => Err(Error::Refused(first.to_string()).into()),
    }
}

/// The number of each that is different, what it is, and what it should be.
fn differences(servers: &mut dyn Ipvs, wanted: Timeouts) -> Result<Vec<(u8, u32, u32)>, SyncError> {
    if wanted == Timeouts::default() {
        return Ok(Vec::new());
    }
    let (found, wanted) = (values(servers.timeouts()?), values(wanted));
    let all = (0..).zip(found).zip(wanted).map(|((which, found), wanted)| (which, found, wanted));
    Ok(all.filter(|(_, found, wanted)| *wanted != 0 && found != wanted).collect())
}

fn values(timeouts: Timeouts) -> [u32; 3] {
    [timeouts.tcp_s, timeouts.tcp_fin_s, timeouts.udp_s]
}

fn former(sets: &mut dyn Ipsets) -> Result<BTreeMap<u8, u32>, SyncError> {
    let entries = sets.entries(&names::former_timeouts().name)?.unwrap_or_default();
    let number = |entry: &Entry| if let Entry::Port(n) = entry { Some(u32::from(*n)) } else { None };
    let split = |number: u32| Some((u8::try_from(number / KEPT_MAX).ok()?, number % KEPT_MAX));
    Ok(entries.iter().filter_map(number).filter_map(split).collect())
}

#[cfg(test)]
mod tests {
    use kernel_sim::{host, ipset, sysctl};

    use super::*;
    use crate::ipvs::Kernel;

    #[test]
    fn what_is_not_asked_for_stays_and_what_was_before_comes_back() {
        let mut twin = Kernel {
            servers: kernel_sim::ipvs::Simulated::default(),
            sets: ipset::Simulated::default(),
            host: host::Simulated::default(),
            settings: sysctl::Simulated::default(),
        };
        let before = twin.servers.timeouts().unwrap();
        assert_eq!(apply(&mut twin, Timeouts::default()).unwrap(), 0);
        let wanted = Timeouts { tcp_s: 3600, ..Timeouts::default() };
        assert_eq!(lines(twin.servers(), wanted).unwrap(), ["set the IPVS timeout of TCP to 3600 s"]);
        assert_eq!(apply(&mut twin, wanted).unwrap(), 1);
        assert_eq!(apply(&mut twin, wanted).unwrap(), 0);
        assert_eq!(twin.servers.timeouts().unwrap(), Timeouts { tcp_s: 3600, ..before });
        let other = Timeouts { tcp_s: 7200, udp_s: 60, ..Timeouts::default() };
        assert_eq!(apply(&mut twin, other).unwrap(), 2, "what was before all of it is remembered");
        restore(&mut twin).unwrap();
        assert_eq!(twin.servers.timeouts().unwrap(), before);
        assert!(twin.sets.sets().unwrap().is_empty());
    }
}

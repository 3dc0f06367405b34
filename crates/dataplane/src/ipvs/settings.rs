//! Settings of the kernel without which virtual servers do not work as they should.
//!
//! In: what the kernel has. Out: what it should have; what it had before is kept in a set, as long as the kernel keeps our settings,
//! and [`restore`] gives it back.

use std::collections::{BTreeMap, BTreeSet};

use kernel::ipset::{Entry, Ipsets, Request};
use kernel::sysctl::Sysctls;

use super::doors::Doors;
use super::error::refused;
use super::names;
use crate::SyncError;

/// All that may be changed. The place of each here is its number in the set.
const ALL: [&str; 7] = [
    "net/ipv4/vs/conntrack",
    "net/ipv4/vs/conn_reuse_mode",
    "net/ipv4/vs/expire_nodest_conn",
    "net/ipv4/vs/expire_quiescent_template",
    FORWARDING,
    "net/ipv4/conf/all/arp_ignore",
    "net/ipv4/conf/all/arp_announce",
];
/// Whether packets are forwarded at all.
pub(super) const FORWARDING: &str = "net/ipv4/ip_forward";
/// No value is as large.
const VALUES: u16 = 16;
const RELEASE: &str = "kernel/osrelease";

/// What each should be, on a kernel of this release.
fn wanted(release: &str, strict_arp: bool) -> BTreeMap<usize, u16> {
    // Connections are tracked, so that sources can be hidden.
    let mut wanted = BTreeMap::from([(0, 1), (2, 1), (3, 1), (4, 1)]);
    // Between these releases a port that is used again while its last connection closes delays the new one by a second; newer ones
    // do it right by default.
    if (version(release) >= (4, 1)) && version(release) < (5, 9) {
        wanted.insert(1, 0);
    }
    if strict_arp {
        wanted.extend([(5, 1), (6, 2)]);
    }
    wanted
}

/// Brings settings to what they should be. Returns how many were written. A process that may not write them finds nothing to do, once
/// another has done this for it.
pub fn apply(doors: &mut dyn Doors, strict_arp: bool) -> Result<usize, SyncError> {
    let given_back = give_back(doors, strict_arp)?;
    let different = differences(doors.settings(), strict_arp)?;
    if different.is_empty() {
        return Ok(given_back);
    }
    let set = names::former();
    let known: BTreeSet<u16> = former(doors.sets())?.into_keys().collect();
    let mut requests = vec![Request::Create(set.clone())];
    for (number, before, _) in &different {
        let number = u16::try_from(*number).unwrap_or(u16::MAX);
        if !known.contains(&number) {
            requests.push(Request::Add(set.name.clone(), Entry::Port(number * VALUES + before)));
        }
    }
    refused(doors.sets().run(&requests)?)?;
    for (number, _, value) in &different {
        doors.settings().write(ALL[*number], &value.to_string())?;
    }
    Ok(given_back + different.len())
}

/// Gives back what an earlier life changed and nobody asks for any more. Returns how many were written.
fn give_back(doors: &mut dyn Doors, strict_arp: bool) -> Result<usize, SyncError> {
    let unwanted = unwanted(doors, strict_arp)?;
    for (number, value) in &unwanted {
        doors.settings().write(ALL[usize::from(*number)], &value.to_string())?;
        let entry = Entry::Port(number * VALUES + value);
        refused(doors.sets().run(&[Request::Delete(names::former().name, entry)])?)?;
    }
    Ok(unwanted.len())
}

/// What was changed and is not wanted, with what it was.
fn unwanted(doors: &mut dyn Doors, strict_arp: bool) -> Result<BTreeMap<u16, u16>, SyncError> {
    let release = doors.settings().read(RELEASE)?.unwrap_or_default();
    let wanted = wanted(&release, strict_arp);
    let mut former = former(doors.sets())?;
    former
        .retain(|number, _| usize::from(*number) < ALL.len() && !wanted.contains_key(&usize::from(*number)));
    Ok(former)
}

/// What is not as it should be, in words.
pub(super) fn lines(doors: &mut dyn Doors, strict_arp: bool) -> Result<Vec<String>, SyncError> {
    let back = unwanted(doors, strict_arp)?.into_iter().map(|(number, value)| (usize::from(number), value));
    let different =
        differences(doors.settings(), strict_arp)?.into_iter().map(|(number, _, value)| (number, value));
    Ok(different.chain(back).map(|(number, value)| format!("set {} to {value}", ALL[number])).collect())
}

/// Leaves a setting as it is: what it was before is forgotten.
pub(super) fn forget(doors: &mut dyn Doors, name: &str) -> Result<(), SyncError> {
    let former = former(doors.sets())?.into_iter();
    let known = former.filter(|(number, _)| ALL.get(usize::from(*number)) == Some(&name));
    let requests: Vec<Request> = known
        .map(|(number, value)| Request::Delete(names::former().name, Entry::Port(number * VALUES + value)))
        .collect();
    refused(doors.sets().run(&requests)?)
}

/// Gives back what there was before.
pub(super) fn restore(doors: &mut dyn Doors) -> Result<(), SyncError> {
    let former = former(doors.sets())?;
    for (number, value) in &former {
        let Some(name) = ALL.get(usize::from(*number)) else { continue };
        if doors.settings().read(name)?.is_some() {
            doors.settings().write(name, &value.to_string())?;
        }
    }
    if doors.sets().entries(&names::former().name)?.is_some() {
        refused(doors.sets().run(&[Request::Destroy(names::former().name)])?)?;
    }
    Ok(())
}

/// Somebody has emptied the set of former values, so that a cleanup can give nothing back.
pub fn are_forgotten(sets: &mut dyn Ipsets) -> Result<bool, SyncError> {
    Ok(sets.entries(&names::former().name)?.is_some_and(|entries| entries.is_empty()))
}

/// The number of each that is different, what it is, and what it should be. Settings that this kernel has not are left out.
fn differences(settings: &mut dyn Sysctls, strict_arp: bool) -> Result<Vec<(usize, u16, u16)>, SyncError> {
    let release = settings.read(RELEASE)?.unwrap_or_default();
    let mut different = Vec::new();
    for (number, value) in wanted(&release, strict_arp) {
        let found = settings.read(ALL[number])?.and_then(|text| text.parse::<u16>().ok());
        if let Some(found) = found.filter(|found| *found != value && *found < VALUES) {
            different.push((number, found, value));
        }
    }
    Ok(different)
}

fn former(sets: &mut dyn Ipsets) -> Result<BTreeMap<u16, u16>, SyncError> {
    let entries = sets.entries(&names::former().name)?.unwrap_or_default();
    let numbers = entries.iter().filter_map(|entry| if let Entry::Port(n) = entry { Some(*n) } else { None });
    Ok(numbers.map(|number| (number / VALUES, number % VALUES)).collect())
}

/// The first two numbers of a release such as `6.12.43+deb13-amd64`.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|text| text.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use kernel_sim::{host, ipset, ipvs, sysctl};

    use super::*;
    use crate::ipvs::Kernel;

    type Twin = Kernel<ipvs::Simulated, ipset::Simulated, host::Simulated, sysctl::Simulated>;

    fn kernel(settings: sysctl::Simulated) -> Twin {
        Kernel {
            servers: ipvs::Simulated::default(),
            sets: ipset::Simulated::default(),
            host: host::Simulated::default(),
            settings,
        }
    }

    fn settings(release: &str) -> sysctl::Simulated {
        let mut settings = sysctl::Simulated::new(ALL.map(|name| (name, "0")));
        settings.values.insert(RELEASE.into(), release.into());
        settings.values.insert(ALL[1].into(), "1".into());
        settings
    }

    #[test]
    fn settings_are_right_for_the_kernel_at_hand_and_come_back() {
        for (release, strict_arp, expected) in [
            ("6.12.43+deb13-amd64", false, ["1", "1", "1", "1", "1", "0", "0"]),
            ("5.4.0-100-generic", false, ["1", "0", "1", "1", "1", "0", "0"]),
            ("3.10.0", false, ["1", "1", "1", "1", "1", "0", "0"]),
            ("4.0.9", false, ["1", "1", "1", "1", "1", "0", "0"]),
            ("4.1.0", false, ["1", "0", "1", "1", "1", "0", "0"]),
            ("4.18.0-553.el8_10.x86_64", false, ["1", "0", "1", "1", "1", "0", "0"]),
            ("5.8.18", true, ["1", "0", "1", "1", "1", "1", "2"]),
            ("5.10.0-34-amd64", false, ["1", "1", "1", "1", "1", "0", "0"]),
            ("5.9.0", true, ["1", "1", "1", "1", "1", "1", "2"]),
        ] {
            let before = settings(release);
            let mut twin = kernel(before.clone());
            assert!(apply(&mut twin, strict_arp).unwrap() > 0);
            let values: Vec<&str> = ALL.iter().map(|name| twin.settings.values[*name].as_str()).collect();
            assert_eq!(values, expected, "{release}");
            assert_eq!(apply(&mut twin, strict_arp).unwrap(), 0);
            // Somebody sets one back, and we set it again: what was before all of it is remembered.
            twin.settings.values.insert(ALL[0].into(), "0".into());
            assert_eq!(apply(&mut twin, strict_arp).unwrap(), 1);
            restore(&mut twin).unwrap();
            assert_eq!(twin.settings, before, "{release}");
            assert!(twin.sets.sets().unwrap().is_empty());
        }
    }

    #[test]
    fn a_setting_that_nobody_asks_for_any_more_is_given_back() {
        let before = settings("6.12.0");
        let mut twin = kernel(before.clone());
        apply(&mut twin, true).unwrap();
        assert_eq!(lines(&mut twin, false).unwrap().len(), 2);
        assert_eq!(apply(&mut twin, false).unwrap(), 2);
        let of = |twin: &Twin, number: usize| twin.settings.values[ALL[number]].clone();
        assert_eq!((of(&twin, 5), of(&twin, 6)), ("0".to_owned(), "0".to_owned()));
        assert_eq!(of(&twin, 0), "1");
        assert_eq!(lines(&mut twin, false).unwrap(), Vec::<String>::new());
        restore(&mut twin).unwrap();
        assert_eq!(twin.settings, before);
    }

    #[test]
    fn former_values_that_somebody_took_away_are_missed() {
        let mut twin = kernel(settings("6.12.0"));
        assert!(!are_forgotten(&mut twin.sets).unwrap());
        apply(&mut twin, false).unwrap();
        assert!(!are_forgotten(&mut twin.sets).unwrap());
        let name = names::former().name;
        let all = twin.sets.entries(&name).unwrap().unwrap();
        let gone: Vec<Request> = all.into_iter().map(|entry| Request::Delete(name.clone(), entry)).collect();
        twin.sets.run(&gone).unwrap();
        assert!(are_forgotten(&mut twin.sets).unwrap());
    }

    #[test]
    fn a_setting_that_the_kernel_has_not_is_left_out() {
        let mut twin = kernel(sysctl::Simulated::default());
        assert_eq!(apply(&mut twin, true).unwrap(), 0);
        assert!(twin.sets.sets().unwrap().is_empty());
    }
}

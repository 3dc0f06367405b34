//! The iptables programs of this host, for the modes that write with one.
//!
//! In: which program the operator chose. Out: one handle for each family that this host has, or why there is none.
//! Missing programs and privileges are reported before any change is made.

use std::path::Path;
use std::time::Duration;

use kernel::xtables::{Error, Family, Programs, Table, Variant, Xtables};

use crate::mode::{HiddenRules, OpenError};
use crate::settings::{Commands, Kind, Setting, Values};
use crate::upstream::{self, Hidden, KnownChains};
use crate::xtables::choose;

/// How often a table is polled for a flush: the kernel does not notify of what iptables programs do.
pub(crate) const POLL: Duration = Duration::from_secs(5);

/// The flag that chooses the program.
pub const FLAG: &str = "iptables-program";

/// The Debian package that has them.
pub(crate) const PACKAGE: &str = "iptables";

/// The kernel lists IPv6 addresses here, wherever there is IPv6.
pub const HAS_IPV6: &str = "/proc/net/if_inet6";

/// The families that this host has.
pub fn families_of_host() -> Vec<model::Family> {
    let has_ipv6 = Path::new(HAS_IPV6).exists();
    model::Family::ALL.into_iter().filter(|family| *family == model::Family::V4 || has_ipv6).collect()
}

/// A text that changes nothing, but needs all that a change needs.
const NOTHING: &str = "*mangle\nCOMMIT\n";

/// The setting, for each mode that writes with a program.
pub(crate) const PROGRAM: Setting = Setting {
    flag: FLAG,
    kind: Kind::Word { value_name: "PROGRAM", what: "program", words: &["auto", "nft", "legacy"] },
    help: "The iptables program of modes that use one: the one that this node already uses, or a choice",
    heading: None,
    commands: Commands { render: false, diff: true, cleanup: false },
    field: None,
};

/// A program's name in the words of the setting.
pub fn setting_of(program: &str) -> Option<&'static str> {
    match program {
        "iptables-nft" => Some("nft"),
        "iptables-legacy" => Some("legacy"),
        _ => None,
    }
}

/// The program that was chosen; `None` where the one that this node uses is.
pub fn chosen(values: &Values) -> Option<Variant> {
    match values.text(FLAG) {
        Some("nft") => Some(Variant::Nft),
        Some("legacy") => Some(Variant::Legacy),
        _ => None,
    }
}

/// The programs that `mode` writes with, one for each family that this host has.
pub(crate) fn open(
    mode: &str,
    values: &Values,
    known: &KnownChains,
) -> Result<(Variant, Vec<Programs>), OpenError> {
    let mut found = Programs::find();
    let failed = |error: Error| OpenError::Host(error.to_string());
    let chosen = chosen(values);
    let variant = match chosen {
        Some(variant) => Some(variant),
        None => choose(&mut found).map_err(failed)?,
    };
    let why: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
    let Some(variant) = variant else {
        return Err(OpenError::Host(format!(
            "mode `{mode}` needs the program iptables, of either kind, and there is none: install the package iptables{why}"
        )));
    };
    if let Some(hidden) = upstream::hidden(known, &mut found).filter(|_| chosen.is_none()) {
        refuse_if_seen(variant, hidden)?;
    }
    let mut handles = Vec::new();
    for family in Family::ALL {
        let handle = found.door(variant, family).cloned().ok_or_else(|| {
            OpenError::Host(format!(
                "`{variant}` is not installed for {family}: install the package iptables{why}"
            ))
        });
        match handle.and_then(|mut handle| handle.save(Table::Mangle).map(|_| handle).map_err(failed)) {
            Ok(handle) => handles.push(handle),
            Err(error) if family == Family::V6 && !Path::new(HAS_IPV6).exists() => {
                tracing::warn!("this host has no IPv6, so IPv4 alone is served: {error}");
            }
            Err(error) => return Err(error),
        }
    }
    Ok((variant, handles))
}

/// Whether these can write, where only a write tells: a legacy table that no program has used is not there to be looked into.
pub(crate) fn try_to_write<'a, X: Xtables + 'a>(
    handles: impl Iterator<Item = &'a mut X>,
) -> Result<(), String> {
    for handle in handles.filter(|handle| handle.variant() == Variant::Legacy) {
        match handle.restore(NOTHING) {
            Err(error) if !error.retry_helps() => return Err(error.to_string()),
            // The first sync reports what may pass.
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Rules that may be there and may as well not be are no reason to serve no client.
fn refuse_if_seen(variant: Variant, hidden: Hidden) -> Result<(), OpenError> {
    let Hidden { is_seen, error } = hidden;
    if is_seen {
        return Err(HiddenRules { variant, because: error }.into());
    }
    tracing::warn!(
        "rules of Services, upstream's or ours, may be in tables of iptables-legacy, which may be asked before all that {variant} writes, and \
         this process may not look into them: give it CAP_NET_RAW (deploy/overlays/iptables-legacy), or see with `iptables-legacy-save` that \
         there are none: {error}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_only_may_be_there_keep_nobody_from_starting() {
        let hidden = |is_seen| {
            let error = Error::NotPermitted { program: "iptables-legacy-save".into(), stderr: "no".into() };
            Hidden { is_seen, error }
        };
        assert!(refuse_if_seen(Variant::Nft, hidden(false)).is_ok());
        let refused = refuse_if_seen(Variant::Nft, hidden(true)).expect_err("they are there").to_string();
        assert!(refused.contains("are in tables of iptables-legacy"), "{refused}");
        assert!(!refused.contains("--iptables-program"), "only some commands have it: {refused}");
    }
}

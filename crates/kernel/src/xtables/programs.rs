//! The real programs, found on the `PATH`.
//!
//! In: folders to look into. Out: a door for each program and family that is there, and what is wrong with those that are there
//! but cannot be used.
//!
//! Programs with a suffix (`iptables-nft-save`, `iptables-legacy-save`) tell by their name what they are. Where they are
//! missing, the plain ones are asked for their version, which says `(nf_tables)` or `(legacy)`; before 1.8 it says neither, and
//! there was nothing but legacy.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::error::{Error, OLDEST, Result, Version};
use super::legacy::Legacy;
use super::legacy_tables::LegacyTables;
use super::process::{Ended, line, run};
use super::{Family, Table, Variant, Xtables, legacy_packets, program};
use crate::nft;
use crate::rule_packets::RulePackets;

/// The largest table that was measured (10,000 services of 4 endpoints, 190,000 lines) takes seconds.
const LIMIT: Duration = Duration::from_secs(60);
/// A question for the version takes milliseconds.
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// So many seconds the legacy programs wait for their lock, as upstream kube-proxy lets them.
const LOCK_WAIT: &str = "5";
/// The network namespace of the calling thread, which may not be that of the process.
const PROC: &str = "/proc/thread-self/net";

/// `-save` and `-restore` of one program and one family.
#[derive(Debug, Clone)]
pub struct Programs {
    variant: Variant,
    family: Family,
    save: PathBuf,
    restore: PathBuf,
    proc: PathBuf,
    limit: Duration,
}

/// What this machine has.
#[derive(Debug, Clone)]
pub struct Found<X = Programs> {
    /// What can be used.
    pub programs: Vec<X>,
    /// Why the rest cannot.
    pub problems: Vec<Error>,
    /// The legacy tables of families in which the kernel has one that a proxy writes to, whether or not there is a program to look into it.
    pub legacy: Vec<Legacy>,
    /// The same tables, for whoever removes chains from them without a program.
    pub legacy_tables: Vec<LegacyTables>,
}

impl<X> Default for Found<X> {
    fn default() -> Self {
        Self { programs: Vec::new(), problems: Vec::new(), legacy: Vec::new(), legacy_tables: Vec::new() }
    }
}

impl<X: Xtables> Found<X> {
    /// The door to the tables of one program and one family.
    pub fn door(&mut self, variant: Variant, family: Family) -> Option<&mut X> {
        self.programs.iter_mut().find(|door| door.variant() == variant && door.family() == family)
    }

    /// For somebody who has the time: a lock that another program holds is waited for also where there is no program to do so.
    #[must_use]
    pub fn waiting_for_lock(mut self) -> Self {
        self.legacy_tables.iter_mut().for_each(LegacyTables::wait_for_lock);
        self
    }
}

impl Programs {
    /// Looks into the folders of `PATH`, and into those of the system's own programs, which an ordinary `PATH` leaves out.
    pub fn find() -> Found {
        let path: OsString = env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
        Self::find_in(&env::split_paths(&path).chain(system).collect::<Vec<_>>())
    }

    /// Looks into these folders; the first that has a program counts.
    pub fn find_in(folders: &[PathBuf]) -> Found {
        let mut found = Found::default();
        for family in Family::ALL {
            found.legacy.extend(Legacy::look(family));
            found.legacy_tables.push(LegacyTables::new(family));
            let plain = Plain::look(folders, family);
            if let Err(error) = &plain {
                found.problems.push(error.clone());
            }
            for variant in Variant::ALL {
                let base = format!("{}-{}", program(family), suffix(variant));
                let of_plain =
                    plain.as_ref().ok().and_then(Option::as_ref).filter(|plain| plain.variant == variant);
                let files = pair(folders, &base).or_else(|| of_plain.map(|plain| plain.files.clone()));
                found.programs.extend(files.map(|files| Self::new(variant, family, files)));
            }
        }
        found
    }

    fn new(variant: Variant, family: Family, files: [PathBuf; 2]) -> Self {
        let [save, restore] = files;
        Self { variant, family, save, restore, proc: PROC.into(), limit: LIMIT }
    }

    fn run(&self, command: Command, input: &str) -> Result<String> {
        let program = line(&command);
        let Ended { status, stdout, stderr } = run(command, input, self.limit)?;
        if status.success() { Ok(stdout) } else { Err(Error::of_failure(program, input, &stderr)) }
    }

    /// Whether the kernel has the table, as far as asking the program would make it.
    fn may_ask_for(&self, table: Table) -> Result<bool> {
        Ok(match self.variant {
            Variant::Nft => true,
            Variant::Legacy => tables_in(&self.proc, self.family)?.iter().any(|name| name == table.name()),
        })
    }
}

impl Xtables for Programs {
    fn variant(&self) -> Variant {
        self.variant
    }

    fn family(&self) -> Family {
        self.family
    }

    fn save(&mut self, table: Table) -> Result<Option<String>> {
        if !self.may_ask_for(table)? {
            return Ok(None);
        }
        let mut command = Command::new(&self.save);
        command.args(["-t", table.name()]);
        self.run(command, "").map(Some)
    }

    fn restore(&mut self, text: &str) -> Result<()> {
        let mut command = Command::new(&self.restore);
        command.arg("--noflush");
        if self.variant == Variant::Legacy {
            command.args(["-w", LOCK_WAIT]);
        }
        self.run(command, text).map(drop)
    }

    /// Asks the kernel: no program is started.
    fn packets(&mut self, table: Table, chain: &str) -> Result<Option<Vec<RulePackets>>> {
        if !self.may_ask_for(table)? {
            return Ok(Some(Vec::new()));
        }
        let found = match self.variant {
            Variant::Nft => nft::Netlink::open()
                .and_then(|mut kernel| kernel.rule_packets(self.family, table.name(), chain))
                .map_err(|error| error.to_string()),
            Variant::Legacy => {
                legacy_packets::read(self.family, table.name(), chain).map_err(|error| error.to_string())
            }
        };
        found.map(Some).map_err(|stderr| Error::NotPermitted {
            program: format!("read the counters of table {table} ({}, {})", self.variant, self.family),
            stderr,
        })
    }
}

/// The tables that the legacy program has in this network namespace. None where the kernel knows no legacy tables.
pub fn legacy_tables(family: Family) -> Result<Vec<String>> {
    tables_in(Path::new(PROC), family)
}

fn tables_in(proc: &Path, family: Family) -> Result<Vec<String>> {
    let file = proc.join(match family {
        Family::V4 => "ip_tables_names",
        Family::V6 => "ip6_tables_names",
    });
    match fs::read_to_string(&file) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::NotPermitted {
            program: format!("read {}", file.display()),
            stderr: error.to_string(),
        }),
    }
}

fn suffix(variant: Variant) -> &'static str {
    match variant {
        Variant::Nft => "nft",
        Variant::Legacy => "legacy",
    }
}

/// `BASE-save` and `BASE-restore`, if both are there.
fn pair(folders: &[PathBuf], base: &str) -> Option<[PathBuf; 2]> {
    let file = |verb: &str| {
        folders.iter().map(|folder| folder.join(format!("{base}-{verb}"))).find(|file| file.is_file())
    };
    Some([file("save")?, file("restore")?])
}

/// The programs without a suffix.
#[derive(Debug)]
struct Plain {
    variant: Variant,
    files: [PathBuf; 2],
}

impl Plain {
    /// Asks only where a program with a suffix is missing.
    fn look(folders: &[PathBuf], family: Family) -> Result<Option<Self>> {
        let base = program(family);
        let has_all = Variant::ALL
            .iter()
            .all(|variant| pair(folders, &format!("{base}-{}", suffix(*variant))).is_some());
        let Some(files) = pair(folders, base).filter(|_| !has_all) else { return Ok(None) };
        let mut command = Command::new(files[0].with_file_name(base));
        command.arg("--version");
        let program = files[0].with_file_name(base).display().to_string();
        let Ended { stdout, .. } = run(command, "", VERSION_LIMIT)?;
        let said = stdout.trim().to_owned();
        let Some(version) = version_in(&said) else { return Err(Error::Unknown { program, said }) };
        let variant = if said.contains("(nf_tables)") { Variant::Nft } else { Variant::Legacy };
        if version < OLDEST {
            return Err(Error::TooOld { program, version });
        }
        Ok(Some(Self { variant, files }))
    }
}

/// The version in `iptables v1.8.9 (nf_tables)`.
fn version_in(said: &str) -> Option<Version> {
    let word = said.split_whitespace().find_map(|word| word.strip_prefix('v'))?;
    let mut numbers = word.split('.').map(str::parse::<u32>);
    let major = numbers.next()?.ok()?;
    let mut next = || numbers.next().and_then(std::result::Result::ok).unwrap_or(0);
    Some(Version([major, next(), next()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with programs that are scripts.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, programs: &[(&str, &str)]) -> Self {
            let folder = env::temp_dir().join(format!("portway-xtables-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            for (program, script) in programs {
                // Another process writes it: a file that we had open for writing could not be started while a program of
                // another test, between fork and exec, still holds a copy.
                let mut writer = Command::new("sh");
                writer.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(folder.join(program));
                assert!(run(writer, &format!("#!/bin/sh\n{script}\n"), LIMIT).unwrap().status.success());
            }
            Self(folder)
        }

        fn find(&self) -> Found {
            Programs::find_in(std::slice::from_ref(&self.0))
        }

        /// A door to its legacy programs; `names` are the tables that the kernel has.
        fn legacy(&self, names: Option<&str>) -> Programs {
            if let Some(names) = names {
                fs::write(self.0.join("ip_tables_names"), names).unwrap();
            }
            let found = self.find().programs.into_iter().find(|door| door.variant == Variant::Legacy);
            Programs { proc: self.0.clone(), limit: Duration::from_millis(500), ..found.unwrap() }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn kinds(found: &Found) -> Vec<(Variant, Family)> {
        found.programs.iter().map(|door| (door.variant, door.family)).collect()
    }

    #[test]
    fn programs_with_a_suffix_need_not_be_asked() {
        let names = [
            "iptables-nft-save",
            "iptables-nft-restore",
            "ip6tables-legacy-save",
            "ip6tables-legacy-restore",
        ];
        let folder = Folder::new("suffix", &names.map(|name| (name, "exit 1")));
        let found = folder.find();
        assert_eq!(kinds(&found), [(Variant::Nft, Family::V4), (Variant::Legacy, Family::V6)]);
        assert_eq!(found.problems, []);
    }

    #[test]
    fn plain_programs_are_what_their_version_says() {
        let cases = [
            ("iptables v1.8.9 (nf_tables)", Some(Variant::Nft)),
            ("iptables v1.8.9 (legacy)", Some(Variant::Legacy)),
            ("iptables v1.6.2", Some(Variant::Legacy)),
            ("iptables v1.4.21", None),
            ("busybox", None),
        ];
        for (said, expected) in cases {
            let says = format!("echo '{said}'");
            let programs = [("iptables", says.as_str()), ("iptables-save", ""), ("iptables-restore", "")];
            let found = Folder::new("plain", &programs).find();
            let variants: Vec<_> = found.programs.iter().map(|door| door.variant).collect();
            assert_eq!(variants, Vec::from_iter(expected), "{said}");
            assert_eq!(found.problems.len(), usize::from(expected.is_none()), "{said}: {:?}", found.problems);
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        let found = Folder::new("nothing", &[("iptables-save", "")]).find();
        assert!(found.programs.is_empty() && found.problems.is_empty(), "{found:?}");
    }

    #[test]
    fn a_legacy_table_that_nobody_has_used_is_not_asked_for() {
        let programs = [("iptables-legacy-save", "echo \"save $*\""), ("iptables-legacy-restore", "")];
        let folder = Folder::new("names", &programs);
        assert_eq!(folder.legacy(None).save(Table::Nat), Ok(None));
        assert_eq!(folder.legacy(Some("filter\n")).save(Table::Nat), Ok(None));
        assert_eq!(
            folder.legacy(Some("filter\nnat\n")).save(Table::Nat),
            Ok(Some("save -t nat\n".to_owned()))
        );
    }

    #[test]
    fn a_restore_keeps_what_it_does_not_name_and_waits_for_the_lock() {
        let restore = "echo \"$*: $(cat)\" >&2; exit 1";
        let folder =
            Folder::new("restore", &[("iptables-legacy-save", ""), ("iptables-legacy-restore", restore)]);
        let error = folder.legacy(None).restore("*nat").unwrap_err().to_string();
        assert!(error.contains("(it said: --noflush -w 5: *nat)"), "{error}");
    }

    #[test]
    fn a_program_that_hangs_or_vanishes_is_named() {
        let programs = [("iptables-legacy-save", "exec sleep 1000"), ("iptables-legacy-restore", "")];
        let folder = Folder::new("hangs", &programs);
        let mut door = folder.legacy(Some("nat\n"));
        assert!(matches!(door.save(Table::Nat), Err(Error::Hung { .. })));
        fs::remove_file(folder.0.join("iptables-legacy-restore")).unwrap();
        assert!(matches!(door.restore(""), Err(Error::Missing { .. })));
    }
}

//! `route_localnet`, which lets packets of 127.0.0.0/8 leave and enter this host: set when the rules guard against neighbours,
//! and taken back when nobody asks for it any more.
//!
//! That we set it is written down in the run folder. Both last as long: until the machine is started anew. Rules cannot tell, since
//! kubelet writes the very same guard; and where somebody else has set it, there is nothing of ours to take back.
//!
//! Absent on purpose: the guard, which is one of the mode's rules.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::mode::OpenError;

const ROUTE_LOCALNET: &str = "/proc/sys/net/ipv4/conf/all/route_localnet";
/// The file that says that we set it.
const MARK: &str = "route-localnet";

/// Where it is set, and not by us: what to do about it.
pub(super) fn stays() -> Option<String> {
    let is_set = fs::read_to_string(ROUTE_LOCALNET).is_ok_and(|value| value.trim() == "1");
    is_set.then(|| {
        "net.ipv4.conf.all.route_localnet is 1, as upstream's iptables mode sets it: portway does without, and neighbours may reach ports of \
         127.0.0.1 where no rule guards them (CVE-2020-8558). Unless another program needs it: \
         `sysctl -w net.ipv4.conf.all.route_localnet=0`"
            .to_owned()
    })
}

/// The setting, and whether it is ours.
#[derive(Clone, Debug)]
pub(crate) struct Localnet {
    mark: PathBuf,
}

impl Localnet {
    /// As a portway with this folder may have left it.
    pub(super) fn new(run_dir: &Path) -> Self {
        Self { mark: run_dir.join(MARK) }
    }

    /// Refuses where it could not be set. Nothing is changed.
    pub(super) fn refuse_if_read_only() -> Result<(), OpenError> {
        let opened = fs::OpenOptions::new().write(true).open(ROUTE_LOCALNET);
        opened.map(drop).map_err(|error| OpenError::Host(cannot(&error)))
    }

    /// Sets it. The guard must be in force. The error is a sentence.
    pub(super) fn open(&self) -> Result<(), String> {
        let open = || {
            if fs::read_to_string(ROUTE_LOCALNET)?.trim() == "1" {
                return Ok(());
            }
            // First the mark: what is set and not known to be ours would stay.
            fs::write(&self.mark, "portway has set route_localnet\n")?;
            fs::write(ROUTE_LOCALNET, "1")
        };
        open().map_err(|error: io::Error| cannot(&error))
    }

    /// Takes it back if we had set it, and says so.
    pub(super) fn close(&self) -> Result<Option<&'static str>, OpenError> {
        if !self.mark.exists() {
            return Ok(None);
        }
        fs::write(ROUTE_LOCALNET, "0").and_then(|()| fs::remove_file(&self.mark)).map_err(|source| {
            OpenError::System { action: "set route_localnet, which portway had set, back to 0", source }
        })?;
        Ok(Some(
            "route_localnet, which portway had set for node ports on 127.0.0.0/8, is 0 again; the guard in chain KUBE-FIREWALL stays: \
             kubelet writes the same",
        ))
    }
}

fn cannot(error: &io::Error) -> String {
    format!("`--iptables-localhost-nodeports` needs {ROUTE_LOCALNET}, which cannot be written: {error}")
}

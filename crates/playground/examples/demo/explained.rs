//! What `portway explain -o json` says of one packet.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use playground::Protocol;
use serde_json::Value;

/// The fate of a packet, in portway's words.
#[derive(Debug)]
pub(crate) struct Explained {
    /// Where the packet is sent: explain has turned the Service's name into an address.
    pub(crate) destination: SocketAddr,
    pub(crate) protocol: Protocol,
    /// `OneOf`, `Rejected`, `Dropped` or `Untouched`.
    pub(crate) fate: String,
    pub(crate) landings: Vec<Landing>,
    pub(crate) why: Vec<String>,
}

/// A pod that may get it.
#[derive(Debug)]
pub(crate) struct Landing {
    pub(crate) pod: String,
    pub(crate) share: f64,
    pub(crate) slots: u64,
    pub(crate) is_masqueraded: bool,
}

impl Explained {
    pub(crate) fn read(json: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(json).context("`portway explain -o json` wrote no JSON")?;
        Self::of(&value).with_context(|| format!("`portway explain -o json` left something out:\n{json}"))
    }

    fn of(value: &Value) -> Option<Self> {
        let packet = value.get("packet")?;
        let address = packet.get("destination")?.as_str()?.parse().ok()?;
        let port = u16::try_from(packet.get("port")?.as_u64()?).ok()?;
        let is_udp = packet.get("protocol")?.as_str()?.eq_ignore_ascii_case("udp");
        let texts = value.get("why")?.as_array()?.iter().filter_map(Value::as_str);
        Some(Self {
            destination: SocketAddr::new(address, port),
            protocol: if is_udp { Protocol::Udp } else { Protocol::Tcp },
            fate: value.get("fate")?.as_str()?.to_owned(),
            landings: value.get("endpoints")?.as_array()?.iter().map(landing).collect::<Option<_>>()?,
            why: texts.map(str::to_owned).collect(),
        })
    }
}

fn landing(value: &Value) -> Option<Landing> {
    let name = |field| value.get(field).and_then(Value::as_str);
    Some(Landing {
        pod: name("pod").or_else(|| name("address"))?.to_owned(),
        share: value.get("share")?.as_f64()?,
        slots: value.get("slots")?.as_u64()?,
        is_masqueraded: value.get("masqueraded")?.as_bool()?,
    })
}

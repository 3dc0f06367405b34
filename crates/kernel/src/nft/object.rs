//! The objects that a kernel holds, as plain data: tables, chains, sets, maps.
//!
//! Equal data means equal objects. Nothing here knows how an object is written or printed.

use std::sync::Arc;

pub use model::Family;

use super::value::Kind;

/// The name of a chain, a set or a table. Shared, since many elements name the same chain.
pub type Name = Arc<str>;

/// The kind of a family's addresses.
pub(super) const fn address_kind(family: Family) -> Kind {
    match family {
        Family::V4 => Kind::Ipv4,
        Family::V6 => Kind::Ipv6,
    }
}

/// A comment as nft shows it: at most 127 bytes, no quotes or control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comment(Arc<str>);

impl Comment {
    /// The longest comment that nft reads back.
    const BYTES_MAX: usize = 127;

    /// Takes a text, cut and cleaned so that nft can print and re-read it.
    pub fn new(text: &str) -> Self {
        let end = (0..=Self::BYTES_MAX.min(text.len())).rfind(|&end| text.is_char_boundary(end));
        let text = &text[..end.unwrap_or(0)];
        let unfit = |c: char| c == '"' || c == '\\' || c.is_control();
        if text.contains(unfit) { Self(text.replace(unfit, "'").into()) } else { Self(text.into()) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Comment {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// A table: a name that holds everything else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Table {
    /// Which packets it sees.
    pub family: Family,
    /// Its name, unique in its family.
    pub name: Name,
    /// What it is for. The kernel keeps the comment with which the table was made.
    pub comment: Option<Comment>,
    /// It was told to sleep: it is there, and no packet passes it.
    pub is_dormant: bool,
}

/// A list of rules: entered from the kernel's packet path if it has a hook, else by jump or goto.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chain {
    /// Its name, unique in its table.
    pub name: Name,
    /// Where the kernel enters it, for a base chain.
    pub base: Option<Hook>,
    /// What it is for.
    pub comment: Option<Comment>,
}

impl Chain {
    /// A chain that is entered by jump or goto.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), base: None, comment: None }
    }

    /// A chain that the kernel enters.
    pub fn base(name: &str, hook: Hook) -> Self {
        Self { name: name.into(), base: Some(hook), comment: None }
    }
}

/// Where and when the kernel enters a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hook {
    /// What the chain may do.
    pub kind: ChainKind,
    /// Where it is entered.
    pub point: HookPoint,
    /// Lower runs earlier.
    pub priority: i32,
    /// What happens to packets that no rule decided.
    pub policy: Policy,
}

/// What a base chain may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChainKind {
    /// See every packet; accept, drop, reject.
    Filter,
    /// See the first packet of each connection, and translate addresses.
    Nat,
}

/// A place in the kernel's packet path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookPoint {
    /// A packet came in; where it goes is not decided yet.
    Prerouting,
    /// It is for this host.
    Input,
    /// It passes through.
    Forward,
    /// This host made it.
    Output,
    /// It is about to leave.
    Postrouting,
}

/// What happens to packets that no rule of a base chain decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// They go on.
    Accept,
    /// They are dropped.
    Drop,
}

/// What a rule or an element of a verdict map decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// This base chain is done with the packet.
    Accept,
    /// The packet is gone, silently.
    Drop,
    /// Back to the chain that jumped here.
    Return,
    /// Into this chain, and back at its end.
    Jump(Name),
    /// Into this chain, for good.
    Goto(Name),
}

impl Verdict {
    /// The chain that it leads to, if any.
    pub fn target(&self) -> Option<&Name> {
        match self {
            Self::Jump(chain) | Self::Goto(chain) => Some(chain),
            _ => None,
        }
    }
}

/// What a field of a key or of a map's data stands for; nft shows it as `typeof`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The source address of the table's family.
    Source,
    /// The destination address of the table's family.
    Destination,
    /// The transport protocol.
    Protocol,
    /// The destination port.
    Port,
    /// The packet's priority.
    Priority,
    /// A drawn number.
    Slot,
    /// The packet's mark.
    Mark,
    /// The interface that the packet came in by.
    InputInterface,
}

impl Field {
    /// The kind of its values in a table of this family.
    pub const fn kind(self, family: Family) -> Kind {
        match self {
            Self::Source | Self::Destination => address_kind(family),
            Self::Protocol => Kind::Protocol,
            Self::Port => Kind::Port,
            Self::Priority => Kind::Priority,
            Self::Slot => Kind::Slot,
            Self::Mark => Kind::Mark,
            Self::InputInterface => Kind::Interface,
        }
    }
}

/// What a set's elements carry beside their key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataFields {
    /// Nothing: it is a plain set.
    None,
    /// A verdict: it is a verdict map.
    Verdict,
    /// Values: it is a map.
    Values(Vec<Field>),
}

/// What a set can do beyond looking up exact keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Flags {
    /// Its keys are ranges; each element then has an end.
    pub interval: bool,
    /// Rules add and delete elements while packets pass.
    pub dynamic: bool,
    /// Its elements can expire.
    pub timeout: bool,
}

/// A set of keys, or a map from keys to something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Set {
    /// Its name, unique in its table among sets and maps.
    pub name: Name,
    /// The fields of its keys, one to five.
    pub key: Vec<Field>,
    /// What its elements carry.
    pub data: DataFields,
    /// What it can do.
    pub flags: Flags,
    /// How many elements it takes at most; `None` for no limit. A dynamic one needs a limit.
    pub size: Option<u32>,
    /// What it is for.
    pub comment: Option<Comment>,
}

impl Set {
    /// A plain set.
    pub fn new(name: &str, key: &[Field]) -> Self {
        Self::with_data(name, key, DataFields::None)
    }

    /// A map from keys to values.
    pub fn map(name: &str, key: &[Field], data: &[Field]) -> Self {
        Self::with_data(name, key, DataFields::Values(data.to_vec()))
    }

    /// A map from keys to verdicts.
    pub fn verdict_map(name: &str, key: &[Field]) -> Self {
        Self::with_data(name, key, DataFields::Verdict)
    }

    fn with_data(name: &str, key: &[Field], data: DataFields) -> Self {
        Self {
            name: name.into(),
            key: key.to_vec(),
            data,
            flags: Flags::default(),
            size: None,
            comment: None,
        }
    }

    /// The kinds of its key's fields in a table of this family.
    pub fn key_kinds(&self, family: Family) -> Vec<Kind> {
        self.key.iter().map(|field| field.kind(family)).collect()
    }

    /// The kinds of its data's fields in a table of this family; none for sets and verdict maps.
    pub fn data_kinds(&self, family: Family) -> Vec<Kind> {
        match &self.data {
            DataFields::Values(fields) => fields.iter().map(|field| field.kind(family)).collect(),
            DataFields::None | DataFields::Verdict => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_cut_at_a_character_and_cleaned() {
        assert_eq!(Comment::new("a \"b\"\n").as_str(), "a 'b''");
        assert_eq!(Comment::new(&"ä".repeat(100)).as_str().len(), 126);
    }
}

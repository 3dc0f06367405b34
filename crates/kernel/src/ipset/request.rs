//! What can be asked of sets, and a refusal of it.

use std::fmt;

use super::{Entry, Set, SetName};
use crate::netlink::{self, Errno};

/// One change. What is so already is no refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Makes a set. One of this name that is of the same kind and takes as many entries stays as it is; another is a refusal.
    /// Beware: the kernel does not compare the family.
    Create(Set),
    /// Removes a set, if it is there. Refused as long as a rule uses it.
    Destroy(SetName),
    /// Removes all entries of a set.
    Flush(SetName),
    /// Two sets of one kind get each other's name, at once. Rules follow the name.
    Swap(SetName, SetName),
    /// Puts an entry into a set.
    Add(SetName, Entry),
    /// Takes an entry out of a set.
    Delete(SetName, Entry),
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(set) => write!(f, "create set {} of {}", set.name, set.kind.name()),
            Self::Destroy(name) => write!(f, "destroy set {name}"),
            Self::Flush(name) => write!(f, "empty set {name}"),
            Self::Swap(one, other) => write!(f, "swap sets {one} and {other}"),
            Self::Add(name, entry) => write!(f, "add {entry} to set {name}"),
            Self::Delete(name, entry) => write!(f, "delete {entry} from set {name}"),
        }
    }
}

/// A request that was refused. The others are done all the same.
pub type Refused = netlink::Refused<Request>;

/// Numbers beyond those of the system, which sets alone answer with.
pub mod code {
    /// An entry of another family, or without all its parts.
    pub const MISFIT: i32 = 4097;
    /// This kernel has no sets of that kind.
    pub const NO_SUCH_KIND: i32 = 4098;
    /// A rule uses the set.
    pub const BUSY: i32 = 4100;
    /// To be swapped with a set that is not there.
    pub const NO_SECOND_SET: i32 = 4101;
    /// To be swapped with a set of another kind.
    pub const TWO_KINDS: i32 = 4102;
    /// In the set already, or not in it.
    pub const EXISTS: i32 = 4103;
    /// A network of all addresses.
    pub const WRONG_PREFIX: i32 = 4104;
    /// A rule uses the set: said of one that is destroyed.
    pub const REFERENCED: i32 = 4108;
    /// Of a hash; of a bitmap: outside its range.
    pub const FULL: i32 = 4352;
}

impl Refused {
    /// A rule uses the set. Trying again helps once it does not.
    pub fn is_in_use(&self) -> bool {
        [code::BUSY, code::REFERENCED].contains(&self.refusal.errno.0)
    }

    /// The set that is meant is not there.
    pub fn is_missing(&self) -> bool {
        self.refusal.errno == Errno(libc::ENOENT) || self.refusal.errno.0 == code::NO_SECOND_SET
    }

    /// The set has as many entries as it takes.
    pub fn is_full(&self) -> bool {
        self.refusal.errno.0 == code::FULL
    }

    fn reason(&self) -> Option<String> {
        let created = match &self.request {
            Request::Create(set) => Some(set.kind),
            _ => None,
        };
        Some(match (self.refusal.errno.0, created) {
            (code::NO_SUCH_KIND, Some(kind)) => {
                format!("it has no sets of {}: load the module `{}`", kind.name(), kind.module())
            }
            (libc::EEXIST, Some(_)) => "a set of this name is there, of another kind or size".to_owned(),
            (code::BUSY | code::REFERENCED, _) => "a rule uses it".to_owned(),
            (libc::ENOENT | code::NO_SECOND_SET, _) => "there is no such set".to_owned(),
            (code::TWO_KINDS, _) => "they are of different kinds".to_owned(),
            (code::MISFIT, None) => "it does not fit: another family, or another kind of entry".to_owned(),
            (code::WRONG_PREFIX, _) => "such a set takes no network of all addresses".to_owned(),
            (code::FULL, _) => "the set is full".to_owned(),
            _ => return None,
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel refused to {}: ", self.request)?;
        match self.reason() {
            Some(reason) => f.write_str(&reason),
            None => self.refusal.fmt(f),
        }
    }
}

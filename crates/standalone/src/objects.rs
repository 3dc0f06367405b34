//! Kubernetes objects as they were written, with the place where they stand.
//!
//! The model keeps only what decides packets. People also want to see labels, selectors and ages, so the objects
//! themselves are kept here, as JSON values.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use model::Report;
use model::object::Read;
use serde_json::Value;

/// Reads an object as the model does, with what modes have to say about it.
pub fn read(object: &Value) -> Read {
    dataplane::registry::review(model::object::read(object))
}

/// The kinds that mean something to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A Service.
    Service,
    /// An EndpointSlice.
    EndpointSlice,
    /// A Pod.
    Pod,
    /// A Node.
    Node,
    /// A ServiceCIDR.
    ServiceCidr,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::Service, Kind::EndpointSlice, Kind::Pod, Kind::Node, Kind::ServiceCidr];

    /// As it is written in `kind:`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Service => "Service",
            Kind::EndpointSlice => "EndpointSlice",
            Kind::Pod => "Pod",
            Kind::Node => "Node",
            Kind::ServiceCidr => "ServiceCIDR",
        }
    }

    /// Do objects of this kind live in a namespace?
    pub fn is_namespaced(self) -> bool {
        matches!(self, Kind::Service | Kind::EndpointSlice | Kind::Pod)
    }

    /// Reads `kind:`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for a kind that has none.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

impl ObjectKey {
    /// The key of an object, or what is wrong with its name.
    pub fn of(kind: Kind, object: &Value) -> Result<Self, Report> {
        if kind.is_namespaced() {
            let name = model::object::namespaced_name(kind.name(), object)?;
            Ok(Self { kind, namespace: name.namespace().into(), name: name.name().into() })
        } else {
            let name = model::object::plain_name(kind.name(), object)?;
            Ok(Self { kind, namespace: "".into(), name: name.into() })
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind.name())?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The file.
    pub file: Arc<Path>,
    /// The line on which the object begins, counted from 1.
    pub line: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// An object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Which one.
    pub key: ObjectKey,
    /// Where it stands. `None` for one that we made ourselves, such as the slice of a selector.
    pub origin: Option<Origin>,
    /// What it says.
    pub value: Arc<Value>,
}

/// What happened to an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// This is how it is now.
    Apply(Object),
    /// It is gone.
    Delete(ObjectKey),
}

/// Something that keeps a file, or a part of it, from having effect. Everything else goes on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, and the line where that is known (0: the file as a whole).
    pub origin: Origin,
    /// What is wrong, and what happens now.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin.line == 0 {
            write!(f, "{}: {}", self.origin.file.display(), self.message)
        } else {
            write!(f, "{}: {}", self.origin, self.message)
        }
    }
}

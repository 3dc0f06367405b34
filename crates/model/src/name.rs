//! Names: of objects, of Services, of service ports.
//!
//! A name is checked where it enters ([`is_acceptable`]): later it is written into kernel comments, rule text, file names
//! and logs, and none of those places may have to think about quotes, slashes or line ends.

use std::fmt;
use std::sync::Arc;

use crate::net::Protocol;

/// May `name` name an object or a port? Letters, digits, `-`, `_` and `.`, at most 253 of them.
pub fn is_acceptable(name: &str) -> bool {
    (1..=253).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// `namespace/name` of an object, in one shared string. Ordered as that string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(Arc<str>);

impl ServiceName {
    /// The name of the object `name` in `namespace`. Both must be acceptable names.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// The part before the slash.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The part after the slash.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// `namespace/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `namespace/name` of an EndpointSlice: the same kind of name.
pub type SliceName = ServiceName;

/// What a client connects to, whatever its addresses: one port of one Service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePortId {
    /// The Service.
    pub service: ServiceName,
    /// `spec.ports[].name`; empty when the port has none.
    pub port: Arc<str>,
    /// `spec.ports[].protocol`.
    pub protocol: Protocol,
}

impl fmt::Display for ServicePortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.service)?;
        if !self.port.is_empty() {
            write!(f, ":{}", self.port)?;
        }
        write!(f, "/{}", self.protocol)
    }
}

impl fmt::Debug for ServicePortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which object a [`crate::Report`] speaks of: `Service default/web`, `Node a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// `Service`, EndpointSlice, `Node`, ...
    pub kind: &'static str,
    /// `namespace/name`, or `name` alone for what has no namespace.
    pub name: Arc<str>,
}

impl ObjectRef {
    /// The Service of this name.
    pub fn service(name: &ServiceName) -> Self {
        Self { kind: "Service", name: Arc::clone(&name.0) }
    }

    /// The EndpointSlice of this name.
    pub fn slice(name: &SliceName) -> Self {
        Self { kind: "EndpointSlice", name: Arc::clone(&name.0) }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

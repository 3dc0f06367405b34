//! Where an endpoint runs, as this node sees it.

/// Where an endpoint runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// On this node.
    Here,
    /// On another node.
    Elsewhere,
    /// The slice does not say.
    Unknown,
}

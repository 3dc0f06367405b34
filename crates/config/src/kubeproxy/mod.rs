//! `KubeProxyConfiguration` and the flags of kube-proxy: what an operator of upstream's wrote, and what it means here.
//!
//! ```text
//!   words ──line──► Given ─┐
//!                          ├─choose──► Document ──validate──► Asked ──► Settings
//!   file ───read───────────┘              │
//!     └────────── reload ─────────────────┴──► Live, log lines
//! ```
//!
//! Three tables are the one place where a name exists: `fields`, `flags` and `gates`; `obsolete` has those of earlier days. Each entry says how it compares with upstream's,
//! and why; a field that has no effect here is told when somebody sets it (`notices`).
//!
//! Absent on purpose: printing, and starting anything. That is the command line's.

mod asked;
mod choose;
mod defaults;
mod document;
mod duration;
mod fields;
mod flags;
mod gates;
pub mod help;
mod kind;
mod leaked;
mod line;
mod notices;
mod obsolete;
mod of_modes;
mod read;
mod reload;
mod validate;

use std::collections::BTreeSet;
use std::path::Path;

pub use asked::SHORTEST;
pub use asked::{Asked, Log};
pub use choose::{Chosen, choose};
pub use document::Document;
pub use duration::GoDuration;
pub use fields::{Change, FIELDS, Field, Status};
pub use flags::{FLAGS, Flag, Purpose};
pub use gates::{Effect, GATES, Gate, Stage};
pub use kind::Kind;
pub use leaked::LEAKED;
pub use line::Given;
pub use notices::note_of_default;
pub use notices::notices;
pub use obsolete::{OBSOLETE_FIELDS, ObsoleteField};
pub use of_modes::section_of;
pub use of_modes::{default_mode, values_of};
pub use reload::{Before, Reload, Reread, over_fields};

use dataplane::Mode;

/// A document that is right, and all that there is to tell about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The document.
    pub document: Document,
    /// The text of its file, where there is one.
    pub text: Option<String>,
    /// The fields that the file itself says something about.
    pub said: BTreeSet<&'static str>,
    /// What is to be told.
    pub warnings: Vec<String>,
}

/// Puts flags and file together, and checks them. The error is one sentence or more.
pub fn load(given: &Given, file: Option<&Path>, which: Which) -> Result<Loaded, String> {
    let text = file.map(read::text_of).transpose()?;
    let about = |error: String| match file {
        Some(path) => format!("the config file `{}` cannot be used: {error}", path.display()),
        None => error,
    };
    let Chosen { document, said, mut warnings } = choose(given, text.as_deref()).map_err(about)?;
    let document = which.over(document);
    let errors = validate::errors(&document, document.mode(which.usual));
    if !errors.is_empty() {
        return Err(about(errors.join("\n  ")));
    }
    warnings.extend(notices(&document, document.mode(which.usual).unwrap_or(which.usual)));
    Ok(Loaded { document, text, said, warnings })
}

/// Which mode it is, whatever a document says.
#[derive(Clone, Copy, Debug)]
pub struct Which {
    /// Where a document says nothing.
    pub usual: Mode,
    /// Also where it says another.
    pub forced: Option<Mode>,
}

impl Which {
    fn over(self, mut document: Document) -> Document {
        if let Some(mode) = self.forced {
            mode.name().clone_into(&mut document.mode);
        }
        document
    }
}

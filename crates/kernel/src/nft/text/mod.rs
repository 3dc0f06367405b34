//! Everything as `nft` prints it, and as `nft -f` reads it.
//!
//! For people, dry runs and error messages. Nothing is ever sent to the kernel as text.

mod object;
mod rule;
mod transaction;
mod value;

use super::object::{Comment, Family};

/// The family of a table, as nft calls it.
pub const fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

/// ` comment "..."`, or nothing.
fn comment(comment: Option<&Comment>) -> String {
    comment.map_or_else(String::new, |comment| format!(" comment \"{}\"", comment.as_str()))
}

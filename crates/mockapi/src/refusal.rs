//! Refusals as the real server writes them: an object of the kind Status.

use std::io::{self, Write};

use serde_json::json;

use crate::http::{self, Way};

/// Refuses with an object of the kind Status.
pub(crate) fn refuse(
    out: &mut dyn Write,
    code: u16,
    reason: &str,
    message: &str,
    headers: &[(&str, String)],
) -> io::Result<()> {
    http::send(out, code, headers, status(code, reason, message).as_bytes(), Way::default())
}

/// An object of the kind Status.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> String {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code
    })
    .to_string()
}

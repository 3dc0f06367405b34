//! `/metrics/slis`: how often each check of health was asked for, and what it said last. Names, labels and help are upstream's.
//!
//! The only check that kube-proxy has there is `ping`, by `/healthz` of its metrics port, and it always says yes; so does ours.

use super::text::{Kind, Page};

/// The page, after so many questions.
pub fn slis(asked: u64) -> String {
    let mut page = Page::default();
    if asked > 0 {
        let help = "[STABLE] This metric records the result of a single healthcheck.";
        page.family("kubernetes_healthcheck", Kind::Gauge, help)
            .sample(&[("name", "ping"), ("type", "healthz")], 1);
        let help = "[STABLE] This metric records the results of all healthcheck.";
        page.family("kubernetes_healthchecks_total", Kind::Counter, help)
            .sample(&[("name", "ping"), ("status", "success"), ("type", "healthz")], asked);
    }
    page.into_text()
}

//! `/healthz` and `/livez`: upstream's body, codes and headers.
//!
//! `/healthz` is for load balancers: red also when the node is about to go, or has no rules. `/livez` is for who starts the process
//! anew, and looks at neither.

use hyper::StatusCode;
use jiff::Timestamp;
use model::Family;
use serde::Serialize;

use super::answer::{Answer, Asked, JSON, Page};
use super::board::Board;
use crate::health::{Health, HealthFacts};
use crate::metrics::Probe;

/// The health port.
#[derive(Debug)]
pub(super) struct HealthPage {
    pub(super) board: Board,
}

impl Page for HealthPage {
    fn answer(&self, asked: &Asked<'_>) -> Answer {
        let probe = match asked.path {
            "/healthz" => Probe::Healthz,
            "/livez" => Probe::Livez,
            _ => return Answer::not_found(&["/healthz", "/livez"]),
        };
        let facts = self.board.health();
        let answer = answer(&facts, facts.judge(self.board.elapsed()), probe, self.board.wall());
        self.board.count(probe, answer.status.as_u16());
        answer
    }
}

/// Upstream's body.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    last_updated: String,
    current_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_eligible: Option<bool>,
    healthy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Families>,
}

#[derive(Debug, Serialize)]
struct Families {
    #[serde(rename = "IPv4", skip_serializing_if = "Option::is_none")]
    v4: Option<OfFamily>,
    #[serde(rename = "IPv6", skip_serializing_if = "Option::is_none")]
    v6: Option<OfFamily>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OfFamily {
    last_updated: String,
    healthy: bool,
}

/// What is answered at this moment.
fn answer(facts: &HealthFacts, health: Health, probe: Probe, now: Timestamp) -> Answer {
    let node_eligible = (probe == Probe::Healthz).then_some(health.is_node_eligible);
    let healthy = health.is_healthy && !(probe == Probe::Healthz && health.is_bare);
    let is_green = healthy && node_eligible.unwrap_or(true);
    let updated = facts.updated.and_then(|at| Timestamp::from_second(at.0).ok()).unwrap_or(never());
    let of_family = OfFamily { last_updated: updated.to_string(), healthy };
    let is_served = |family| facts.families.contains(&family).then(|| of_family.clone());
    // Upstream tells of families once they were written, and then or when they are red there is something to tell.
    let is_known = facts.updated.is_some() || !healthy;
    let status = is_known.then(|| Families { v4: is_served(Family::V4), v6: is_served(Family::V6) });
    let body = Body {
        // Upstream tells a recent moment as long as all is well, whenever something was last written.
        last_updated: if is_green { now } else { updated }.to_string(),
        current_time: now.to_string(),
        node_eligible,
        healthy,
        status,
    };
    let code = if is_green { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    // A struct of texts and claims is always JSON.
    Answer::new(code, JSON, serde_json::to_string(&body).unwrap_or_default())
}

/// How Go writes a moment that never was.
fn never() -> Timestamp {
    jiff::civil::date(1, 1, 1)
        .to_zoned(jiff::tz::TimeZone::UTC)
        .map_or(Timestamp::UNIX_EPOCH, |zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::super::answer::Content;
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn facts() -> HealthFacts {
        HealthFacts {
            families: Family::ALL.to_vec(),
            updated: Some(model::time::Timestamp(1_700_000_000)),
            behind_since: None,
            patience: MINUTE,
            is_bare: false,
            is_node_eligible: true,
            is_in_force: true,
            behind_because: None,
        }
    }

    fn ask(facts: &HealthFacts, elapsed: Duration, probe: Probe) -> (u16, Value) {
        let now = Timestamp::from_second(1_700_000_100).expect("a moment");
        let answer = answer(facts, facts.judge(elapsed), probe, now);
        let Content::Whole(text) = answer.content else { panic!("it is short") };
        assert_eq!(answer.content_type, "application/json");
        (answer.status.as_u16(), serde_json::from_str(&text).expect("JSON"))
    }

    #[test]
    fn a_healthy_node_is_told_as_upstream_does() {
        let family = json!({ "lastUpdated": "2023-11-14T22:13:20Z", "healthy": true });
        let expected = json!({
            "lastUpdated": "2023-11-14T22:15:00Z", "currentTime": "2023-11-14T22:15:00Z", "nodeEligible": true,
            "healthy": true, "status": { "IPv4": family, "IPv6": family },
        });
        assert_eq!(ask(&facts(), MINUTE, Probe::Healthz), (200, expected.clone()));
        let mut live = expected;
        live.as_object_mut().expect("an object").remove("nodeEligible");
        assert_eq!(ask(&facts(), MINUTE, Probe::Livez), (200, live));
    }

    #[test]
    fn the_keys_stand_in_the_order_of_upstream() {
        let answer = answer(&facts(), facts().judge(MINUTE), Probe::Healthz, never());
        let Content::Whole(text) = answer.content else { panic!("it is short") };
        assert!(text.starts_with(r#"{"lastUpdated":"0001-01-01T00:00:00Z","currentTime":"#), "{text}");
        let order =
            ["currentTime", "nodeEligible", "healthy", "status", "IPv4", "IPv6"].map(|key| text.find(key));
        assert!(order.is_sorted() && order.iter().all(Option::is_some), "{text}");
    }

    #[test]
    fn a_node_that_is_about_to_go_takes_no_clients_and_lives() {
        let leaving = HealthFacts { is_node_eligible: false, ..facts() };
        let (code, body) = ask(&leaving, MINUTE, Probe::Healthz);
        assert_eq!((code, &body["healthy"], &body["nodeEligible"]), (503, &json!(true), &json!(false)));
        assert_eq!(body["lastUpdated"], "2023-11-14T22:13:20Z", "not now: it is red");
        assert_eq!(ask(&leaving, MINUTE, Probe::Livez).0, 200);
    }

    #[test]
    fn who_is_behind_for_too_long_is_red_for_both() {
        let behind = HealthFacts { behind_since: Some(MINUTE), ..facts() };
        for (elapsed, code) in [(Duration::from_millis(119_999), 200), (MINUTE * 2, 503)] {
            for probe in [Probe::Healthz, Probe::Livez] {
                let (found, body) = ask(&behind, elapsed, probe);
                assert_eq!((found, body["status"]["IPv6"]["healthy"] == true), (code, code == 200), "{body}");
            }
        }
    }

    #[test]
    fn before_the_first_sync_it_is_healthy_and_says_nothing_of_families() {
        let fresh = HealthFacts { updated: None, ..facts() };
        let (code, body) = ask(&fresh, MINUTE, Probe::Healthz);
        assert_eq!((code, body.get("status")), (200, None));
        let never_synced = HealthFacts { behind_since: Some(Duration::ZERO), ..fresh };
        let (code, body) = ask(&never_synced, MINUTE, Probe::Healthz);
        assert_eq!(
            (code, &body["status"]["IPv4"]["healthy"]),
            (503, &json!(false)),
            "upstream stays green here"
        );
        assert_eq!(body["lastUpdated"], "0001-01-01T00:00:00Z");
    }

    #[test]
    fn a_node_without_rules_takes_no_clients_and_lives() {
        let bare = HealthFacts { updated: None, is_bare: true, ..facts() };
        let (code, body) = ask(&bare, MINUTE, Probe::Healthz);
        assert_eq!((code, &body["healthy"], &body["nodeEligible"]), (503, &json!(false), &json!(true)));
        assert_eq!(body["status"]["IPv4"]["healthy"], json!(false));
        let (code, body) = ask(&bare, MINUTE, Probe::Livez);
        assert_eq!((code, &body["healthy"]), (200, &json!(true)), "a restart would not help");
    }

    #[test]
    fn a_family_that_this_host_does_not_have_is_not_told() {
        let only_v4 = HealthFacts { families: vec![Family::V4], ..facts() };
        assert_eq!(
            ask(&only_v4, MINUTE, Probe::Healthz).1["status"].as_object().map(serde_json::Map::len),
            Some(1)
        );
    }
}

//! What follows from a failure: what to ask for instead, what to forget, and how long to wait.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::{Follower, Stop, Way};
use crate::failure::Failure;
use crate::news::{News, Trouble, Watched};
use crate::pace::spread;

/// A server that does not have a kind may have it after an upgrade.
const ABSENT_WAIT: Duration = Duration::from_secs(600);

/// ServiceCIDRs are `v1` or `v1beta1`.
const NAMES: u32 = 2;

/// After so many in a row, or so long after the first, a refusal (401 or 403) is no longer taken for one that passes by itself.
const REFUSALS_MAX: u32 = 3;
const REFUSED_FOR_MAX: Duration = Duration::from_secs(30);

/// Refusals since the server last answered.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    since: Option<Instant>,
    in_a_row: u32,
}

impl Refusals {
    fn count(&mut self, failure: &Failure, now: Instant) {
        if failure.as_temporary().is_some() {
            self.since.get_or_insert(now);
            self.in_a_row += 1;
        } else {
            self.in_a_row = 0;
        }
    }

    fn may_pass(&self, now: Instant) -> bool {
        let is_recent = self.since.is_none_or(|since| now.duration_since(since) < REFUSED_FOR_MAX);
        is_recent && self.in_a_row < REFUSALS_MAX
    }
}

impl Follower<'_, '_> {
    /// Learns from a failure, tells of it, and waits.
    pub(super) async fn recover(&mut self, failure: Failure) -> Result<(), Stop> {
        self.watches_since = None;
        if failure == Failure::Absent(Watched::ServiceCidrs) {
            // Older servers have it under another name, if at all.
            (self.at, self.wish.is_beta, self.absent) = (None, !self.wish.is_beta, self.absent + 1);
            if self.absent < NAMES {
                return Ok(());
            }
            self.absent = 0;
            self.say(News::Absent(self.wish.of))?;
            sleep(ABSENT_WAIT).await;
            return Ok(());
        }
        if matches!(failure, Failure::Rejected { .. }) && self.asks_for_less() {
            return Ok(());
        }
        if matches!(failure, Failure::Gone | Failure::Garbage(_) | Failure::Older { .. }) {
            self.at = None;
        }
        if matches!(failure, Failure::Older { .. }) {
            self.doubt();
        }
        if failure.is_about_access() {
            self.door.renew(self.client).await;
        }
        self.begin_anew_if_it_went_well();
        if self.way == Way::Found {
            self.way = Way::Lost;
        }
        let retry_in = match failure {
            Failure::Gone => spread(self.gone_back_off.failed(), None),
            _ => spread(self.back_off.failed(), failure.retry_after()),
        };
        self.refusals.count(&failure, Instant::now());
        let temporary = failure.as_temporary().filter(|_| self.refusals.may_pass(Instant::now()));
        let is_refusal = failure.is_refusal() && temporary.is_none();
        let reason = temporary.unwrap_or_else(|| self.sentence(&failure));
        self.say(News::Trouble(Trouble { of: self.wish.of, reason, retry_in, is_refusal }))?;
        self.wait(&failure, retry_in).await;
        Ok(())
    }

    /// Where something was understood since the last failure, and a watch goes on from where it was, this failure is a first one: another
    /// try is cheap. Lists are not. And not all the time: a server that cuts every watch after its first line is to be left alone, too.
    fn begin_anew_if_it_went_well(&mut self) {
        let is_cheap = std::mem::take(&mut self.went_well) && self.at.is_some();
        let is_rare = self.begun_anew_at.is_none_or(|then| then.elapsed() >= self.pace.wait_max);
        if is_cheap && is_rare {
            self.begun_anew_at = Some(Instant::now());
            self.back_off.reset();
        }
    }

    /// A silence began before the request that found it.
    fn sentence(&self, failure: &Failure) -> String {
        match failure {
            Failure::Silent(_) => Failure::Silent(self.heard_at.elapsed()).to_string(),
            other => other.to_string(),
        }
    }

    /// Waits, but no longer than until another follower finds the server. That counts once in a row of failures: what one finds may lead
    /// nowhere for another, as where long answers are cut and short ones are not.
    async fn wait(&mut self, failure: &Failure, time: Duration) {
        if !failure.is_about_the_way() || self.way == Way::LostThoughWoken {
            return sleep(time).await;
        }
        if matches!(failure, Failure::Cut(_)) {
            // What others found before it was cut tells nothing.
            self.findings.mark_unchanged();
        }
        // Whoever tells of it lives as long as we do.
        if timeout(time, self.findings.changed()).await.is_ok() {
            self.way = Way::LostThoughWoken;
        }
    }

    /// A server that rejects a request may be too old for it. Whether there is something to do without.
    fn asks_for_less(&mut self) -> bool {
        let before = (self.streams, self.wish.by_cluster_ip);
        if self.at.is_none() && self.streams {
            self.streams = false;
        } else {
            self.wish.by_cluster_ip = false;
        }
        before != (self.streams, self.wish.by_cluster_ip)
    }

    /// An older picture that stays is the picture of a server whose backup was restored.
    fn doubt(&mut self) {
        let since = *self.older_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.pace.older {
            self.known.believe();
            self.older_since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_passes_by_itself_until_the_third_in_a_row_or_for_half_a_minute() {
        let refused = Failure::Unauthorized("no".to_owned());
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut refusals = Refusals::default();
        for is_temporary in [true, true, false] {
            refusals.count(&refused, begin);
            assert_eq!(refusals.may_pass(begin + second), is_temporary);
        }
        let mut refusals = Refusals::default();
        for _ in 0..5 {
            refusals.count(&refused, begin);
            refusals.count(&Failure::Cut("restart".to_owned()), begin);
            assert!(refusals.may_pass(begin + 29 * second), "they are not in a row");
        }
        refusals.count(&refused, begin + 30 * second);
        assert!(!refusals.may_pass(begin + 30 * second), "it has lasted too long");
    }
}

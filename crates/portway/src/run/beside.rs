//! Carries out errands: what is to be done in this kernel beside the rules.

use super::errands::{Done, Errand};

/// The doors that errands need, opened when they are.
#[derive(Debug, Default)]
pub(super) struct Beside {}

impl Beside {
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        clippy::match_same_arms,
        reason = "the doors are being built"
    )]
    pub(super) fn run(&mut self, errand: &Errand) -> Result<Done, String> {
        match errand {
            Errand::Forget(_) => Ok(Done::default()),
            Errand::TakeOver => Ok(Done::default()),
        }
    }
}

//! Notifications of which some are lost on the way, on command.
//!
//! In: events, as a [`kernel::nft::Monitor`] tells them. Out: the same, but for those that a script takes away. The kernel mostly
//! says that it lost something ([`Event::Lost`]); what nobody ever hears of is the worse case.

use std::collections::BTreeMap;

use kernel::nft::Event;

/// How a notification is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The kernel says that something was lost.
    Said,
    /// Nobody hears of it.
    Unsaid,
}

/// What passes notifications on, except for some.
#[derive(Clone, Debug, Default)]
pub struct Losing {
    losses: BTreeMap<usize, Loss>,
    heard: usize,
}

impl Losing {
    /// The n-th event from now on is lost.
    pub fn lose(&mut self, n: usize, loss: Loss) {
        self.losses.insert(self.heard + n, loss);
    }

    /// What is heard when this happens.
    pub fn pass(&mut self, event: Event) -> Option<Event> {
        self.heard += 1;
        match self.losses.remove(&(self.heard - 1)) {
            None => Some(event),
            Some(Loss::Said) => Some(Event::Lost),
            Some(Loss::Unsaid) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripted_events_are_lost_and_no_other() {
        let event = |id| Event::Generation { id, thread: 1, name: "nft".into() };
        let mut losing = Losing::default();
        losing.lose(1, Loss::Said);
        losing.lose(2, Loss::Unsaid);
        let heard: Vec<Event> = (0..4).filter_map(|id| losing.pass(event(id))).collect();
        assert_eq!(heard, [event(0), Event::Lost, event(3)]);
    }
}

//! How many connections there may be at a time, and who makes room when there are more.
//!
//! The one that has said nothing for longest is closed for a newcomer: idle connections, and those that send their request one
//! letter a second, cannot keep others out. Who is being answered is never cut; if all are, the newcomer is closed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// The connections of one kind of server.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    most: usize,
    members: Arc<Mutex<Members>>,
}

/// They are numbered as they came.
#[derive(Debug, Default)]
struct Members {
    came: u64,
    here: BTreeMap<u64, Member>,
}

#[derive(Debug)]
struct Member {
    is_busy: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Crowd {
    /// So many at most.
    pub(super) fn new(most: usize) -> Self {
        Self { most, members: Arc::default() }
    }

    /// Takes somebody in, if there is room or somebody idle makes room. `attend` starts to attend to it; `None` where it is sent away.
    pub(super) fn admit(&self, attend: impl FnOnce(Ticket) -> AbortHandle) -> Option<()> {
        self.make_room()?;
        let is_busy = Arc::new(AtomicBool::new(false));
        let number = {
            let mut members = self.lock();
            members.came += 1;
            members.came
        };
        let ticket = Ticket { number, is_busy: Arc::clone(&is_busy), crowd: self.clone() };
        let task = attend(ticket);
        self.lock().here.insert(number, Member { is_busy, task });
        Some(())
    }

    fn make_room(&self) -> Option<()> {
        let mut members = self.lock();
        if members.here.len() < self.most {
            return Some(());
        }
        let idle = members
            .here
            .iter()
            .find(|(_, member)| !member.is_busy.load(Relaxed))
            .map(|(number, _)| *number)?;
        let gone = members.here.remove(&idle);
        // The task's own end looks here too.
        drop(members);
        gone.map(|member| member.task.abort())
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().here.len()
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place in the crowd, which it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    number: u64,
    is_busy: Arc<AtomicBool>,
    crowd: Crowd,
}

impl Ticket {
    /// It is being answered, as long as this is there.
    pub(super) fn busy(&self) -> Busy {
        self.is_busy.store(true, Relaxed);
        Busy(Arc::clone(&self.is_busy))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.crowd.lock().here.remove(&self.number);
    }
}

/// Somebody is being answered.
#[derive(Debug)]
pub(super) struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn stay(crowd: &Crowd, tickets: &Arc<Mutex<Vec<Option<Busy>>>>, is_busy: bool) -> Option<()> {
        crowd.admit(|ticket| {
            let busy = is_busy.then(|| ticket.busy());
            tickets.lock().unwrap_or_else(PoisonError::into_inner).push(busy);
            let stays = async move {
                let _ticket = ticket;
                pending::<()>().await;
            };
            tokio::spawn(stays).abort_handle()
        })
    }

    #[test]
    fn the_longest_idle_one_makes_room_and_the_busy_ones_stay() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (crowd, tickets) = (Crowd::new(2), Arc::default());
            assert_eq!(stay(&crowd, &tickets, true), Some(()));
            assert_eq!(stay(&crowd, &tickets, false), Some(()));
            assert_eq!(stay(&crowd, &tickets, true), Some(()), "the idle one goes");
            tokio::task::yield_now().await;
            assert_eq!(crowd.count(), 2);
            assert_eq!(stay(&crowd, &tickets, false), None, "all are being answered");
            tickets.lock().expect("no panic").clear();
            assert_eq!(stay(&crowd, &tickets, false), Some(()), "one has been answered, and is idle");
            tokio::task::yield_now().await;
            assert_eq!(crowd.count(), 2);
        });
    }
}

//! Notices from the kernel's notifications that somebody else has touched our tables.
//!
//! In: what the monitor hears, one event at a time, without our own writes. Out: [`Meddled`], at most once for each
//! transaction. The kernel tells what a transaction changed, and then whose it was.

use kernel::nft::{Event, Family};

use super::layout::TABLE;
use crate::Meddled;

/// Listens to one kernel.
#[derive(Clone, Debug, Default)]
pub struct Listener {
    /// The transaction that is being told touches a table of ours.
    is_about_us: bool,
}

impl Listener {
    /// Takes in an event; tells what it means to us.
    pub fn hear(&mut self, event: Event) -> Option<Meddled> {
        match event {
            Event::Changed { family: Family::V4 | Family::V6, table, .. } => {
                self.is_about_us |= table == TABLE;
                None
            }
            Event::Generation { thread, name, .. } => {
                let writer = Meddled::By { program: name, process: thread };
                std::mem::take(&mut self.is_about_us).then_some(writer)
            }
            Event::Lost => {
                self.is_about_us = false;
                Some(Meddled::Unknown)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kernel::nft::Object;

    use super::*;

    fn changed(table: &str) -> Event {
        Event::Changed { family: Family::V4, table: table.to_owned(), object: Object::Chain, port: 7 }
    }

    fn generation(name: &str) -> Event {
        Event::Generation { id: 1, thread: 4711, name: name.to_owned() }
    }

    #[test]
    fn a_transaction_is_told_once_with_its_writer() {
        let mut listener = Listener::default();
        let told: Vec<_> = [changed(TABLE), changed("other"), changed(TABLE), generation("nft")]
            .into_iter()
            .filter_map(|event| listener.hear(event))
            .collect();
        assert_eq!(told, [Meddled::By { program: "nft".into(), process: 4711 }]);
    }

    #[test]
    fn tables_of_others_are_none_of_ours() {
        let mut listener = Listener::default();
        assert_eq!(listener.hear(changed("firewall")), None);
        assert_eq!(listener.hear(generation("firewalld")), None);
        assert_eq!(listener.hear(changed(TABLE)), None);
        assert_eq!(listener.hear(Event::Lost), Some(Meddled::Unknown));
        assert_eq!(listener.hear(generation("firewalld")), None, "what was lost was told already");
    }
}

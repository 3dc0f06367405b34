//! A fresh process: what it finds in the kernel, and what it may remove.

use dataplane::nftables::{Nftables, Options};
use portway::run::{Event, Work};

use crate::sim::{changed, endpoints, ms, service, sim, sim_on};

#[test]
fn leftovers_go_only_when_all_files_could_be_read() {
    let mut before = sim();
    before.files(vec![service("web"), endpoints("web", 1, 2), service("api"), endpoints("api", 7, 3)]);
    before.pass(ms(1_000));
    let kernel = before.dataplane.kernel().clone();

    let mut sim = sim_on(Nftables::new(kernel, Options::default()));
    let changes = vec![service("web"), endpoints("web", 1, 2)];
    sim.feed(Event::FilesChanged { changes, problems: Vec::new(), is_complete: false });
    sim.pass(ms(100_000));
    assert_eq!(sim.slots(), 5, "the service in the file that cannot be read is served");
    assert!(sim.status().keeps_leftovers);
    assert!(sim.errands.is_empty(), "upstream's rules may be needed too");
    assert_eq!(sim.status().drift.repairs, 0);

    // It can be read now, and says something else.
    let changes = vec![service("api"), endpoints("api", 7, 1)];
    sim.feed(Event::FilesChanged { changes, problems: Vec::new(), is_complete: true });
    sim.pass(ms(1_000));
    assert_eq!(sim.slots(), 3);
    assert!(!sim.status().keeps_leftovers);
    assert_eq!(sim.differences(), [""; 0]);
    assert_eq!(sim.status().drift.repairs, 0, "leftovers are nobody's meddling");
}

#[test]
fn once_all_was_read_a_file_that_breaks_keeps_nothing_back() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.feed(Event::FilesChanged { changes: Vec::new(), problems: Vec::new(), is_complete: false });
    sim.pass(ms(100_000));
    assert!(sim.syncs.iter().all(|(_, work)| *work != Work::AllThatIsKnown));
    assert!(!sim.status().keeps_leftovers);
}

#[test]
fn while_a_file_cannot_be_read_the_others_are_followed() {
    let mut sim = sim();
    let changes = vec![service("web"), endpoints("web", 1, 2)];
    sim.feed(Event::FilesChanged { changes, problems: Vec::new(), is_complete: false });
    sim.pass(ms(1_000));
    let changes = vec![endpoints("web", 1, 4)];
    sim.feed(Event::FilesChanged { changes, problems: Vec::new(), is_complete: false });
    sim.pass(ms(1_000));
    assert_eq!(sim.slots(), 4);
    assert_eq!(changed(sim.last_work()), ["default/web/tcp"]);
}

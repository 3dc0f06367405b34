//! A door to one program that takes the time that the program takes.

use std::time::{Duration, Instant};

use kernel::xtables::{Family, Programs, Result, Table, Variant, Xtables};

/// The real program, with a watch.
#[derive(Debug)]
pub(crate) struct Timed {
    door: Programs,
    /// How long it ran, since somebody last asked.
    pub(crate) spent: Duration,
}

impl Timed {
    pub(crate) fn new(door: Programs) -> Self {
        Self { door, spent: Duration::ZERO }
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut Programs) -> T) -> T {
        let start = Instant::now();
        let result = work(&mut self.door);
        self.spent += start.elapsed();
        result
    }
}

impl Xtables for Timed {
    fn variant(&self) -> Variant {
        self.door.variant()
    }

    fn family(&self) -> Family {
        self.door.family()
    }

    fn save(&mut self, table: Table) -> Result<Option<String>> {
        self.timed(|door| door.save(table))
    }

    fn restore(&mut self, text: &str) -> Result<()> {
        self.timed(|door| door.restore(text))
    }
}

//! A case of the list: a test for each way in which it is gone through.
//!
//! In: a case, and the ways. Out: tests, whose modules say where they run: `needs_root` on this machine, `needs_vm` on the VM's
//! kernel (all of `needs_vm::smoke` in `cargo xtask test`), `needs_time` by hand.

use libtest_mimic::Trial;

use crate::stage::Setting;
use crate::way::Way;

/// What is tried, and in which ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    name: &'static str,
    run: fn(&Setting),
    /// In which ways, where not in every one.
    is_of: Option<fn(Way) -> bool>,
    is_smoke_of: fn(Way) -> bool,
}

/// A case is named after its function.
macro_rules! case {
    ($theme:ident::$case:ident) => {
        crate::case::Case::new(stringify!($case), $theme::$case)
    };
    ($case:ident) => {
        crate::case::Case::new(stringify!($case), $case)
    };
}

pub(crate) use case;

impl Case {
    /// In every way.
    pub(crate) const fn new(name: &'static str, run: fn(&Setting)) -> Self {
        Self { name, run, is_of: None, is_smoke_of: |_| false }
    }

    /// In these ways alone.
    pub(crate) const fn of(self, is_of: fn(Way) -> bool) -> Self {
        Self { is_of: Some(is_of), ..self }
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Is it of every way?
    pub(crate) const fn is_common(&self) -> bool {
        self.is_of.is_none()
    }

    /// In these ways `cargo xtask test` has it run in the VM.
    pub(crate) const fn smoke(self, is_smoke_of: fn(Way) -> bool) -> Self {
        Self { is_smoke_of, ..self }
    }

    /// A test in this module, if the case is of this way.
    pub(crate) fn test(&self, module: &str, way: Way) -> Option<Trial> {
        self.is_of.is_none_or(|is_of| is_of(way)).then(|| self.trial(module, way))
    }

    /// A test for the VM, if the case is marked so.
    pub(crate) fn smoke_test(&self, way: Way) -> Option<Trial> {
        (self.is_smoke_of)(way).then(|| self.trial(&format!("needs_vm::smoke::{}", way.module()), way))
    }

    fn trial(&self, module: &str, way: Way) -> Trial {
        let Self { name, run, .. } = *self;
        Trial::test(format!("{module}::{name}"), move || {
            // A thread of its own, as other harnesses give it: it goes to other network namespaces.
            let test = std::thread::Builder::new().name(name.to_owned());
            let ended = test.spawn(move || run(&Setting::of(way, name))).unwrap().join();
            ended.map_err(|_| "it panicked: see above".into())
        })
    }
}

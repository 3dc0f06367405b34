//! iptables behind one of the real programs, with packets that really are sent; see `packets.rs` of `nftables`.

use dataplane::iptables::Options;
use dataplane::iptables::sim::Iptables;
use dataplane::registry::known_chains;
use dataplane::{Dataplane, upstream};
use kernel::xtables::{self, Family, Programs, Table, Variant, Xtables};
use playground::namespace::Namespace;

use crate::nftables::packets::Sender;
use crate::nftables::stage::Stage;

/// The mode behind this program. An error says why that cannot be.
pub(crate) fn sender(variant: Variant) -> Result<Sender, String> {
    let mut programs = Programs::find().programs;
    programs.retain(|program| program.variant() == variant);
    if programs.len() < Family::ALL.len() {
        return Err(format!("{variant} is not installed for both families"));
    }
    let doors = move |stage: &Stage| -> Vec<Inside> {
        programs.iter().map(|program| Inside::new(stage.node(), program)).collect()
    };
    let doors_of = doors.clone();
    let open = move |stage: &Stage| -> Result<Box<dyn Dataplane>, String> {
        Ok(Box::new(Iptables::new(doors_of(stage), Options::default())))
    };
    let clean_up = move |stage: &Stage| {
        let clear = |door| upstream::clear_all(known_chains(), door).map_err(|e| e.to_string());
        doors(stage).iter_mut().try_for_each(clear)
    };
    Ok(Sender {
        open: Box::new(open),
        clean_up: Box::new(clean_up),
        promises: dataplane::iptables::MODE.semantics().of_rules(),
    })
}

/// A program that is run in a namespace, whoever asks.
#[derive(Debug)]
pub(crate) struct Inside {
    namespace: Namespace,
    program: Programs,
}

impl Inside {
    pub(crate) fn new(namespace: &Namespace, program: &Programs) -> Self {
        Self { namespace: namespace.clone(), program: program.clone() }
    }

    fn run<T: Send>(
        &mut self,
        work: impl FnOnce(&mut Programs) -> xtables::Result<T> + Send,
    ) -> xtables::Result<T> {
        let Self { namespace, program } = self;
        let not_there = |e: std::io::Error| xtables::Error::NotStarted {
            program: "a thread in the namespace".into(),
            reason: e.to_string(),
        };
        namespace.run(|| work(program)).map_err(not_there)?
    }
}

impl Xtables for Inside {
    fn variant(&self) -> Variant {
        self.program.variant()
    }

    fn family(&self) -> Family {
        self.program.family()
    }

    fn save(&mut self, table: Table) -> xtables::Result<Option<String>> {
        self.run(|program| program.save(table))
    }

    fn restore(&mut self, text: &str) -> xtables::Result<()> {
        self.run(|program| program.restore(text))
    }
}

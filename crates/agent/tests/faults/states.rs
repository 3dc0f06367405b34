//! The states that a kernel was met in, and how packets end in each; each is asked once only.
//!
//! A write touches the tables of one family, and packets of the other do not notice: so each family has its own states. One
//! is known by the state before it and the transaction that led from there, which is quick; and where two ways lead to the
//! same state, by everything that the kernel lists.

use dataplane::nftables::sim::lines;
use dataplane::sim::difference;
use kernel::nft::{Family, Listed, Transaction};
use kernel_sim::nft::Simulated;

use crate::probes::{Found, Probes};
use crate::watched::everything;

/// All states.
#[derive(Debug)]
pub(crate) struct States {
    states: Vec<State>,
    steps: Vec<(usize, Transaction, usize)>,
}

#[derive(Debug)]
struct State {
    family: Family,
    listed: Vec<Listed>,
    found: Found,
}

/// The state of each family, by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At([usize; 2]);

impl States {
    /// The first state.
    pub(crate) fn begin(kernel: &Simulated, probes: &Probes) -> Result<(Self, At), String> {
        let mut states = Self { states: Vec::new(), steps: Vec::new() };
        let mut at = At([0; 2]);
        for (n, family) in Family::ALL.into_iter().enumerate() {
            at.0[n] = states.number(family, kernel.clone(), probes)?;
        }
        Ok((states, at))
    }

    /// How many are known.
    pub(crate) fn count(&self) -> usize {
        self.states.len()
    }

    /// How packets end.
    pub(crate) fn found(&self, at: At) -> [&Found; 2] {
        at.0.map(|at| &self.states[at].found)
    }

    /// Where this transaction led, and how packets of its family end there.
    pub(crate) fn after(
        &mut self,
        mut at: At,
        (kernel, transaction): (Simulated, Transaction),
        probes: &Probes,
    ) -> Result<(At, &Found), String> {
        let family = transaction.family;
        let place = &mut at.0[Family::ALL.iter().position(|one| *one == family).unwrap_or_default()];
        let known = self.steps.iter().find(|(from, step, _)| *from == *place && *step == transaction);
        let to = if let Some((_, _, to)) = known {
            *to
        } else {
            let to = self.number(family, kernel, probes)?;
            self.steps.push((*place, transaction, to));
            to
        };
        *place = to;
        Ok((at, &self.states[to].found))
    }

    /// How packets end in this kernel.
    pub(crate) fn look(&mut self, kernel: &Simulated, probes: &Probes) -> Result<[&Found; 2], String> {
        let mut at = At([0; 2]);
        for (n, family) in Family::ALL.into_iter().enumerate() {
            at.0[n] = self.number(family, kernel.clone(), probes)?;
        }
        Ok(self.found(at))
    }

    fn number(&mut self, family: Family, mut kernel: Simulated, probes: &Probes) -> Result<usize, String> {
        let listed = everything(&mut kernel, &[family]);
        let known = self.states.iter().position(|state| state.family == family && state.listed == listed);
        if let Some(known) = known {
            return Ok(known);
        }
        self.states.push(State { family, listed, found: probes.by_twin(&kernel, family)? });
        Ok(self.states.len() - 1)
    }

    /// Is this one what an empty kernel would have got? What packets did is left out.
    pub(crate) fn is_written(&self, at: At, cold: &[Listed]) -> Result<(), String> {
        let listed = at.0.iter().flat_map(|at| self.states[*at].listed.iter().cloned());
        let listed: Vec<Listed> = listed.map(dataplane::nftables::sim::comparable).collect();
        if listed == cold {
            return Ok(());
        }
        Err(format!("it does not converge: {}", differences(&listed, cold)))
    }
}

/// In what two kernels differ, in words.
pub(crate) fn differences(here: &[Listed], there: &[Listed]) -> String {
    let names = |all: &[Listed]| -> Vec<String> {
        all.iter().map(|l| format!("{} {}", kernel::nft::family_name(l.table.family), l.table.name)).collect()
    };
    if names(here) != names(there) {
        return format!("tables {:?}, not {:?}", names(here), names(there));
    }
    let pairs = here.iter().zip(there).filter(|(one, other)| one != other);
    pairs.map(|(one, other)| difference(&lines(one), &lines(other))).collect::<Vec<_>>().join("\n")
}

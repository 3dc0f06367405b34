//! Every point at which a sync can go wrong, and every way.
//!
//! In: the writes of a sync in which nothing went wrong. Out: what to try, each with words for it.
//!
//! At each write: every error that the kernel can answer, with nothing applied; the errors that are heard when all of it is
//! applied and the answer is lost; a refusal by the kernel itself; a crash before and after. Refusals that name an operation are tried at some
//! operations and elements of the write, and also as refusals that stay, so that a service port is withheld. Then each
//! listing and each question for the generation.

use kernel::netlink::{Errno, Refusal};
use kernel::nft::{Error, Kernel, Operation, Transaction};
use kernel_sim::nft::Faulty;
use kernel_sim::nft::{Answer, Fault};

/// One thing that goes wrong.
#[derive(Clone, Debug)]
pub(crate) enum Point {
    Write(usize, Fault),
    Listing(usize, Error),
    Generation(usize, Error),
}

impl Point {
    pub(crate) fn arm<K: Kernel>(&self, kernel: &mut Faulty<K>) {
        match self.clone() {
            Self::Write(n, fault) => kernel.on_write(n, fault),
            Self::Listing(n, error) => kernel.on_listing(n, error),
            Self::Generation(n, error) => kernel.on_generation(n, error),
        }
    }
}

/// What a sync in which nothing goes wrong asks of the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) written: Vec<Transaction>,
    pub(crate) listings: usize,
    pub(crate) generations: usize,
}

impl Calls {
    /// All points; at each write at most so many elements are refused for good.
    pub(crate) fn points(&self, most: usize) -> Vec<Point> {
        let mut all = Vec::new();
        for (n, transaction) in self.written.iter().enumerate() {
            all.extend(faults(transaction, most).into_iter().map(|fault| Point::Write(n, fault)));
        }
        for error in [Error::Raced, Error::Overrun, Error::NotPermitted, Error::OutOfMemory] {
            all.extend((0..self.listings).map(|n| Point::Listing(n, error.clone())));
            all.extend((0..self.generations).map(|n| Point::Generation(n, error.clone())));
        }
        all
    }

    /// The crashes alone.
    pub(crate) fn crashes(&self) -> Vec<Point> {
        let both = |n| [Point::Write(n, Fault::DieBefore), Point::Write(n, Fault::DieAfter)];
        (0..self.written.len()).flat_map(both).collect()
    }

    /// Crashes, refusals by the kernel itself, and what never reaches it or is never heard of.
    pub(crate) fn few(&self) -> Vec<Point> {
        let mut all = self.crashes();
        for n in 0..self.written.len() {
            let early = Answer::Error(Error::OutOfMemory);
            let busy = Answer::operation(0, libc::EBUSY);
            all.extend([
                Point::Write(n, Fault::Spoil),
                Point::Write(n, Fault::Refuse(early)),
                Point::Write(n, Fault::Refuse(busy)),
                Point::Write(n, Fault::LoseAnswer(Answer::Error(Error::Overrun))),
                Point::Write(n, Fault::LoseAnswer(Answer::silence())),
            ]);
        }
        all
    }
}

/// The numbers that a refused operation is answered with.
const ERRNOS: [i32; 8] = [
    libc::ENOMEM,
    libc::EBUSY,
    libc::EEXIST,
    libc::ENOENT,
    libc::EINVAL,
    libc::ENOSPC,
    libc::ENFILE,
    libc::EINTR,
];

/// What is heard when an answer is lost. Every other error says that nothing was applied, and that is so.
fn lost_answers() -> impl Iterator<Item = Answer> {
    [Answer::Error(Error::Overrun), Answer::Error(Error::Raced), Answer::silence()].into_iter()
}

fn faults(transaction: &Transaction, most: usize) -> Vec<Fault> {
    let whole = whole_errors().into_iter().map(Answer::Error).chain([Answer::silence()]);
    let named = ERRNOS.iter().map(|errno| Answer::operation(0, *errno));
    let answers: Vec<Answer> = whole.chain(named).collect();
    let mut all = vec![Fault::DieBefore, Fault::DieAfter, Fault::Spoil];
    all.extend(answers.into_iter().map(Fault::Refuse));
    all.extend(lost_answers().map(Fault::LoseAnswer));
    for (operation, element) in places(transaction) {
        all.push(Fault::Refuse(Answer::Refused { operation, element, errno: libc::EINVAL }));
    }
    let elements = elements(transaction);
    let step = elements.len().div_ceil(most).max(1);
    for (operation, element) in elements.into_iter().step_by(step) {
        all.push(Fault::RefuseForGood(Answer::element(operation, element, libc::EINVAL)));
    }
    all.push(Fault::RefuseForGood(Answer::operation(0, libc::ENOSPC)));
    all
}

fn whole_errors() -> Vec<Error> {
    let refusal = |errno| Refusal { errno: Errno(errno), text: None, offset: None };
    vec![
        Error::Overrun,
        Error::Raced,
        Error::OutOfMemory,
        Error::NotPermitted,
        Error::Missing,
        Error::Whole { refusal: refusal(libc::EINVAL) },
        Error::Whole { refusal: refusal(libc::EBUSY) },
    ]
}

/// The first, the last and the one in between of the operations, and of each kind of set the last element.
fn places(transaction: &Transaction) -> Vec<(usize, Option<usize>)> {
    let count = transaction.operations.len();
    let mut all = vec![(count / 2, None), (count - 1, None)];
    for (n, operation) in transaction.operations.iter().enumerate() {
        if let Operation::AddElements(_, elements) = operation {
            all.push((n, Some(elements.len() - 1)));
        }
    }
    all
}

fn elements(transaction: &Transaction) -> Vec<(usize, usize)> {
    let of = |(n, operation): (usize, &Operation)| match operation {
        Operation::AddElements(_, elements) => (0..elements.len()).map(|at| (n, at)).collect(),
        _ => Vec::new(),
    };
    transaction.operations.iter().enumerate().flat_map(of).collect()
}

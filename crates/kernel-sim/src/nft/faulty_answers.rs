//! What a kernel that fails on command answers, once or for good; see `faulty`.

use kernel::netlink::{self, Errno};
use kernel::nft::{Element, Error, Name, Operation, Transaction};

/// What is answered to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One operation is refused.
    Refused {
        /// Which, counted from 0.
        operation: usize,
        /// Which element of it, if that is said.
        element: Option<usize>,
        /// The number that is answered.
        errno: i32,
    },
    /// This, as it stands.
    Error(Error),
}

impl Answer {
    /// This operation is refused.
    pub fn operation(operation: usize, errno: i32) -> Self {
        Self::Refused { operation, element: None, errno }
    }

    /// This element of an operation is refused.
    pub fn element(operation: usize, element: usize, errno: i32) -> Self {
        Self::Refused { operation, element: Some(element), errno }
    }

    /// The kernel does not answer in time.
    pub fn silence() -> Self {
        Self::Error(netlink::Error::Silent { milliseconds: 20_000 }.into())
    }

    /// The same in the words of the kernel.
    pub(super) fn to(&self, transaction: &Transaction) -> Error {
        match self {
            Self::Error(error) => error.clone(),
            Self::Refused { operation, element, errno } => Error::Refused {
                index: *operation,
                total: transaction.operations.len(),
                operation: transaction.describe(*operation, *element),
                element: *element,
                refusal: Errno(*errno).into(),
            },
        }
    }
}

/// What is refused for good.
#[derive(Clone, Debug)]
pub(super) enum Hated {
    Element(Name, Box<Element>, i32),
    Operation(Box<Operation>, i32),
    Write(Error),
}

impl Hated {
    /// What this answer is about.
    pub(super) fn of(answer: &Answer, transaction: &Transaction) -> Self {
        let write = || Self::Write(answer.to(transaction));
        let Answer::Refused { operation: index, element, errno } = *answer else { return write() };
        let found = match (transaction.operations.get(index), element) {
            (Some(Operation::AddElements(set, elements)), Some(at)) => {
                elements.get(at).map(|found| Self::Element(set.clone(), Box::new(found.clone()), errno))
            }
            (operation, _) => operation.map(|found| Self::Operation(Box::new(found.clone()), errno)),
        };
        found.unwrap_or_else(write)
    }

    /// The refusal of a transaction that has it.
    pub(super) fn refuses(&self, transaction: &Transaction) -> Option<Error> {
        let mut operations = transaction.operations.iter().enumerate();
        let (index, element, errno) = match self {
            Self::Write(error) => return Some(error.clone()),
            Self::Operation(hated, errno) => {
                (operations.find(|(_, found)| *found == &**hated)?.0, None, errno)
            }
            Self::Element(name, hated, errno) => {
                let (index, at) = operations.find_map(|(index, operation)| match operation {
                    Operation::AddElements(set, all) if set == name => {
                        Some((index, all.iter().position(|element| element.key == hated.key)?))
                    }
                    _ => None,
                })?;
                (index, Some(at), errno)
            }
        };
        Some(Answer::Refused { operation: index, element, errno: *errno }.to(transaction))
    }
}

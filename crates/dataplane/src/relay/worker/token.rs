//! Numbers by which a worker finds what an event or a timer is about.

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::relay) enum Token {
    /// Letters have arrived.
    Mail,
    /// A listener, by its key.
    Listener(u32),
    /// The client's side of a connection.
    Client(Slot),
    /// The endpoint's side of a connection.
    Endpoint(Slot),
    /// A UDP session.
    Session(Slot),
}

/// A place in a [`super::slab::Slab`], and which of its tenants is meant: events of one that has gone find nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::relay) struct Slot {
    pub(super) index: u32,
    /// Of this number only [`GENERATION_BITS`] are used.
    pub(super) generation: u32,
}

/// What is left of 64 bits beside an index and the kind.
const GENERATION_BITS: u32 = 29;
pub(super) const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;
const KIND_SHIFT: u32 = 32 + GENERATION_BITS;

impl Token {
    pub(in crate::relay) fn number(self) -> u64 {
        let (kind, slot) = match self {
            Token::Mail => (0, Slot { index: 0, generation: 0 }),
            Token::Listener(key) => (1, Slot { index: key, generation: 0 }),
            Token::Client(slot) => (2, slot),
            Token::Endpoint(slot) => (3, slot),
            Token::Session(slot) => (4, slot),
        };
        kind << KIND_SHIFT | u64::from(slot.generation & GENERATION_MASK) << 32 | u64::from(slot.index)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the parts of a number that we put together")]
    pub(super) fn of(number: u64) -> Self {
        let slot = Slot { index: number as u32, generation: (number >> 32) as u32 & GENERATION_MASK };
        match number >> KIND_SHIFT {
            1 => Token::Listener(slot.index),
            2 => Token::Client(slot),
            3 => Token::Endpoint(slot),
            4 => Token::Session(slot),
            _ => Token::Mail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_way_through_the_kernel() {
        let slot = Slot { index: u32::MAX, generation: GENERATION_MASK };
        for token in [
            Token::Mail,
            Token::Listener(7),
            Token::Client(slot),
            Token::Endpoint(slot),
            Token::Session(slot),
        ] {
            assert_eq!(Token::of(token.number()), token);
        }
    }
}

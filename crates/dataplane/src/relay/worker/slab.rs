//! Keeps things at numbered places, and finds nothing where the one that was meant has gone.

use super::token::{GENERATION_MASK, Slot};

/// Things at numbered places.
#[derive(Debug)]
pub(in crate::relay) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    tenant: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Gives it a place.
    pub(in crate::relay) fn insert(&mut self, tenant: T) -> Slot {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, tenant: None });
            u32::try_from(self.places.len() - 1).expect("fewer than 2^32 sockets")
        });
        let place = &mut self.places[index as usize];
        place.tenant = Some(tenant);
        Slot { index, generation: place.generation }
    }

    /// The one that was meant, if it is still there.
    pub(in crate::relay) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let place = self.places.get_mut(slot.index as usize)?;
        if place.generation == slot.generation { place.tenant.as_mut() } else { None }
    }

    /// Takes it out.
    pub(in crate::relay) fn remove(&mut self, slot: Slot) -> Option<T> {
        let place = self.places.get_mut(slot.index as usize)?;
        let tenant = if place.generation == slot.generation { place.tenant.take() } else { None }?;
        place.generation = (place.generation + 1) & GENERATION_MASK;
        self.free.push(slot.index);
        Some(tenant)
    }

    /// All of them.
    pub(in crate::relay) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.places.iter().zip(0..).filter_map(|(place, index)| {
            Some((Slot { index, generation: place.generation }, place.tenant.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_was_given_to_another_is_not_found_by_its_old_number() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get_mut(second), Some(&mut "second"));
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(second, &"second")]);
    }
}

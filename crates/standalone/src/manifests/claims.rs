//! Decides which of several files an object is taken from.
//!
//! In: the objects of each file. Out: what changed, and the objects that stand in two places.
//!
//! The first place counts, in the order of paths and then of lines. That is a function of the files as they are, not of
//! the order in which they came, so a restart changes nothing. When the first place goes, the next one takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::problem;
use super::select::Found;
use crate::objects::{Change, Object, ObjectKey, Origin, Problem};

/// All objects of all files.
#[derive(Debug, Default)]
pub(super) struct Claims {
    by_key: BTreeMap<ObjectKey, BTreeMap<Place, Claim>>,
    by_file: BTreeMap<Arc<Path>, Vec<ObjectKey>>,
    contested: BTreeSet<ObjectKey>,
    /// The keys that were touched since the last changes were told, with what was told.
    touched: BTreeMap<ObjectKey, Option<Object>>,
}

/// Where an object stands; the smallest place counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: Arc<Path>,
    position: usize,
}

#[derive(Debug)]
struct Claim {
    line: usize,
    value: Arc<Value>,
}

impl Claims {
    /// This is all that the file holds now.
    pub(super) fn replace(&mut self, file: &Arc<Path>, objects: Vec<Found>) {
        self.withdraw(file);
        if objects.is_empty() {
            return;
        }
        let mut keys = Vec::with_capacity(objects.len());
        for (position, found) in objects.into_iter().enumerate() {
            keys.push(found.key.clone());
            let claim = Claim { line: found.line, value: found.value };
            self.claim(found.key, Place { file: Arc::clone(file), position }, claim);
        }
        self.by_file.insert(Arc::clone(file), keys);
    }

    /// The file holds nothing any more.
    pub(super) fn withdraw(&mut self, file: &Arc<Path>) {
        let keys = self.by_file.remove(file).unwrap_or_default();
        for (position, key) in keys.into_iter().enumerate() {
            self.touch(&key);
            self.release(&key, &Place { file: Arc::clone(file), position });
        }
    }

    /// What the file holds, in its order.
    pub(super) fn of_file(&self, file: &Arc<Path>) -> Vec<Found> {
        let keys = self.by_file.get(file).into_iter().flatten().enumerate();
        let found = keys.filter_map(|(position, key)| {
            let place = Place { file: Arc::clone(file), position };
            let claim = self.by_key.get(key)?.get(&place)?;
            Some(Found { line: claim.line, key: key.clone(), value: Arc::clone(&claim.value) })
        });
        found.collect()
    }

    /// The version of an object that was last told.
    pub(super) fn last_told(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        let told = self.touched.get(key).cloned().unwrap_or_else(|| self.object(key));
        told.map(|object| object.value)
    }

    /// Does the file hold anything?
    pub(super) fn holds(&self, file: &Path) -> bool {
        self.by_file.contains_key(file)
    }

    /// Does a file below this folder hold anything?
    pub(super) fn holds_below(&self, folder: &Path) -> bool {
        self.files_below(folder).next().is_some()
    }

    /// The files below this folder that hold something.
    pub(super) fn files_below(&self, folder: &Path) -> impl Iterator<Item = &Arc<Path>> {
        self.by_file.keys().filter(move |file| file.starts_with(folder))
    }

    /// What changed since the last call, in the order of keys.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        let touched = std::mem::take(&mut self.touched);
        touched.into_iter().filter_map(|(key, told)| self.change(key, told.as_ref())).collect()
    }

    /// The objects that stand in two places, one problem for each place that does not count.
    pub(super) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.contested.iter().flat_map(|key| self.contest(key))
    }

    fn claim(&mut self, key: ObjectKey, place: Place, claim: Claim) {
        self.touch(&key);
        let places = self.by_key.entry(key.clone()).or_default();
        places.insert(place, claim);
        if places.len() > 1 {
            self.contested.insert(key);
        }
    }

    fn release(&mut self, key: &ObjectKey, place: &Place) {
        let Some(places) = self.by_key.get_mut(key) else { return };
        places.remove(place);
        if places.len() < 2 {
            self.contested.remove(key);
        }
        if places.is_empty() {
            self.by_key.remove(key);
        }
    }

    fn touch(&mut self, key: &ObjectKey) {
        if !self.touched.contains_key(key) {
            self.touched.insert(key.clone(), self.object(key));
        }
    }

    /// The object, from the place that counts.
    fn object(&self, key: &ObjectKey) -> Option<Object> {
        let (place, claim) = self.by_key.get(key)?.first_key_value()?;
        let origin = Origin { file: Arc::clone(&place.file), line: claim.line };
        Some(Object { key: key.clone(), origin: Some(origin), value: Arc::clone(&claim.value) })
    }

    fn change(&self, key: ObjectKey, told: Option<&Object>) -> Option<Change> {
        match (self.object(&key), told) {
            (Some(now), Some(told)) if is_same(&now, told) => None,
            (Some(now), _) => Some(Change::Apply(now)),
            (None, Some(_)) => Some(Change::Delete(key)),
            (None, None) => None,
        }
    }

    fn contest<'a>(&'a self, key: &'a ObjectKey) -> impl Iterator<Item = Problem> + 'a {
        let places = self.by_key.get(key);
        let first = places.and_then(BTreeMap::first_key_value);
        let others = places.into_iter().flatten().skip(1);
        others.zip(std::iter::repeat(first)).filter_map(move |((place, claim), first)| {
            let (first_place, first_claim) = first?;
            let first = Origin { file: Arc::clone(&first_place.file), line: first_claim.line };
            let message =
                format!("{key} stands in `{first}` already, which counts; remove or rename one of them");
            Some(problem(&place.file, claim.line, message))
        })
    }
}

/// Does an object say the same from the same file? A line inserted above it is no change of the object.
fn is_same(now: &Object, told: &Object) -> bool {
    let file = |object: &Object| object.origin.as_ref().map(|origin| Arc::clone(&origin.file));
    now.value == told.value && file(now) == file(told)
}

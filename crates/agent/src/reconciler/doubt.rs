//! What the files leave in doubt at the start, when no better version of them is known, and what stays in the kernel for it.
//!
//! A path of `--from` without any object may be one that is not mounted yet; an object with a wrong value, or a misspelt kind, was
//! perhaps served by the process before us. If rules that serve are in the kernel, those that no object asks for stay, as they do while a file cannot be
//! read, and Service ports that may lack endpoints by a mistake are not written. All others are. Doubt ends when the files leave
//! none; when there were no rules; or when a sync has kept none, as nothing depends on it then.

use std::collections::BTreeSet;

use standalone::manifests::Doubts;

use super::Loop;
use super::effect::{Effect, Line};
use super::event::Now;
use super::timers::Task;

impl Loop {
    /// Once all was known, the last good version of everything is.
    pub(super) fn follow_doubts(&mut self, doubts: Doubts, now: Now, effects: &mut Vec<Effect>) {
        if self.source.is_complete || self.is_bare == Some(true) {
            return;
        }
        let known: Vec<String> = self.doubtful().collect();
        self.set_doubts(doubts, now);
        if self.must_look_first() {
            self.timers.set(Task::Look, now.elapsed);
        }
        let new: Vec<String> = self.doubtful().filter(|doubt| !known.contains(doubt)).collect();
        effects.extend(new.into_iter().map(|doubt| Effect::Log(Line::Problem(doubt))));
    }

    /// Are there rules that the first sync must not remove? Only a look before it tells: afterwards there are ours.
    pub(super) fn must_look_first(&self) -> bool {
        !self.source.doubts.is_empty() && self.is_bare.is_none()
    }

    pub(super) fn doubt_after_look(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.is_bare == Some(true) {
            self.set_doubts(Doubts::default(), now);
        }
        effects.extend(self.doubtful().map(|doubt| Effect::Log(Line::Problem(doubt))));
    }

    /// A full sync found nothing that no service port asks for. An empty path is in doubt all the same: other modes' rules may serve.
    pub(super) fn nothing_was_kept(&mut self, now: Now) {
        let Doubts { objects, documents, .. } = &self.source.doubts;
        if !(objects.is_empty() && documents.is_empty()) && self.source.can_read_all {
            let empty = std::mem::take(&mut self.source.doubts.empty);
            self.set_doubts(Doubts { empty, ..Doubts::default() }, now);
        }
    }

    /// What is in doubt, and what follows from it; nothing before it is known that rules are there.
    pub(super) fn doubtful(&self) -> impl Iterator<Item = String> {
        let Doubts { empty, objects, documents } = &self.source.doubts;
        let is_told = self.is_bare == Some(false);
        let empty = empty.iter().map(|path| {
            format!(
                "{}: holds no objects; the rules in the kernel stay as they are. Put its files back, or, if it is meant to be \
                 empty, start portway with `--allow-empty`",
                path.display()
            )
        });
        let objects = objects.iter().map(|key| {
            format!(
                "{key}: has a wrong value, which `portway check` names, and no version without it is known; rules in the kernel \
                 that no object asks for stay until it is right"
            )
        });
        let documents = documents.iter().map(|document| {
            if document.namespace.is_empty() {
                return format!(
                    "{}: is empty; rules in the kernel that no object asks for stay until it has content or is deleted. If it is meant to \
                     be empty, start portway with `--allow-empty`",
                    document.origin.file.display()
                );
            }
            format!(
                "{}: a document is no object that is read, and no usable version of it is known; rules in the kernel that no object \
                 asks for stay until it is corrected, which `portway check` helps with",
                document.origin
            )
        });
        empty.chain(objects).chain(documents).filter(move |_| is_told)
    }

    fn set_doubts(&mut self, doubts: Doubts, now: Now) {
        let of_objects = doubts.objects.iter().map(|key| key.namespace.clone());
        let of_documents = doubts.documents.iter().map(|document| document.namespace.clone());
        // The files of an empty path may hold objects of any namespace.
        let of_paths = doubts.empty.first().map(|_| "".into());
        let namespaces: BTreeSet<Box<str>> = of_objects.chain(of_documents).chain(of_paths).collect();
        self.source.doubts = doubts;
        let delta = self.picture.take([model::Event::EndpointsInDoubt(namespaces)]);
        self.remember(delta, now);
    }
}

//! Lists: in pages, or as the begin of a watch. What is new is told as it comes, where nothing was told before.

use super::{Follower, Stop, nonempty};
use crate::answer::Incoming;
use crate::failure::{Failure, Verb};
use crate::known::Listing;
use crate::line::{Line, read_line};
use crate::news::News;
use crate::object::number;
use crate::page::read_page;

/// So many changes of a first list are told together.
const BATCH: usize = 1000;

impl Follower<'_, '_> {
    pub(super) async fn list_by_pages(&mut self) -> Result<(), Stop> {
        let mut listing = self.known.begin();
        let mut token = String::new();
        loop {
            let text = self.ask(Verb::List, &self.wish.page(&token)).await?.page().await?;
            let page = read_page(self.wish.of, &text)?;
            drop(text);
            self.understood();
            self.known.refuse_older(number(&page.version))?;
            let events =
                page.items.into_iter().filter_map(|item| self.known.list(&mut listing, item)).collect();
            self.say_changed(events)?;
            if page.token.is_empty() {
                return self.complete(listing, page.version);
            }
            token = page.token;
        }
    }

    /// A server that was away may have come back with a restored backup. It would take a watch from where we are, say nothing until its versions
    /// have caught up with ours, and never tell what is different.
    pub(super) async fn refuse_an_older_server(&mut self) -> Result<(), Stop> {
        let text = self.ask(Verb::List, &self.wish.glimpse()).await?.page().await?;
        let page = read_page(self.wish.of, &text)?;
        Ok(self.known.refuse_older(number(&page.version))?)
    }

    pub(super) async fn list_by_stream(&mut self, lines: &mut Incoming) -> Result<(), Stop> {
        let mut listing = self.known.begin();
        let mut events = Vec::new();
        loop {
            let text = match lines.lines().await {
                Ok(Some(text)) => text,
                Ok(None) => return Err(Failure::Cut("the list has no end".into()).into()),
                // A server may ignore what it does not know: then no end of the list comes.
                Err(failure) => {
                    self.streams = !matches!(failure, Failure::Silent(_));
                    return Err(failure.into());
                }
            };
            let mut texts = nonempty(&text);
            while let Some(text) = texts.next() {
                let line = read_line(self.wish.of, text)?;
                self.understood();
                match line {
                    Line::Applied(seen) => events.extend(self.known.list(&mut listing, Ok(seen))),
                    Line::Unreadable(report) => events.extend(self.known.list(&mut listing, Err(report))),
                    Line::Bookmark { version, is_end_of_list: true } => {
                        self.say_changed(std::mem::take(&mut events))?;
                        self.complete(listing, version)?;
                        return self.follow_lines(texts);
                    }
                    Line::Gone(_) | Line::Bookmark { .. } | Line::Unknown => {}
                }
            }
            if events.len() >= BATCH {
                self.say_changed(std::mem::take(&mut events))?;
            }
        }
    }

    /// A list is complete: whatever was not in it is gone.
    fn complete(&mut self, mut listing: Listing, version: String) -> Result<(), Stop> {
        let events = self.known.end(&mut listing, number(&version))?;
        (self.older_since, self.absent) = (None, 0);
        self.at = Some(version);
        self.found();
        self.say_changed(events)?;
        self.say(News::Complete { of: self.wish.of, unreadable: listing.unreadable })
    }
}

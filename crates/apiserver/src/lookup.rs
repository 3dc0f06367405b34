//! Asks whether single Nodes exist.
//!
//! In: names, from the loop; asking never waits. Out: for each name whether there is such a Node, or nothing where the server did not
//! say. A watch of all Nodes would bring every heartbeat of every node to every node; this is needed rarely.
//!
//! All nodes of a cluster come upon the same question at the same moment, so each waits for a random time first, and asks for one
//! Node after the other.

use std::io;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;

use crate::answer::accepted;
use crate::door::Door;
use crate::failure::Verb;
use crate::news::Watched;
use crate::pace::chance;
use crate::page::read_page;
use crate::request::Wish;
use crate::run::Settings;

/// Maximum number of questions that wait.
const WAITING_MAX: usize = 64;

/// Where questions are asked.
#[derive(Clone, Debug)]
pub struct NodeLookup(Sender<Box<str>>);

impl NodeLookup {
    /// Asks, without waiting. Whether there was room for the question.
    pub fn ask(&self, name: Box<str>) -> bool {
        self.0.try_send(name).is_ok()
    }
}

/// What answers them.
#[derive(Debug)]
pub struct NodeAnswers {
    settings: Settings,
    questions: Receiver<Box<str>>,
}

impl NodeAnswers {
    /// The two ends of a queue to this server.
    pub fn from(settings: &Settings) -> (NodeLookup, Self) {
        let (sender, questions) = channel(WAITING_MAX);
        (NodeLookup(sender), Self { settings: settings.clone(), questions })
    }

    /// Answers until nobody asks any more, or `tell` says that nobody listens. Each question waits for up to
    /// [`crate::Pace::lookup`].
    pub fn serve(mut self, tell: &mut dyn FnMut(Box<str>, Option<bool>) -> bool) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let door = Door::new(self.settings.access.clone(), self.settings.pace.answer);
            while let Some(name) = self.questions.recv().await {
                sleep(self.settings.pace.lookup.mul_f64(chance())).await;
                let exists = exists(&door, &self.settings, &name).await;
                if !tell(name, exists) {
                    return;
                }
            }
        });
        runtime.shutdown_background();
        Ok(())
    }
}

/// Only a list of Nodes without this one says that it does not exist. A 404 may come from a proxy in front of the server.
async fn exists(door: &Door, settings: &Settings, name: &str) -> Option<bool> {
    let wish = Wish {
        of: Watched::Node,
        node_name: name.to_owned(),
        proxy_name: None,
        by_cluster_ip: false,
        is_beta: false,
    };
    let (_, answer) = door.get(&wish.glimpse()).await;
    let body = accepted(answer.ok()?, (Verb::List, wish.of), settings.pace.silence).await.ok()?;
    let page = read_page(wish.of, &body.page().await.ok()?).ok()?;
    match page.items.is_empty() {
        true if page.token.is_empty() => Some(false),
        true => None,
        false => Some(true),
    }
}

//! Follows all kinds at once, in the calling thread.

use std::cell::RefCell;
use std::io;

use futures_util::future::select_all;

use crate::access::Access;
use crate::door::Door;
use crate::follow::Follower;
use crate::news::{News, Watched};
use crate::pace::Pace;
use crate::request::Wish;

/// What the operator chose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How to reach the server.
    pub access: Access,
    /// The name of this node.
    pub node_name: String,
    /// The service proxy whose Services are wanted; `None`: those that name none.
    pub service_proxy_name: Option<String>,
    /// How long things may take.
    pub pace: Pace,
}

/// Watches an API server, and tells what it learns until `tell` says that nobody listens any more.
///
/// `tell` may take its time: the server then waits, too.
pub fn watch(settings: &Settings, tell: &mut dyn FnMut(News) -> bool) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let door = Door::new(settings.access.clone(), settings.pace.answer);
    let tell = RefCell::new(tell);
    let wish = |of| Wish {
        of,
        node_name: settings.node_name.clone(),
        proxy_name: settings.service_proxy_name.clone(),
        by_cluster_ip: true,
        is_beta: false,
    };
    let followers =
        Watched::ALL.map(|of| Box::pin(Follower::new(wish(of), &door, &tell, settings.pace).run()));
    // Each goes on for as long as somebody listens, so the first that ends speaks for all.
    drop(runtime.block_on(select_all(followers)));
    // What still waits for a program that makes an account does not hold us up.
    runtime.shutdown_background();
    Ok(())
}

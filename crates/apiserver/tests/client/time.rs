//! Nothing goes back in time: a server that is behind, or whose backup was restored, changes nothing until it has caught up.

use std::time::Duration;

use apiserver::{Pace, Watched};
use mockapi::objects::{service, slice};
use mockapi::{MockApi, Offers, Options, SERVICES, SLICES};

use crate::listener::{Listener, quick};

fn server(streaming_lists: bool) -> MockApi {
    let offers = Offers { streaming_lists, ..Offers::default() };
    let server = MockApi::start(Options { offers, ..Options::default() }).unwrap();
    server.put(SERVICES, service("web", "10.96.0.1"));
    server.put(SLICES, slice("web", &["10.244.2.7"]));
    server
}

#[test]
fn an_older_picture_is_refused_until_the_server_has_caught_up() {
    for streaming_lists in [true, false] {
        let mut server = server(streaming_lists);
        let old = server.backup();
        server.put(SERVICES, service("db", "10.96.0.2"));
        let mut seen = Listener::of(&server);
        seen.until_complete();
        let told = seen.changes;
        server.stop();
        server.restore(&old);
        server.start_again().unwrap();
        let trouble = seen.until_trouble("only an older picture");
        assert!(trouble.reason.contains("ours stays until it has caught up"), "{}", trouble.reason);
        // The first time it is the watch that cannot go on; then come lists, each older than what was told.
        seen.until("Services are refused three times", |seen| {
            let of_services = seen.troubles.iter().filter(|trouble| trouble.of == Watched::Services);
            of_services.filter(|trouble| trouble.reason.contains("only an older picture")).count() >= 3
        });
        assert_eq!(
            (seen.services(), seen.changes),
            (vec!["default/db".to_owned(), "default/web".to_owned()], told)
        );
        // It catches up: the write that it did not know comes again, and one more.
        server.put(SERVICES, service("db", "10.96.0.2"));
        server.put(SERVICES, service("new", "10.96.0.3"));
        seen.until_services(&["db", "new", "web"]);
    }
}

#[test]
fn a_restored_backup_is_believed_when_it_stays() {
    for streaming_lists in [true, false] {
        let mut server = server(streaming_lists);
        let old = server.backup();
        server.put(SERVICES, service("db", "10.96.0.2"));
        let mut seen = Listener::paced(&server, Pace { older: Duration::from_millis(300), ..quick() });
        seen.until_complete();
        server.stop();
        server.restore(&old);
        server.start_again().unwrap();
        seen.until_trouble("only an older picture");
        seen.until_services(&["web"]);
        server.put(SERVICES, service("new", "10.96.0.3"));
        seen.until_services(&["new", "web"]);
    }
}

/// A watch alone would never tell: such a server takes it, and says nothing of what it never had.
#[test]
fn what_a_restored_server_never_had_goes_when_its_versions_have_caught_up() {
    for streaming_lists in [true, false] {
        let mut server = server(streaming_lists);
        let old = server.backup();
        server.put(SERVICES, service("lost", "10.96.0.2"));
        let mut seen = Listener::of(&server);
        seen.until_services(&["lost", "web"]);
        seen.until_complete();
        server.stop();
        server.restore(&old);
        server.start_again().unwrap();
        seen.until("Services are refused", |seen| {
            let mut of_services = seen.troubles.iter().filter(|trouble| trouble.of == Watched::Services);
            of_services.any(|trouble| trouble.reason.contains("only an older picture"))
        });
        for number in 0..3 {
            server.put(SERVICES, service(&format!("new-{number}"), &format!("10.96.1.{number}")));
        }
        seen.until_services(&["new-0", "new-1", "new-2", "web"]);
    }
}

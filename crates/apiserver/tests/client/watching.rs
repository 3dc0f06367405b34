//! What is watched, and how: lists, pages, streams, bookmarks, selectors.

use apiserver::{Access, Watched};
use mockapi::objects::{node, service, service_cidr, slice};
use mockapi::{CidrApi, MockApi, NODES, Offers, Options, Resource, SERVICE_CIDRS, SERVICES, SLICES, Seen};
use model::ServiceName;
use serde_json::json;

use crate::listener::{Listener, quick};

fn server(offers: Offers) -> MockApi {
    MockApi::start(Options { offers, ..Options::default() }).unwrap()
}

fn requests(server: &MockApi, resource: Resource) -> Vec<Seen> {
    server.seen().into_iter().filter(|seen| seen.resource == Some(resource)).collect()
}

#[test]
fn all_four_kinds_are_told_and_then_what_changes() {
    let server = server(Offers::default());
    server.put(SERVICES, service("web", "10.96.0.1"));
    server.put(SLICES, slice("web", &["10.244.2.7"]));
    server.put(NODES, node("a", "192.0.2.1"));
    server.put(NODES, node("b", "192.0.2.2"));
    server.put(SERVICE_CIDRS, service_cidr("kubernetes", "10.96.0.0/12"));
    let mut seen = Listener::of(&server);
    seen.until("all four are complete", |seen| seen.complete.len() == 4);
    assert_eq!(seen.services(), ["default/web"]);
    assert_eq!(seen.changes, 4, "the other Node is not ours to know");
    assert_eq!(seen.cluster.node().unwrap().zone.as_deref(), Some("z1"));
    server.put(SERVICES, service("db", "10.96.0.2"));
    seen.until_services(&["db", "web"]);
    server.remove(SERVICES, "default/web");
    seen.until_services(&["db"]);
    server.put(SERVICE_CIDRS, service_cidr("more", "10.112.0.0/16"));
    seen.until("the second ServiceCIDR", |seen| seen.cluster.service_networks().len() == 2);
    assert!(seen.troubles.is_empty(), "{:?}", seen.troubles);
}

#[test]
fn a_server_without_streaming_lists_is_read_in_pages() {
    let server = server(Offers { streaming_lists: false, ..Offers::default() });
    for number in 0..1201 {
        server.put(
            SERVICES,
            service(&format!("s{number:04}"), &format!("10.96.{}.{}", number / 250, number % 250 + 1)),
        );
    }
    let mut seen = Listener::of(&server);
    seen.until_complete();
    assert_eq!(seen.services().len(), 1201);
    let pages = requests(&server, SERVICES).iter().filter(|seen| !seen.query.contains_key("watch")).count();
    assert_eq!(pages, 3, "500 objects each");
    assert!(seen.troubles.is_empty(), "a server that is older is no trouble: {:?}", seen.troubles);
    server.put(SERVICES, service("later", "10.96.200.1"));
    seen.until("the watch after the pages", |seen| seen.services().len() == 1202);
}

#[test]
fn a_server_that_offers_streaming_lists_is_asked_for_no_page() {
    let server = server(Offers::default());
    for number in 0..1201 {
        server.put(
            SERVICES,
            service(&format!("s{number:04}"), &format!("10.96.{}.{}", number / 250, number % 250 + 1)),
        );
    }
    let mut seen = Listener::of(&server);
    seen.until_complete();
    assert_eq!(seen.services().len(), 1201);
    let all = requests(&server, SERVICES);
    assert_eq!(all.len(), 1, "the stream goes on as the watch: {all:?}");
}

#[test]
fn pages_that_expire_on_the_way_are_read_anew() {
    let server = server(Offers { streaming_lists: false, ..Offers::default() });
    for number in 0..501 {
        server.put(
            SERVICES,
            service(&format!("s{number:04}"), &format!("10.96.{}.{}", number / 250, number % 250 + 1)),
        );
    }
    // The second page, and only that, hears that its list is gone.
    let gone = mockapi::Fault::Status { code: 410, retry_after: None };
    server.fault(mockapi::Requests::SecondPages(SERVICES), gone, Some(1));
    let mut seen = Listener::of(&server);
    seen.until_trouble("410");
    seen.until_complete();
    assert_eq!(seen.services().len(), 501);
}

#[test]
fn objects_of_others_never_leave_the_server() {
    let server = server(Offers::default());
    let mut others = service("others", "10.96.0.3");
    others["metadata"]["labels"]["service.kubernetes.io/service-proxy-name"] = json!("cilium");
    server.put(SERVICES, others.clone());
    let mut headless = service("headless", "None");
    headless["spec"]["clusterIPs"] = json!(["None"]);
    server.put(SERVICES, headless);
    let mut of_headless = slice("headless", &["10.244.2.8"]);
    of_headless["metadata"]["labels"]["service.kubernetes.io/headless"] = json!("");
    server.put(SLICES, of_headless);
    server.put(SERVICES, service("web", "10.96.0.1"));
    let mut seen = Listener::of(&server);
    seen.until_complete();
    assert_eq!((seen.services(), seen.changes), (vec!["default/web".to_owned()], 1));
    // The label that appears later looks like a deletion.
    let mut web = service("web", "10.96.0.1");
    web["metadata"]["labels"]["service.kubernetes.io/service-proxy-name"] = json!("cilium");
    server.put(SERVICES, web);
    seen.until_services(&[]);
    let mut of_cilium = Listener::of_proxy(Access::Master(server.url()), quick(), Some("cilium".into()));
    of_cilium.until_complete();
    assert_eq!(of_cilium.services(), ["default/others", "default/web"]);
}

#[test]
fn a_server_that_cannot_select_by_cluster_ip_sends_all_services() {
    for streaming_lists in [true, false] {
        let server = server(Offers { streaming_lists, cluster_ip_field: false, ..Offers::default() });
        server.put(SERVICES, service("web", "10.96.0.1"));
        let mut seen = Listener::of(&server);
        seen.until_complete();
        assert_eq!(seen.services(), ["default/web"]);
        server.put(SERVICES, service("db", "10.96.0.2"));
        seen.until_services(&["db", "web"]);
    }
}

#[test]
fn a_server_without_service_cidrs_has_none_and_that_is_no_trouble() {
    let server = server(Offers { service_cidrs: CidrApi::Absent, ..Offers::default() });
    let mut seen = Listener::of(&server);
    seen.until("ServiceCIDRs are absent", |seen| seen.absent.contains(&Watched::ServiceCidrs));
    seen.until("the rest is complete", |seen| seen.complete.len() == 3);
    assert!(seen.troubles.is_empty(), "{:?}", seen.troubles);
}

#[test]
fn a_server_that_has_service_cidrs_as_beta_is_asked_for_those() {
    let server = server(Offers { service_cidrs: CidrApi::Beta, ..Offers::default() });
    server.put(SERVICE_CIDRS, service_cidr("kubernetes", "10.96.0.0/12"));
    let mut seen = Listener::of(&server);
    seen.until("ServiceCIDRs", |seen| seen.complete.contains(&Watched::ServiceCidrs) && seen.changes > 0);
    assert!(seen.absent.is_empty() && seen.troubles.is_empty(), "{:?}", seen.troubles);
    // The server is upgraded, and has no beta any more.
    server.offer(Offers::default());
    server.put(SERVICE_CIDRS, service_cidr("more", "10.112.0.0/12"));
    server.cut();
    seen.until("the newer one", |seen| format!("{:?}", seen.cluster).contains("10.112.0.0/12"));
    assert!(seen.absent.is_empty(), "it was there all the time");
}

#[test]
fn slices_say_when_what_they_tell_of_has_happened() {
    let server = server(Offers::default());
    let at = |time: &str, service: &str, family: &str| {
        let mut slice = slice(service, &[]);
        slice["addressType"] = serde_json::json!(family);
        slice["metadata"]["annotations"] =
            serde_json::json!({"endpoints.kubernetes.io/last-change-trigger-time": time});
        slice
    };
    server.put(SLICES, at("2026-11-16T05:00:00Z", "web", "IPv4"));
    server.put(SLICES, slice("silent", &["10.244.2.7"]));
    server.put(SLICES, at("yesterday", "wrong", "IPv4"));
    let mut seen = Listener::of(&server);
    seen.until_complete();
    server.put(SLICES, at("2026-11-16T05:00:01.5Z", "web", "IPv6"));
    seen.until("two of them", |seen| seen.triggers.len() == 2);
    server.remove(SLICES, "default/web-1");
    seen.until("the slice is gone", |seen| seen.changes == 5);
    let shown: Vec<String> = seen.triggers.iter().map(|(family, at)| format!("{family} {at}")).collect();
    assert_eq!(shown, ["IPv4 2026-11-16T05:00:00Z", "IPv6 2026-11-16T05:00:01.5Z"]);
}

#[test]
fn a_bookmark_is_a_sign_of_life_and_where_the_next_watch_begins() {
    let server = server(Offers::default());
    server.put(SERVICES, service("web", "10.96.0.1"));
    let mut seen = Listener::of(&server);
    seen.until("all four are complete", |seen| seen.complete.len() == 4);
    server.put(NODES, node("elsewhere", "192.0.2.9"));
    let (heard, version) = (seen.heard, server.version());
    server.bookmark();
    seen.until("a bookmark on each watch", |seen| seen.heard >= heard + 4);
    // What happened before the bookmark is forgotten: only who goes on from the bookmark hears no 410.
    server.compact();
    server.cut();
    seen.until("the watch of Services anew", |_| {
        let last = requests(&server, SERVICES).pop();
        last.is_some_and(|last| last.query.get("resourceVersion") == Some(&version.to_string()))
    });
    server.put(SERVICES, service("db", "10.96.0.2"));
    seen.until_services(&["db", "web"]);
    assert_eq!(seen.lists[&Watched::Services], 1, "nothing was listed a second time");
}

#[test]
fn endpoints_arrive_in_full() {
    let server = server(Offers::default());
    server.put(SERVICES, service("web", "10.96.0.1"));
    server.put(SLICES, slice("web", &["10.244.2.7", "10.244.2.8"]));
    let mut seen = Listener::of(&server);
    seen.until_complete();
    let table = model::ForwardingTable::of(&seen.cluster);
    let port = table.ports().next().unwrap();
    assert_eq!(port.id().service, ServiceName::new("default", "web"));
    let shown = format!("{port:?}");
    assert!(shown.contains("10.244.2.7") && shown.contains("10.244.2.8"), "{shown}");
}

//! What is asked, as paths.
//!
//! Selectors are upstream's (v1.37): Services of another proxy and headless ones, and slices of headless Services, never leave the
//! server.

use std::fmt::Write as _;

use model::object::{HEADLESS_LABEL, PROXY_NAME_LABEL};

use crate::news::Watched;
use crate::pace::chance;

/// Objects per page, as upstream's.
const PAGE: usize = 500;
/// A watch is asked to end by itself after this many seconds, and up to a tenth more: so the connections of a cluster's nodes
/// spread over its servers again after one of them was away.
const WATCH_SECONDS: f64 = 290.0;

/// What a follower asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) of: Watched,
    pub(crate) node_name: String,
    /// The service proxy whose Services are wanted; `None`: those that name none.
    pub(crate) proxy_name: Option<String>,
    /// The server can select Services by cluster IP. Servers before 1.31 cannot.
    pub(crate) by_cluster_ip: bool,
    /// ServiceCIDRs are asked for as `v1beta1`: servers before 1.33 have no other.
    pub(crate) is_beta: bool,
}

impl Wish {
    /// One page of a list; the first one without a token.
    pub(crate) fn page(&self, token: &str) -> String {
        let mut path = self.path(&[("limit", &PAGE.to_string())]);
        if !token.is_empty() {
            parameter(&mut path, "continue", token);
        }
        path
    }

    /// As little as can be listed: its version is what it is asked for.
    pub(crate) fn glimpse(&self) -> String {
        self.path(&[("limit", "1")])
    }

    /// What happens after a version.
    pub(crate) fn watch(&self, version: &str) -> String {
        self.path(&[
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", &seconds()),
        ])
    }

    /// All objects, and then what happens.
    pub(crate) fn streaming_list(&self) -> String {
        self.path(&[
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("timeoutSeconds", &seconds()),
        ])
    }

    fn path(&self, parameters: &[(&str, &str)]) -> String {
        let mut path = match self.of.group() {
            "" => format!("/api/v1/{}", self.of.plural()),
            group if self.is_beta => format!("/apis/{group}/v1beta1/{}", self.of.plural()),
            group => format!("/apis/{group}/v1/{}", self.of.plural()),
        };
        path.push('?');
        let (labels, fields) = (self.labels(), self.fields());
        for (name, value) in
            [("labelSelector", &*labels), ("fieldSelector", &*fields)].iter().chain(parameters)
        {
            if !value.is_empty() {
                parameter(&mut path, name, value);
            }
        }
        path
    }

    fn labels(&self) -> String {
        match (self.of, &self.proxy_name) {
            (Watched::Services, None) => format!("!{PROXY_NAME_LABEL}"),
            (Watched::Services, Some(name)) => format!("{PROXY_NAME_LABEL}={name}"),
            (Watched::EndpointSlices, _) => format!("!{HEADLESS_LABEL}"),
            (Watched::Node | Watched::ServiceCidrs, _) => String::new(),
        }
    }

    fn fields(&self) -> String {
        match self.of {
            Watched::Services if self.by_cluster_ip => "spec.clusterIP!=None".to_owned(),
            Watched::Node => format!("metadata.name={}", self.node_name),
            _ => String::new(),
        }
    }
}

fn seconds() -> String {
    format!("{:.0}", WATCH_SECONDS * (1.0 + 0.1 * chance()))
}

fn parameter(path: &mut String, name: &str, value: &str) {
    if !path.ends_with('?') {
        path.push('&');
    }
    path.push_str(name);
    path.push('=');
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            path.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(of: Watched) -> Wish {
        Wish { of, node_name: "a".into(), proxy_name: None, by_cluster_ip: true, is_beta: false }
    }

    #[test]
    fn selectors_are_upstreams() {
        let page = |of| wish(of).page("");
        assert_eq!(
            page(Watched::Services),
            "/api/v1/services?labelSelector=%21service.kubernetes.io%2Fservice-proxy-name&fieldSelector=spec.clusterIP%21%3DNone&limit=500"
        );
        assert_eq!(
            page(Watched::EndpointSlices),
            "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=%21service.kubernetes.io%2Fheadless&limit=500"
        );
        assert_eq!(page(Watched::Node), "/api/v1/nodes?fieldSelector=metadata.name%3Da&limit=500");
        assert_eq!(page(Watched::ServiceCidrs), "/apis/networking.k8s.io/v1/servicecidrs?limit=500");
    }

    #[test]
    fn another_proxys_services_are_asked_for_by_its_name() {
        let other = Wish { proxy_name: Some("mine".into()), ..wish(Watched::Services) };
        assert!(other.page("").contains("labelSelector=service.kubernetes.io%2Fservice-proxy-name%3Dmine"));
    }
}

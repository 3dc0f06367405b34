//! The client against the real `kube-apiserver` and `etcd`, where `KUBEBUILDER_ASSETS` names a folder with them and `kubectl`, as
//! envtest has it. The same statements as against our own server, as far as a real one can be made to show them.

mod server;

use apiserver::{Access, KubeconfigFile, Watched};
use mockapi::objects::{node, service, slice};
use serde_json::json;

use crate::listener::{Folder, Listener, quick};
use server::RealApi;

/// A server with one Service; `None`, and the reason is said, where there is none.
fn server(folder: &Folder) -> Option<RealApi> {
    let server = RealApi::start(&folder.0)?;
    server.put(&service("web", "10.96.0.11"));
    Some(server)
}

fn listen(server: &RealApi, token: &str) -> Listener {
    Listener::start(
        Access::Kubeconfig { file: KubeconfigFile::of_flag(server.kubeconfig(token)), master: None },
        quick(),
    )
}

/// The server has a Service of its own, `default/kubernetes`.
fn with_own<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names = [names, &["kubernetes"]].concat();
    names.sort_unstable();
    names
}

#[test]
fn a_real_server_tells_all_four_kinds_and_then_what_changes() {
    let folder = Folder::new();
    let Some(server) = server(&folder) else { return };
    server.put(&slice("web", &["10.244.2.7"]));
    server.put(&node("a", "192.0.2.1"));
    server.put(&node("b", "192.0.2.2"));
    let mut seen = listen(&server, server::ADMIN);
    seen.until("all four, or three and no ServiceCIDRs", |seen| seen.complete.len() + seen.absent.len() == 4);
    seen.until_services(&with_own(&["web"]));
    assert_eq!(seen.cluster.node().unwrap().zone.as_deref(), Some("z1"));
    server.put(&service("db", "10.96.0.12"));
    seen.until_services(&with_own(&["db", "web"]));
    server.remove("service", "web");
    seen.until_services(&with_own(&["db"]));
    assert!(seen.troubles.is_empty(), "{:?}", seen.troubles);
}

#[test]
fn objects_of_others_never_leave_a_real_server() {
    let folder = Folder::new();
    let Some(server) = server(&folder) else { return };
    let mut others = service("others", "10.96.0.13");
    others["metadata"]["labels"]["service.kubernetes.io/service-proxy-name"] = json!("cilium");
    server.put(&others);
    let mut headless = service("headless", "None");
    headless["spec"]["clusterIPs"] = json!(["None"]);
    server.put(&headless);
    let mut seen = listen(&server, server::ADMIN);
    seen.until_complete();
    seen.until_services(&with_own(&["web"]));
}

#[test]
fn a_real_server_that_goes_away_and_comes_back_takes_nothing_with_it() {
    let folder = Folder::new();
    let Some(mut server) = server(&folder) else { return };
    let mut seen = listen(&server, server::ADMIN);
    seen.until_complete();
    seen.until_services(&with_own(&["web"]));
    server.stop();
    seen.until_trouble("cannot be reached");
    assert_eq!(seen.services().len(), 2);
    server.start_again();
    server.put(&service("db", "10.96.0.12"));
    seen.until_services(&with_own(&["db", "web"]));
}

#[test]
fn a_real_servers_missing_permission_is_named_and_its_rbac_is_enough() {
    let folder = Folder::new();
    let Some(server) = server(&folder) else { return };
    let mut seen = listen(&server, server::NOBODY);
    let trouble = seen.until_trouble("Add to our ClusterRole");
    assert!(trouble.reason.contains("(403"), "{}", trouble.reason);
    let rule = |of: Watched| json!({"apiGroups": [of.group()], "resources": [of.plural()], "verbs": ["list", "watch"]});
    server.put(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "portway"},
        "rules": Watched::ALL.map(rule)
    }));
    server.put(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "portway"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "portway"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}]
    }));
    seen.until_complete();
    seen.until_services(&with_own(&["web"]));
}

#[test]
fn a_wrong_token_is_told_as_one_by_a_real_server() {
    let folder = Folder::new();
    let Some(server) = server(&folder) else { return };
    let mut seen = listen(&server, "wrong");
    seen.until_trouble("401");
}

//! Who we are: certificates, tokens that rotate, the account of a Pod. All over TLS.

use std::fs;

use apiserver::{Access, Account, KubeconfigFile};
use mockapi::objects::service;
use mockapi::{Certificates, MockApi, Options, SERVICES, User, kubeconfig};

use crate::listener::{Folder, Listener, quick};

pub(crate) fn server() -> MockApi {
    let tls = Some(Certificates::generate().unwrap());
    let server = MockApi::start(Options { tls, ..Options::default() }).unwrap();
    server.put(SERVICES, service("web", "10.96.0.1"));
    server
}

/// The server no longer knows what it knew: whoever comes back must show something new.
pub(crate) fn rotate(server: &MockApi, token: &str) {
    server.accept_tokens(&[token]);
    server.cut();
    server.put(SERVICES, service("db", "10.96.0.2"));
}

#[test]
fn a_client_certificate_lets_us_in() {
    let (server, folder) = (server(), Folder::new());
    server.need_certificate();
    let mut seen = Listener::with_kubeconfig(kubeconfig(&server, &User::Certificate, &folder.0).unwrap());
    seen.until_services(&["web"]);
}

#[test]
fn a_token_lets_us_in_and_without_one_we_hear_401() {
    let (server, folder) = (server(), Folder::new());
    server.accept_tokens(&["secret"]);
    let mut nobody = Listener::with_kubeconfig(kubeconfig(&server, &User::Nobody, &folder.0).unwrap());
    let trouble = nobody.until_trouble("token or certificate is missing, wrong or expired");
    assert!(trouble.reason.contains("401"), "{}", trouble.reason);
    let user = User::Token("secret".into());
    let mut seen = Listener::with_kubeconfig(kubeconfig(&server, &user, &folder.0).unwrap());
    seen.until_services(&["web"]);
}

#[test]
fn a_kubeconfig_that_is_replaced_is_read_again() {
    let (server, folder) = (server(), Folder::new());
    server.accept_tokens(&["first"]);
    let path = kubeconfig(&server, &User::Token("first".into()), &folder.0).unwrap();
    let mut seen = Listener::with_kubeconfig(path);
    seen.until_services(&["web"]);
    rotate(&server, "second");
    seen.until_trouble("401");
    kubeconfig(&server, &User::Token("second".into()), &folder.0).unwrap();
    seen.until_services(&["db", "web"]);
}

#[test]
fn a_token_file_is_read_again_when_the_token_rotates() {
    let (server, folder) = (server(), Folder::new());
    let file = folder.0.join("the-token");
    fs::write(&file, "first").unwrap();
    server.accept_tokens(&["first"]);
    let path = kubeconfig(&server, &User::TokenFile(file.clone()), &folder.0).unwrap();
    let mut seen = Listener::with_kubeconfig(path);
    seen.until_services(&["web"]);
    fs::write(&file, "second\n").unwrap();
    rotate(&server, "second");
    seen.until_services(&["db", "web"]);
}

fn account(server: &MockApi, folder: &Folder) -> Access {
    fs::write(folder.0.join("ca.crt"), &server.certificates().unwrap().authority).unwrap();
    let url = server.url();
    let (host, port) = url.trim_start_matches("https://").split_once(':').unwrap();
    Access::InCluster(Account { folder: folder.0.clone(), host: host.into(), port: port.into() })
}

#[test]
fn the_account_of_a_pod_lets_us_in_and_its_token_rotates() {
    let (server, folder) = (server(), Folder::new());
    fs::write(folder.0.join("token"), "first").unwrap();
    server.accept_tokens(&["first"]);
    let mut seen = Listener::start(account(&server, &folder), quick());
    seen.until_services(&["web"]);
    fs::write(folder.0.join("token"), "second").unwrap();
    rotate(&server, "second");
    seen.until_services(&["db", "web"]);
    let tokens: Vec<_> = server.seen().into_iter().filter_map(|seen| seen.token).collect();
    assert!(tokens.contains(&"second".to_owned()), "{tokens:?}");
}

#[test]
fn a_server_with_another_certificate_is_not_believed() {
    let (server, folder) = (server(), Folder::new());
    fs::write(folder.0.join("token"), "first").unwrap();
    let access = account(&server, &folder);
    fs::write(folder.0.join("ca.crt"), Certificates::generate().unwrap().authority).unwrap();
    let mut seen = Listener::start(access, quick());
    let trouble = seen.until_trouble("cannot be reached");
    let words = format!(
        "the API server {}/ cannot be reached: its certificate is not from the authority in `{}`: if this is our server, put its \
         authority there (",
        server.url(),
        folder.0.join("ca.crt").display()
    );
    assert!(trouble.reason.starts_with(&words), "{}", trouble.reason);
    assert!(server.seen().is_empty(), "no token goes to a stranger");
}

#[test]
fn a_server_whose_certificate_has_expired_is_told_with_the_way_out() {
    let (tls, folder) = (Some(Certificates::expired().unwrap()), Folder::new());
    let server = MockApi::start(Options { tls, ..Options::default() }).unwrap();
    let mut seen = Listener::with_kubeconfig(kubeconfig(&server, &User::Nobody, &folder.0).unwrap());
    let trouble = seen.until_trouble("cannot be reached");
    let words = "its certificate has expired: renew it on the server; or the clock of this host is wrong (";
    assert!(trouble.reason.contains(words), "{}", trouble.reason);
    assert!(trouble.reason.contains(&server.url()), "{}", trouble.reason);
}

#[test]
fn each_mistake_in_a_kubeconfig_is_told_with_its_place_and_the_way_out() {
    let (server, folder) = (server(), Folder::new());
    let path = kubeconfig(&server, &User::Certificate, &folder.0).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    let key = folder.0.join("client.key").display().to_string();
    let said = |text: &str| {
        fs::write(&path, text).unwrap();
        let said = Access::Kubeconfig { file: KubeconfigFile::of_flag(path.clone()), master: None }
            .address()
            .unwrap_err()
            .to_string();
        let (file, why) = said.split_once(" of --kubeconfig cannot be used: ").unwrap();
        assert_eq!(file, format!("the file `{}`", path.display()));
        why.to_owned()
    };
    assert_eq!(
        said(&good.replace("current-context: test", "current-context: prod")),
        "its `current-context` is `prod`, and no context has that name: it has `test`"
    );
    assert_eq!(
        said(&good.replace("current-context: test\n", "")),
        "it has no `current-context`: write there which of `contexts` to use"
    );
    assert_eq!(
        said(&good.replace("cluster: test,", "cluster: other,")),
        "its context leads to the cluster `other`, which is not in `clusters`: add it there"
    );
    assert_eq!(
        said(&good.replace(&key, "/nowhere/client.key")),
        "its `client-key` is the file `/nowhere/client.key`, which cannot be read: No such file or directory (os error 2). Allow this \
         user to read it, or name another"
    );
    let authority = folder.0.join("ca.crt").display().to_string();
    assert_eq!(
        said(&good.replace(&authority, "/nowhere/ca.crt")),
        "its `certificate-authority` is the file `/nowhere/ca.crt`, which cannot be read: No such file or directory (os error 2). \
         Allow this user to read it, or name another"
    );
    let text = said("current-context: [");
    assert!(text.starts_with("it is no kubeconfig: "), "{text}");
}

#[test]
fn a_master_takes_the_place_of_the_kubeconfigs_server() {
    let (server, folder) = (server(), Folder::new());
    let path = kubeconfig(&server, &User::Nobody, &folder.0).unwrap();
    let text = fs::read_to_string(&path).unwrap().replace(&server.url(), "https://192.0.2.1:1");
    fs::write(&path, text).unwrap();
    let mut seen = Listener::start(
        Access::Kubeconfig { file: KubeconfigFile::of_flag(path), master: Some(server.url()) },
        quick(),
    );
    seen.until_services(&["web"]);
}

#[test]
fn what_was_named_wrongly_is_said_before_anything_starts() {
    let folder = Folder::new();
    let missing =
        Access::Kubeconfig { file: KubeconfigFile::of_flag(folder.0.join("nothing")), master: None };
    let said = missing.address().unwrap_err().to_string();
    assert!(said.contains("--kubeconfig cannot be used") && said.contains("nothing"), "{said}");
    let file = KubeconfigFile::of_document(folder.0.join("nothing"));
    let said = Access::Kubeconfig { file, master: None }.address().unwrap_err().to_string();
    assert!(said.contains("nothing` of clientConnection.kubeconfig cannot be used"), "{said}");
    let said = Access::Master("10.0.0.1:6443".into()).address().unwrap_err().to_string();
    assert!(said.contains("`10.0.0.1:6443` of --master is no URL"), "{said}");
    assert_eq!(Access::Master("http://10.0.0.1:8080".into()).address().unwrap(), "http://10.0.0.1:8080/");
}

/// A server whose certificate is its own authority's, and the client that trusts this text.
fn self_signed(is_expired: bool, trusted: impl FnOnce(&str) -> String) -> (MockApi, Listener, Folder) {
    let (tls, folder) = (Some(Certificates::self_signed(is_expired).unwrap()), Folder::new());
    let server = MockApi::start(Options { tls, ..Options::default() }).unwrap();
    server.put(SERVICES, service("web", "10.96.0.1"));
    let path = kubeconfig(&server, &User::Token("secret".into()), &folder.0).unwrap();
    server.accept_tokens(&["secret"]);
    let authority = server.certificates().unwrap().authority.clone();
    fs::write(folder.0.join("ca.crt"), trusted(&authority)).unwrap();
    (server, Listener::with_kubeconfig(path), folder)
}

#[test]
fn a_certificate_that_is_also_an_authority_is_accepted_where_the_ca_file_has_that_very_one() {
    let other = Certificates::generate().unwrap().authority;
    let (_server, mut seen, _folder) = self_signed(false, |own| format!("{other}\n{own}"));
    seen.until_services(&["web"]);
    let (server, folder) = (self_signed(false, str::to_owned).0, Folder::new());
    fs::write(folder.0.join("token"), "secret\n").unwrap();
    Listener::start(account(&server, &folder), quick()).until_services(&["web"]);
}

#[test]
fn a_certificate_that_is_also_another_authority_is_refused_with_the_way_out() {
    let other = Certificates::self_signed(false).unwrap().authority;
    let (server, mut seen, folder) = self_signed(false, |_| other);
    let trouble = seen.until_trouble("its certificate is an authority's (CA:TRUE");
    let kubeconfig = format!("`certificate-authority` of `{}", folder.0.display());
    for words in [&*kubeconfig, "put it there", "basicConstraints=CA:FALSE", "CaUsedAsEndEntity"] {
        assert!(trouble.reason.contains(words), "no {words}: {}", trouble.reason);
    }
    assert!(server.seen().is_empty(), "no token goes to a stranger");
}

#[test]
fn a_certificate_that_is_also_an_authority_is_refused_when_it_has_expired_or_names_another_host() {
    let (_server, mut seen, _folder) = self_signed(true, str::to_owned);
    seen.until_trouble("its certificate has expired");
    let (server, _, folder) = self_signed(false, str::to_owned);
    let elsewhere = server.url().replace("127.0.0.1", "127.0.0.2");
    let file = KubeconfigFile::of_flag(kubeconfig(&server, &User::Nobody, &folder.0).unwrap());
    let mut seen = Listener::start(Access::Kubeconfig { file, master: Some(elsewhere) }, quick());
    seen.until_trouble("cannot be reached");
    assert!(seen.services().is_empty());
}

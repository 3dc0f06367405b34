//! Who we are: certificates, tokens that rotate, programs that print them, the account of a Pod. All over TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use apiserver::{Access, Account, Pace};
use mockapi::objects::service;
use mockapi::{Certificates, MockApi, Options, SERVICES, User, kubeconfig};

use crate::listener::{Folder, Listener, quick};

fn server() -> MockApi {
    let tls = Some(Certificates::generate().unwrap());
    let server = MockApi::start(Options { tls, ..Options::default() }).unwrap();
    server.put(SERVICES, service("web", "10.96.0.1"));
    server
}

/// The server no longer knows what it knew: whoever comes back must show something new.
fn rotate(server: &MockApi, token: &str) {
    server.accept_tokens(&[token]);
    server.cut();
    server.put(SERVICES, service("db", "10.96.0.2"));
}

/// A program that is complete as soon as it is there.
fn write_program(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, path).unwrap();
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
    let trouble = nobody.until_trouble("401");
    assert!(
        trouble.reason.contains("token or certificate is missing, wrong or expired"),
        "{}",
        trouble.reason
    );
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

#[test]
fn a_program_makes_the_token_and_makes_another_one_when_it_expires() {
    let (server, folder) = (server(), Folder::new());
    let (program, token) = (folder.0.join("login"), folder.0.join("token"));
    fs::write(&token, "first").unwrap();
    let text = format!(
        "#!/bin/sh\nprintf '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"%s\"}}}}' \
         \"$(cat {})\"\n",
        token.display()
    );
    write_program(&program, &text);
    server.accept_tokens(&["first"]);
    let mut seen = Listener::with_kubeconfig(kubeconfig(&server, &User::Exec(program), &folder.0).unwrap());
    seen.until_services(&["web"]);
    fs::write(&token, "second").unwrap();
    rotate(&server, "second");
    seen.until_services(&["db", "web"]);
}

#[test]
fn a_program_that_fails_is_trouble_and_is_run_again() {
    let (server, folder) = (server(), Folder::new());
    let path = kubeconfig(&server, &User::Exec(folder.0.join("missing")), &folder.0).unwrap();
    let mut seen = Listener::with_kubeconfig(path);
    seen.until_trouble("our account cannot be used");
    let text = "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"x\"}}'\n";
    write_program(&folder.0.join("missing"), text);
    seen.until_services(&["web"]);
}

#[test]
fn a_program_that_hangs_is_killed_and_named() {
    let (server, folder) = (server(), Folder::new());
    let (program, pids) = (folder.0.join("login"), folder.0.join("pids"));
    write_program(&program, &format!("#!/bin/sh\necho $$ >> {}\nexec sleep 1000\n", pids.display()));
    let path = kubeconfig(&server, &User::Exec(program.clone()), &folder.0).unwrap();
    let pace = Pace { answer: Duration::from_millis(500), ..quick() };
    let mut seen = Listener::start(Access::Kubeconfig { path, master: None }, pace);
    let trouble = seen.until_trouble("has not ended after 0.5 s, and was killed");
    assert!(trouble.reason.contains(&format!("the program `{}`", program.display())), "{}", trouble.reason);
    let pids = fs::read_to_string(&pids).unwrap();
    let first = pids.lines().next().unwrap();
    assert!(!fs::exists(format!("/proc/{first}")).unwrap(), "{first} is still there");
    write_program(&program, "#!/bin/sh\necho '{\"status\":{\"token\":\"x\"}}'\n");
    seen.until_services(&["web"]);
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
    assert!(trouble.reason.to_lowercase().contains("certificate"), "{}", trouble.reason);
    assert!(server.seen().is_empty(), "no token goes to a stranger");
}

#[test]
fn a_master_takes_the_place_of_the_kubeconfigs_server() {
    let (server, folder) = (server(), Folder::new());
    let path = kubeconfig(&server, &User::Nobody, &folder.0).unwrap();
    let text = fs::read_to_string(&path).unwrap().replace(&server.url(), "https://192.0.2.1:1");
    fs::write(&path, text).unwrap();
    let mut seen = Listener::start(Access::Kubeconfig { path, master: Some(server.url()) }, quick());
    seen.until_services(&["web"]);
}

#[test]
fn what_was_named_wrongly_is_said_before_anything_starts() {
    let folder = Folder::new();
    let missing = Access::Kubeconfig { path: folder.0.join("nothing"), master: None };
    let said = missing.address().unwrap_err().to_string();
    assert!(said.contains("--kubeconfig cannot be used") && said.contains("nothing"), "{said}");
    let said = Access::Master("10.0.0.1:6443".into()).address().unwrap_err().to_string();
    assert!(said.contains("`10.0.0.1:6443` of --master is no URL"), "{said}");
    assert_eq!(Access::Master("http://10.0.0.1:8080".into()).address().unwrap(), "http://10.0.0.1:8080/");
}

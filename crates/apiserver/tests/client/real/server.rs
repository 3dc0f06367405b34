//! The real `etcd` and `kube-apiserver`, started as envtest starts them, on ports and in a folder of the test's own.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The token of somebody who may do everything.
pub(crate) const ADMIN: &str = "admins-token";
/// The token of somebody who may do nothing.
pub(crate) const NOBODY: &str = "nobodys-token";

/// A real server needs its time.
const PATIENCE: Duration = Duration::from_secs(120);

/// A real API server.
pub(crate) struct RealApi {
    assets: PathBuf,
    folder: PathBuf,
    port: u16,
    etcd_port: u16,
    etcd: Child,
    server: Child,
}

impl RealApi {
    /// Starts one. `None`, and the reason is said, where there are no programs for it.
    pub(crate) fn start(folder: &Path) -> Option<Self> {
        let assets = assets()?;
        let [port, etcd_port, peer_port] = free_ports();
        let (private, public) = mockapi::signing_key().unwrap();
        std::fs::write(folder.join("sa.key"), private).unwrap();
        std::fs::write(folder.join("sa.pub"), public).unwrap();
        let tokens = format!("{ADMIN},admin,1,\"system:masters\"\n{NOBODY},nobody,2\n");
        std::fs::write(folder.join("tokens.csv"), tokens).unwrap();
        let etcd = etcd(&assets, folder, etcd_port, peer_port);
        let server = apiserver(&assets, folder, port, etcd_port);
        let real = Self { assets, folder: folder.to_owned(), port, etcd_port, etcd, server };
        real.wait();
        Some(real)
    }

    /// Puts an object, whatever was there before.
    pub(crate) fn put(&self, object: &Value) {
        let mut object = object.clone();
        for field in ["managedFields", "uid", "creationTimestamp"] {
            object["metadata"].as_object_mut().unwrap().remove(field);
        }
        let status = object.as_object_mut().unwrap().remove("status");
        self.kubectl(&["apply", "--validate=false", "-f", "-"], &object.to_string()).unwrap();
        if let Some(status) = status.filter(|_| object["kind"] == "Node") {
            let patch = serde_json::json!({ "status": status }).to_string();
            let name = object["metadata"]["name"].as_str().unwrap();
            self.kubectl(&["patch", "node", name, "--subresource=status", "-p", &patch], "").unwrap();
        }
    }

    /// Takes an object away.
    pub(crate) fn remove(&self, kind: &str, name: &str) {
        self.kubectl(&["delete", kind, name, "--wait=false"], "").unwrap();
    }

    /// The way of somebody with this token.
    pub(crate) fn kubeconfig(&self, token: &str) -> PathBuf {
        let path = self.folder.join(format!("kubeconfig-{token}"));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: t\ncontexts:\n- name: t\n  context: {{cluster: t, user: t}}\nclusters:\n\
             - name: t\n  cluster:\n    server: https://127.0.0.1:{}\n    certificate-authority: {}\nusers:\n- name: t\n  user:\n    \
             token: {token}\n",
            self.port,
            self.folder.join("certs/apiserver.crt").display()
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Goes away.
    pub(crate) fn stop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }

    /// Comes back with the same objects.
    pub(crate) fn start_again(&mut self) {
        self.server = apiserver(&self.assets, &self.folder, self.port, self.etcd_port);
        self.wait();
    }

    fn wait(&self) {
        let deadline = Instant::now() + PATIENCE;
        let mut said = String::new();
        while Instant::now() < deadline {
            match self.kubectl(&["get", "--raw", "/readyz"], "") {
                Ok(()) => return,
                Err(error) => said = error,
            }
            std::thread::park_timeout(Duration::from_millis(200));
        }
        panic!("the real server is not ready: {said}\n{}", log(&self.folder, "kube-apiserver"));
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> Result<(), String> {
        let mut child = Command::new(self.assets.join("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig(ADMIN))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        child.stdin.take().unwrap().write_all(input.as_bytes()).map_err(|error| error.to_string())?;
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

impl Drop for RealApi {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.etcd] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[expect(clippy::print_stderr, reason = "the test's own output, from which the summary takes the reason")]
fn assets() -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from) else {
        eprintln!("skipped: KUBEBUILDER_ASSETS names no folder with kube-apiserver, etcd and kubectl");
        return None;
    };
    let missing: Vec<&str> = ["kube-apiserver", "etcd", "kubectl"]
        .into_iter()
        .filter(|name| !folder.join(name).exists())
        .collect();
    if missing.is_empty() {
        return Some(folder);
    }
    eprintln!("skipped: KUBEBUILDER_ASSETS has no {}", missing.join(", "));
    None
}

fn free_ports() -> [u16; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn etcd(assets: &Path, folder: &Path, port: u16, peer_port: u16) -> Child {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let mut command = Command::new(assets.join("etcd"));
    command.arg("--data-dir").arg(folder.join("etcd")).arg("--unsafe-no-fsync");
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.arg(format!("--initial-cluster=default={peer}"));
    spawn(command, folder, "etcd")
}

fn apiserver(assets: &Path, folder: &Path, port: u16, etcd_port: u16) -> Child {
    let mut command = Command::new(assets.join("kube-apiserver"));
    command.arg(format!("--etcd-servers=http://127.0.0.1:{etcd_port}"));
    command.arg(format!("--cert-dir={}", folder.join("certs").display()));
    command.args([
        "--bind-address=127.0.0.1",
        // Nobody dials it by a Service, and an address of loopback is refused for one.
        "--advertise-address=192.0.2.1",
        "--endpoint-reconciler-type=none",
        &format!("--secure-port={port}"),
    ]);
    command.args(["--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC"]);
    command
        .args(["--disable-admission-plugins=ServiceAccount", "--service-account-issuer=https://127.0.0.1/"]);
    command.arg(format!("--service-account-signing-key-file={}", folder.join("sa.key").display()));
    command.arg(format!("--service-account-key-file={}", folder.join("sa.pub").display()));
    command.arg(format!("--token-auth-file={}", folder.join("tokens.csv").display()));
    spawn(command, folder, "kube-apiserver")
}

fn spawn(mut command: Command, folder: &Path, name: &str) -> Child {
    let log = std::fs::File::create(folder.join(format!("{name}.log"))).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

fn log(folder: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(20).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

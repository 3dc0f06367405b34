//! The proxies: each a process of its own, with two threads or workers, in front of the same endpoints.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::machine::version_of;
use harness::{Cpu, process::memory_kib};

use crate::endpoints::{DATAGRAMS, Endpoints, IDLE, Ports};
use crate::load::Load;
use crate::peers::Peers;
use crate::relay;

/// A proxy that runs.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    pub(crate) ports: Ports,
    has_datagrams: bool,
    child: Child,
}

pub(crate) const PORTWAY: &str = "portway";
pub(crate) const HAPROXY: &str = "HAProxy";
pub(crate) const HAPROXY_SPLICE: &str = "HAProxy, splicing";
pub(crate) const NGINX: &str = "nginx";

/// Starts all of them.
pub(crate) fn start_all(endpoints: &Endpoints, idle: usize) -> Result<Vec<Proxy>> {
    let folder = std::env::temp_dir().join("portway-bench-peers");
    let peers = Peers::find(&folder)?;
    Ok(vec![
        start_portway(endpoints)?,
        start_haproxy(endpoints, &peers, &folder, HAPROXY, &haproxy(idle, ""))?,
        start_haproxy(endpoints, &peers, &folder, HAPROXY_SPLICE, &haproxy(idle, "option splice-auto"))?,
        start_nginx(endpoints, &peers, &folder)?,
    ])
}

impl Proxy {
    pub(crate) fn can(&self, load: &Load) -> bool {
        load.port != DATAGRAMS || self.has_datagrams
    }

    /// Processor time of all its processes so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let of = |process: &String| Some(Cpu::of(process)?.sum_ms() / 1e3);
        self.processes().iter().filter_map(of).sum()
    }

    /// Memory of all its processes.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.processes().iter().filter_map(|process| memory_kib(process, "VmRSS")).sum()
    }

    fn processes(&self) -> Vec<String> {
        let main = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{main}/task/{main}/children"));
        let children = children.unwrap_or_default();
        [main.to_string()].into_iter().chain(children.split_whitespace().map(str::to_owned)).collect()
    }

    fn wait_until_ready(mut self) -> Result<Self> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports[IDLE])).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} has ended ({status})", self.name);
            }
            ensure!(Instant::now() < deadline, "{} does not listen", self.name);
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(self)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // nginx's workers end when their master is asked to end, not when it is killed.
        let _gone = playground::namespace::terminate(&mut self.child);
        let _gone = self.child.wait();
    }
}

fn start_portway(endpoints: &Endpoints) -> Result<Proxy> {
    let ports = free_ports()?;
    let child = relay::start(&pairs(ports, endpoints))?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Proxy { name: PORTWAY, version, ports, has_datagrams: true, child }.wait_until_ready()
}

fn start_haproxy(
    endpoints: &Endpoints,
    peers: &Peers,
    folder: &Path,
    name: &'static str,
    settings: &str,
) -> Result<Proxy> {
    let ports = free_ports()?;
    let mut text = settings.to_owned();
    for (port, endpoint) in &pairs(ports, endpoints)[..4] {
        let _fits = writeln!(text, "listen l{port}\n bind 127.0.0.1:{port}\n server s 127.0.0.1:{endpoint}");
    }
    let file = write(folder, &format!("haproxy-{}.cfg", ports[0]), &text)?;
    let child = peers
        .command("haproxy")
        .args(["-db", "-f"])
        .arg(file)
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start haproxy")?;
    let version = version_of(peers.command("haproxy").arg("-v")).unwrap_or_else(|| "unknown".into());
    Proxy { name, version, ports, has_datagrams: false, child }.wait_until_ready()
}

fn start_nginx(endpoints: &Endpoints, peers: &Peers, folder: &Path) -> Result<Proxy> {
    let ports = free_ports()?;
    let pairs = pairs(ports, endpoints);
    let mut text = format!(
        "load_module {};\nuser root;\nworker_processes 2;\nworker_rlimit_nofile 20000;\npid {}/nginx.pid;\n\
         error_log stderr crit;\nevents {{ worker_connections 19000; }}\nstream {{\n proxy_timeout 1h;\n",
        peers.stream_module().display(),
        folder.display(),
    );
    for (number, (port, endpoint)) in pairs.iter().enumerate() {
        let udp = if number == pairs.len() - 1 { " udp" } else { "" };
        let _fits = writeln!(
            text,
            " server {{ listen 127.0.0.1:{port}{udp} reuseport; proxy_pass 127.0.0.1:{endpoint}; }}"
        );
    }
    text += "}\n";
    let file = write(folder, "nginx.conf", &text)?;
    let child = peers
        .command("nginx")
        .arg("-p")
        .arg(folder)
        .args(["-g", "daemon off;", "-e", "stderr", "-c"])
        .arg(file)
        .spawn()
        .context("cannot start nginx")?;
    let version = version_of(peers.command("nginx").arg("-v")).unwrap_or_else(|| "unknown".into());
    Proxy { name: NGINX, version, ports, has_datagrams: true, child }.wait_until_ready()
}

/// HAProxy refuses to start where the connections and pipes that it may have are more than the files.
fn haproxy(idle: usize, option: &str) -> String {
    let connections = idle + 50;
    format!(
        "global\n nbthread 2\n maxconn {connections}\n maxpipes 150\ndefaults\n mode tcp\n timeout connect 5s\n \
         timeout client 1h\n timeout server 1h\n {option}\n"
    )
}

/// Where a proxy listens, with where it leads; UDP last.
fn pairs(ports: Ports, endpoints: &Endpoints) -> Vec<(u16, u16)> {
    ports.into_iter().zip(endpoints.ports).collect()
}

/// Ports that are free now.
fn free_ports() -> Result<Ports> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let tcp = (0..4).map(bind).collect::<Result<Vec<_>, _>>()?;
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut ports = [udp.local_addr()?.port(); 5];
    for (port, listener) in ports.iter_mut().zip(&tcp) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let file = folder.join(name);
    std::fs::create_dir_all(folder)?;
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

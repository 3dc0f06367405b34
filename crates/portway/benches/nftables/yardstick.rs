//! The yardstick: the usual layout, loaded by the `nft` program.
//!
//! One chain for each service, with one rule that picks an endpoint from an anonymous map, and one verdict map from
//! frontends to chains. Upstream writes more than that, a chain with two rules for each endpoint too, so the comparison
//! is a mild one.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::cluster::{self, ENDPOINTS, PORT};
use harness::{Cpu, Quantiles, median, memory_mib, ms, rounds};
use playground::namespace::Namespace;
use serde::{Deserialize, Serialize};

use crate::Cold;

/// Who takes longer is stopped.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);
/// How many services are added one by one.
pub(crate) const ADDED: u32 = 20;
const POLL: Duration = Duration::from_millis(1);

/// What it took; `None` where it took longer than [`LIMIT`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Yardstick {
    pub(crate) services: u32,
    pub(crate) cold: Option<Load>,
    /// Adding one service.
    pub(crate) added: Option<Quantiles>,
    /// Our own cold syncs of as many services, right before.
    pub(crate) beside: Vec<Cold>,
}

impl Yardstick {
    /// How many times longer it took than our own cold sync.
    pub(crate) fn times_slower(&self) -> Option<f64> {
        Some(self.cold.as_ref()?.wall_ms / median(self.beside.iter().map(Cold::wall_ms)))
    }

    /// How many times more CPU it took.
    pub(crate) fn times_the_cpu(&self) -> Option<f64> {
        let cold = self.cold.as_ref()?;
        let ours = median(self.beside.iter().map(|ours| ours.user_ms + ours.system_ms));
        Some((cold.user_ms + cold.system_ms) / ours).filter(|times| times.is_finite())
    }
}

/// One run of `nft -f -`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) wall_ms: f64,
    pub(crate) user_ms: f64,
    pub(crate) system_ms: f64,
    /// The most memory that was seen.
    pub(crate) rss_peak_mib: f64,
}

/// Loads the layout, then adds to it.
pub(crate) fn measure(services: u32) -> Result<Yardstick> {
    let namespace = Namespace::create()?;
    let cold = load(&namespace, &ruleset(services))?;
    if cold.is_none() {
        return Ok(Yardstick { services, cold, added: None, beside: Vec::new() });
    }
    let added = rounds(0, ADDED, |i| {
        let start = Instant::now();
        load(&namespace, &one_more(services + i))?
            .context("adding one service took longer than the limit")?;
        Ok(start.elapsed())
    })?;
    Ok(Yardstick { services, cold, added: Some(Quantiles::of(added)), beside: Vec::new() })
}

fn load(namespace: &Namespace, ruleset: &str) -> Result<Option<Load>> {
    let before = Cpu::children()?;
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped());
    let start = Instant::now();
    let mut nft = namespace.spawn(command).context("cannot start `nft`")?;
    let mut input = nft.stdin.take().context("`nft` has no standard input")?;
    match input.write_all(ruleset.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
        // One that stops reading has said why, and its exit code tells.
        _ => drop(input),
    }
    let Some((wall_ms, rss_peak_mib)) = wait(&mut nft, start)? else { return Ok(None) };
    let Cpu { user_ms, system_ms } = Cpu::children()?.since(before);
    Ok(Some(Load { wall_ms, user_ms, system_ms, rss_peak_mib }))
}

/// Wall time and peak memory, or `None` when the limit has passed.
fn wait(nft: &mut Child, start: Instant) -> Result<Option<(f64, f64)>> {
    let mut peak_mib: f64 = 0.0;
    loop {
        peak_mib = peak_mib.max(memory_mib(&nft.id().to_string(), "VmHWM").unwrap_or_default());
        if let Some(status) = nft.try_wait()? {
            ensure!(status.success(), "`nft` refused the yardstick's rules: {status}");
            return Ok(Some((ms(start.elapsed()), peak_mib)));
        }
        if start.elapsed() > LIMIT {
            nft.kill()?;
            nft.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

fn ruleset(services: u32) -> String {
    let base = "map frontends { type ipv4_addr . inet_proto . inet_service : verdict; }\n\
         chain prerouting { type nat hook prerouting priority dstnat; \
         ip daddr . meta l4proto . th dport vmap @frontends; }\n";
    with_services(base, 0..services)
}

fn one_more(n: u32) -> String {
    with_services("", n..n + 1)
}

fn with_services(base: &str, services: Range<u32>) -> String {
    let mut text = format!("table ip yardstick {{\n{base}");
    services.clone().for_each(|n| chain(&mut text, n));
    text.push_str("}\nadd element ip yardstick frontends {\n");
    services.for_each(|n| element(&mut text, n));
    text.push_str("}\n");
    text
}

fn chain(text: &mut String, n: u32) {
    let slots = cluster::endpoints(n).into_iter().enumerate();
    let slots: Vec<String> = slots.map(|(i, address)| format!("{i} : {address} . 8080")).collect();
    let slots = slots.join(", ");
    let _ = writeln!(
        text,
        "chain service-{n} {{ meta l4proto tcp dnat ip to numgen random mod {ENDPOINTS} map {{ {slots} }}; }}"
    );
}

fn element(text: &mut String, n: u32) {
    let _ = writeln!(text, "{} . tcp . {PORT} : goto service-{n},", cluster::cluster_ip(n));
}

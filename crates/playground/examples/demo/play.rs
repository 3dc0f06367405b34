//! Plays a scene: asks portway about the packet, sends it many times, and compares.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use playground::statistics::check_shares;
use playground::{Outcome, Place, Protocol, Stats, Work, many, tcp};

use crate::Show;
use crate::chart::chart;
use crate::explained::Explained;
use crate::scenes::{Expected, Scene};
use crate::screen::{Screen, thousands};

/// So many lines of rules are enough to see what they are like.
const RULES_SHOWN: usize = 12;

/// What came of a scene, in a sentence; the error is a sentence too.
type Verdict = std::result::Result<String, String>;

pub(crate) fn play(screen: &Screen, show: &Show<'_>, scene: &Scene) -> Result<()> {
    screen.heading(scene.title, scene.look_at);
    let client = show.stage.place(scene.clients[0]);
    let question = format!("{} {}", client.address(scene.family), scene.destination);
    screen.command(&format!("portway explain {question}"));
    let explained = show.portway.explain(scene.node, &question)?;
    explained.why.iter().for_each(|why| screen.reason(&format!("  {why}")));
    let verdict = match scene.expected {
        Expected::Shares => play_shares(screen, client, scene, &explained)?,
        Expected::OnePodEach => play_one_pod_each(screen, show, scene, &explained)?,
        Expected::Refusal => play_refusal(client, &explained),
    };
    screen.verdict(verdict);
    Ok(())
}

fn play_shares(screen: &Screen, client: &Place, scene: &Scene, explained: &Explained) -> Result<Verdict> {
    let began = Instant::now();
    let stats = dial(client, scene.times, explained)?;
    let took = began.elapsed().as_millis();
    screen.block(&chart(&explained.landings, &stats.servers));
    let judge = || {
        no_failure(&stats)?;
        as_shared(explained, &stats)?;
        let saw = source_seen(client, scene, explained, &stats)?;
        let what = if explained.protocol == Protocol::Udp { "datagrams" } else { "connections" };
        Ok(format!("{} {what} in {took} ms, 0 failed; {saw}.", thousands(stats.ok)))
    };
    Ok(judge())
}

fn as_shared(explained: &Explained, stats: &Stats) -> Result<(), String> {
    let weights = explained.landings.iter().map(|landing| (landing.pod.as_str(), landing.slots));
    let weights: Vec<_> = weights.collect();
    let checked = check_shares(&stats.servers, &weights);
    checked.map(drop).map_err(|unfair| format!("that is not what explain says: {unfair}"))
}

/// Whether the pods saw the client or the node, as explained; in half a sentence.
fn source_seen(client: &Place, scene: &Scene, explained: &Explained, stats: &Stats) -> Verdict {
    let is_masqueraded = explained.landings.iter().all(|landing| landing.is_masqueraded);
    let own = client.address(scene.family).to_string();
    let seen = stats.sources.keys().map(String::as_str).collect::<Vec<_>>().join(" and ");
    match (is_masqueraded, stats.sources.contains_key(&own)) {
        (false, true) if stats.sources.len() == 1 => Ok(format!("the pods saw {own}, the client itself")),
        (true, false) => Ok(format!("the pods saw {seen}, the node in between")),
        _ => Err(format!("the pods saw {seen}, which is not what explain says")),
    }
}

fn play_one_pod_each(
    screen: &Screen,
    show: &Show<'_>,
    scene: &Scene,
    explained: &Explained,
) -> Result<Verdict> {
    let mut faithful = 0;
    for name in scene.clients {
        let stats = match dial_one_then_many(show.stage.place(name), scene.times, explained)? {
            Ok(stats) => stats,
            Err(sentence) => return Ok(Err(format!("{name}: {sentence}"))),
        };
        let pods: Vec<_> = stats.servers.iter().map(|(pod, count)| format!("{pod} × {count}")).collect();
        screen.block(&format!("{name:<12} → {}", pods.join(", ")));
        faithful += usize::from(pods.len() == 1);
    }
    Ok(match scene.clients.len() {
        all if all == faithful => Ok(format!("All {all} clients stayed with their pod.")),
        all => Err(format!("only {faithful} of {all} clients stayed with one pod")),
    })
}

/// Two first connections at the very same moment may meet two pods, since neither is remembered when the other
/// comes. So the first one is made alone.
fn dial_one_then_many(client: &Place, times: usize, explained: &Explained) -> Result<Result<Stats, String>> {
    let first = tcp(client, explained.destination);
    let Some(pod) = first.server() else { return Ok(Err(first.to_string())) };
    let mut stats = dial(client, times - 1, explained)?;
    *stats.servers.entry(pod.to_owned()).or_default() += 1;
    Ok(no_failure(&stats).map(|()| stats))
}

fn play_refusal(client: &Place, explained: &Explained) -> Verdict {
    match (explained.fate.as_str(), tcp(client, explained.destination)) {
        ("Rejected", Outcome::Refused { elapsed, .. }) => {
            Ok(format!("Refused after {} µs, as explain says.", elapsed.as_micros()))
        }
        (fate, outcome) => Err(format!("explain says {fate}, but it was: {outcome}")),
    }
}

fn dial(client: &Place, times: usize, explained: &Explained) -> Result<Stats> {
    let work = Work { protocol: explained.protocol, ..Work::default() };
    Ok(many(client, explained.destination, times, &work)?)
}

/// A sentence where questions failed.
pub(crate) fn no_failure(stats: &Stats) -> Result<(), String> {
    let first = stats.failures.first().map(String::as_str).unwrap_or_default();
    match stats.failed {
        0 => Ok(()),
        failed => Err(format!(
            "{} of {} failed, the first {first}",
            thousands(failed),
            thousands(stats.ok + failed)
        )),
    }
}

/// A few lines of what is in the kernel, where `nft` is there to show it.
pub(crate) fn show_rules(screen: &Screen, show: &Show<'_>) -> Result<()> {
    let mut nft = Command::new("nft");
    nft.args(["list", "map", "ip", "kube-proxy", "frontends"]);
    nft.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(child) = show.stage.place("a").namespace().spawn(nft) else { return Ok(()) };
    let output = child.wait_with_output().context("cannot wait for `nft`")?;
    if !output.status.success() {
        return Ok(());
    }
    screen.heading("In the kernel", "All Services are elements of a few maps: no chain for each of them.");
    screen.command("nft list map ip kube-proxy frontends    # on node a");
    let text = String::from_utf8_lossy(&output.stdout);
    // The line of the table goes, and one step to the right with it.
    let mut lines = text.lines().skip(1).map(|line| line.strip_prefix('\t').unwrap_or(line));
    lines.by_ref().take(RULES_SHOWN).for_each(|line| screen.block(line));
    screen.reason(&format!("  … and {} lines more", lines.count()));
    Ok(())
}

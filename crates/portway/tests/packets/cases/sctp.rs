//! SCTP as programs use it: the kernel's own sockets, whole associations, data both ways.
//!
//! The other cases make the first packets of SCTP by hand, since few kernels have its sockets at hand. This one runs in the
//! VM of `cargo xtask test`: once a kernel has loaded SCTP, it answers the hand-made packets itself.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use model::{Fate, Protocol};
use playground::namespace::socket::{connect_sctp, listen_sctp, wait_readable};
use playground::{Family, Place, Ports, patient};

use crate::check::Target;
use crate::manifest::Service;
use crate::reference::{Verdict, verdict};
use crate::stage::{Setting, Stage};
use crate::talk::PATIENCE;

const PODS: [&str; 2] = ["web-a-0", "web-b-0"];
/// Two endpoints: so often in a row the same one by chance is once in 10³⁰ times.
const ASKED_MAX: usize = 100;

#[expect(clippy::print_stderr, reason = "the test's own output, from which the summary takes the reason")]
pub(crate) fn root_real_sctp_sockets_reach_their_endpoint(setting: &Setting) {
    if std::env::var_os("PORTWAY_VM").is_none() {
        return eprintln!("skipped: it would have this kernel load SCTP; `cargo xtask test` runs it in a VM");
    }
    let web = Service::new("web", 1).on(&PODS);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    serve_without_hand_made_packets(&mut stage);
    for family in Family::ALL {
        let pods = match PODS.map(|pod| Pod::listen(stage.place(pod), family)) {
            [Some(one), Some(other)] => [one, other],
            _ => return eprintln!("skipped: this kernel has no SCTP sockets"),
        };
        for (from, target, masqueraded) in [
            ("client-a", stage.cluster_ip(&web), false),
            ("outside", stage.cluster_ip(&web), true),
            ("a", stage.cluster_ip(&web), true),
            ("outside", stage.node_port("a", &web), true),
            ("client-b", stage.node_port("a", &web), true),
        ] {
            reaches_all(&stage, &pods, from, &target, family, masqueraded);
        }
    }
}

fn serve_without_hand_made_packets(stage: &mut Stage) {
    for pod in PODS {
        stage.playground.serve(pod, &Ports { sctp: Vec::new(), ..Ports::default() }).unwrap();
    }
}

/// An endpoint that takes associations.
struct Pod {
    address: IpAddr,
    listener: TcpListener,
}

impl Pod {
    /// `None` where the kernel has no SCTP.
    fn listen(place: &Place, family: Family) -> Option<Self> {
        let at = place.at(family, 8080);
        match place.run(|| listen_sctp(at)).unwrap() {
            Ok(listener) => Some(Self { address: at.ip(), listener }),
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => None,
            Err(error) => panic!("{} cannot listen at {at} sctp: {error}", place.name()),
        }
    }
}

/// Asks until each pod has answered; each answer is as the model says.
fn reaches_all(
    stage: &Stage,
    pods: &[Pod; 2],
    from: &str,
    target: &Target,
    family: Family,
    masqueraded: bool,
) {
    let to = target.address(family);
    let verdict = verdict(stage, from, Protocol::Sctp, to, target.at());
    assert_eq!(masquerades(&verdict), Some([masqueraded; 2]), "{from} -> {to} sctp: {:?}", verdict.fate);
    let mut has_answered = [false; 2];
    for _ in 0..ASKED_MAX {
        let (pod, saw) = associate(stage, pods, from, to);
        has_answered[pod] = true;
        let client = stage.place(from).address(family);
        let is_right = if masqueraded { verdict.table.node().is_own(saw.ip()) } else { saw.ip() == client };
        assert!(is_right, "{from} -> {to} sctp: {} saw {saw}", PODS[pod]);
        if has_answered == [true; 2] {
            return;
        }
    }
    panic!("{from} -> {to} sctp: of {PODS:?} only one ever answered");
}

/// Whether each of the model's two landings is masqueraded.
fn masquerades(verdict: &Verdict) -> Option<[bool; 2]> {
    let Fate::OneOf(one_of) = &verdict.fate else { return None };
    let landings: Vec<bool> = one_of.landings.iter().map(|landing| landing.masqueraded).collect();
    landings.try_into().ok()
}

/// One association, with a word each way: which pod took it, and whom it saw.
fn associate(stage: &Stage, pods: &[Pod; 2], from: &str, to: SocketAddr) -> (usize, SocketAddr) {
    let place = stage.place(from);
    let source = place.at(Family::of(to.ip()), 0);
    stage.talk.count(Family::of(to.ip()), Protocol::Sctp, 1);
    let limit = patient(PATIENCE);
    let mut client = place
        .run(|| connect_sctp(source, to, limit))
        .unwrap()
        .unwrap_or_else(|error| panic!("{from} -> {to} sctp: {error}"));
    let ready = wait_readable(&[pods[0].listener.as_fd(), pods[1].listener.as_fd()], Some(limit)).unwrap();
    let pod =
        ready.iter().position(|ready| *ready).unwrap_or_else(|| panic!("{from} -> {to} sctp: not heard of"));
    let (mut server, saw) = pods[pod].listener.accept().unwrap();
    assert_eq!(server.local_addr().unwrap().ip(), pods[pod].address);
    assert_eq!(client.peer_addr().unwrap(), to);
    hand_over(&mut client, &mut server, b"who?", limit);
    hand_over(&mut server, &mut client, PODS[pod].as_bytes(), limit);
    (pod, saw)
}

fn hand_over(from: &mut TcpStream, to: &mut TcpStream, word: &[u8], limit: Duration) {
    from.write_all(word).unwrap();
    to.set_read_timeout(Some(limit)).unwrap();
    let mut heard = vec![0; word.len()];
    to.read_exact(&mut heard).unwrap();
    assert_eq!(heard, word);
}

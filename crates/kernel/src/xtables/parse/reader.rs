//! Reads the words of one rule, one option after the other. `None` anywhere means that the types cannot say it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::vec::IntoIter;

use ipnet::IpNet;
use model::Protocol;

use super::target;
use crate::xtables::rule::{Is, Match, Probability, Recent, Rule, SetName, Side, State, Target};

use crate::IpProtocol;

/// The modules whose options are known.
const MODULES: [&str; 8] = ["comment", "addrtype", "mark", "conntrack", "statistic", "recent", "set", "ipvs"];

/// What is read so far.
pub(super) struct Reader<'a> {
    words: IntoIter<Cow<'a, str>>,
    parts: Vec<Match>,
    target: Option<Target>,
    /// A `!` that the next option takes.
    is_negated: bool,
    /// `-m tcp` came before `-p tcp`.
    awaited: Option<IpProtocol>,
    recent: Option<RecentOptions>,
}

/// The options of one `-m recent`, which come in any order.
#[derive(Default)]
struct RecentOptions {
    list: Option<String>,
    sets: bool,
    checks: bool,
    seconds: Option<u32>,
    reap: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(words: Vec<Cow<'a, str>>) -> Self {
        let words = words.into_iter();
        Self { words, parts: Vec::new(), target: None, is_negated: false, awaited: None, recent: None }
    }

    pub(super) fn read(mut self) -> Option<Rule> {
        while let Some(word) = self.words.next() {
            match &*word {
                "!" if self.is_negated => return None,
                "!" => self.is_negated = true,
                "-m" => self.module()?,
                "-j" => self.jump()?,
                option => self.option(option)?,
            }
        }
        self.end_of_recent()?;
        let is_whole = !self.is_negated && self.awaited.is_none();
        is_whole.then_some(Rule { parts: self.parts, target: self.target })
    }

    fn option(&mut self, option: &str) -> Option<()> {
        if self.recent.is_some() && self.recent_option(option)? {
            return Some(());
        }
        self.end_of_recent()?;
        let part = match option {
            "-p" => return self.protocol(),
            "--dport" => self.port()?,
            "-s" => Match::Source(self.is(), self.net()?),
            "-d" => Match::Destination(self.is(), self.net()?),
            "-i" => Match::InInterface(self.is(), self.name()?),
            "-o" => Match::OutInterface(self.is(), self.name()?),
            "--src-type" => self.local(Side::Source)?,
            "--dst-type" => self.local(Side::Destination)?,
            "--mark" => {
                let (is, word) = (self.is(), self.word()?);
                let (value, mask) = target::mark(&word)?;
                Match::Mark { is, value, mask: mask.unwrap_or(u32::MAX) }
            }
            "--ctstate" => Match::State(self.is(), states(&self.word()?)?),
            "--match-set" => {
                let (is, name) = (self.is(), SetName::new(&self.word()?)?);
                Match::Set { is, name, sides: sides(&self.word()?)? }
            }
            "--ipvs" => (self.is() == Is::Equal).then_some(Match::Ipvs)?,
            "--comment" => Match::Comment(self.plain_word()?.into_owned()),
            "--mode" => return (self.plain_word()? == "random").then_some(()),
            "--probability" => Match::Random(Probability::parse(&self.plain_word()?)?),
            _ => return None,
        };
        self.parts.push(part);
        Some(())
    }

    /// Takes the `!` before an option.
    fn is(&mut self) -> Is {
        if std::mem::take(&mut self.is_negated) { Is::Not } else { Is::Equal }
    }

    fn word(&mut self) -> Option<Cow<'a, str>> {
        self.words.next()
    }

    /// The word of an option that cannot be negated, or not by our types.
    fn plain_word(&mut self) -> Option<Cow<'a, str>> {
        if self.is_negated { None } else { self.words.next() }
    }

    fn name(&mut self) -> Option<String> {
        self.words.next().filter(|word| is_name(word)).map(Cow::into_owned)
    }

    fn net(&mut self) -> Option<IpNet> {
        let word = self.word()?;
        word.parse().ok().or_else(|| word.parse::<IpAddr>().ok().map(IpNet::from))
    }

    fn local(&mut self, side: Side) -> Option<Match> {
        let is = self.is();
        (self.word()? == "LOCAL").then_some(Match::Local(side, is))
    }

    /// `-m NAME`. That of a protocol says only that its ports can be asked for.
    fn module(&mut self) -> Option<()> {
        self.end_of_recent()?;
        let name = self.plain_word()?;
        if let Some(protocol) = protocol_with_ports(&name) {
            if !self.has_ports_of(protocol) {
                self.awaited = Some(protocol);
            }
        } else if name == "recent" {
            self.recent = Some(RecentOptions::default());
        } else if !MODULES.contains(&&*name) {
            return None;
        }
        Some(())
    }

    fn protocol(&mut self) -> Option<()> {
        let protocol = protocol(&self.plain_word()?)?;
        let has_ports = self.awaited.take_if(|awaited| *awaited == protocol).is_some();
        self.parts.push(if has_ports { Match::Protocol(protocol) } else { Match::PlainProtocol(protocol) });
        Some(())
    }

    /// `--dport` brings the module of the protocol with it.
    fn port(&mut self) -> Option<Match> {
        let port = self.plain_word()?.parse().ok()?;
        let protocols = Protocol::ALL.map(IpProtocol::from);
        let is_known = protocols.into_iter().any(|protocol| self.has_ports_of(protocol));
        (is_known || self.awaited.is_some()).then_some(Match::DestinationPort(port))
    }

    /// Whether `-p` was read. If its module was not yet loaded, it is now, and stands here: modules are asked in their order.
    fn has_ports_of(&mut self, protocol: IpProtocol) -> bool {
        if self.parts.contains(&Match::Protocol(protocol)) {
            return true;
        }
        let plain = self.parts.iter().position(|part| *part == Match::PlainProtocol(protocol));
        if let Some(at) = plain {
            self.parts.remove(at);
            self.parts.push(Match::Protocol(protocol));
        }
        plain.is_some()
    }

    /// True if the option was one of `recent`.
    fn recent_option(&mut self, option: &str) -> Option<bool> {
        let word = match option {
            "--name" | "--seconds" | "--mask" => self.plain_word()?,
            "--set" | "--rcheck" | "--reap" | "--rsource" if !self.is_negated => Cow::Borrowed(""),
            _ => return Some(false),
        };
        let recent = self.recent.as_mut()?;
        match option {
            "--name" => recent.list = Some(word.into_owned()).filter(|word| is_name(word)),
            "--seconds" => recent.seconds = Some(word.parse().ok()?),
            "--set" => recent.sets = true,
            "--rcheck" => recent.checks = true,
            "--reap" => recent.reap = true,
            "--rsource" => {}
            _ => return is_whole_mask(&word).then_some(true),
        }
        Some(true)
    }

    fn end_of_recent(&mut self) -> Option<()> {
        let Some(options) = self.recent.take() else { return Some(()) };
        let list = options.list?;
        let recent = match (options.sets, options.checks, options.seconds) {
            (true, false, None) if !options.reap => Recent::Set { list },
            (false, true, Some(seconds)) => Recent::Check { list, seconds, reap: options.reap },
            _ => return None,
        };
        self.parts.push(Match::Recent(recent));
        Some(())
    }

    fn jump(&mut self) -> Option<()> {
        self.end_of_recent()?;
        let name = self.plain_word()?;
        // What follows a target belongs to it, except that our own text ends there.
        let options: Vec<&str> = self.words.as_slice().iter().map(|word| &**word).collect();
        self.target = Some(target::read(&name, &options)?);
        self.words = Vec::new().into_iter();
        Some(())
    }
}

fn states(text: &str) -> Option<BTreeSet<State>> {
    text.split(',').map(|name| State::ALL.into_iter().find(|state| state.name() == name)).collect()
}

/// At most as many as the parts of an entry.
fn sides(text: &str) -> Option<Vec<Side>> {
    let side = |name| match name {
        "src" => Some(Side::Source),
        "dst" => Some(Side::Destination),
        _ => None,
    };
    text.split(',').map(side).collect::<Option<Vec<_>>>().filter(|sides| sides.len() <= 6)
}

fn protocol_with_ports(name: &str) -> Option<IpProtocol> {
    Protocol::ALL.into_iter().find(|protocol| protocol.name() == name).map(IpProtocol::from)
}

fn protocol(name: &str) -> Option<IpProtocol> {
    protocol_with_ports(name).or_else(|| match name {
        "icmp" => Some(IpProtocol::ICMP),
        "ipv6-icmp" | "icmpv6" => Some(IpProtocol::ICMPV6),
        // Zero stands for all of them.
        number => number.parse().ok().filter(|number| *number != 0).map(IpProtocol),
    })
}

/// Whether it can be printed without quotes, as names are.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
}

fn is_whole_mask(text: &str) -> bool {
    matches!(text, "255.255.255.255" | "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
}

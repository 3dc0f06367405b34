//! A scenario file → [`Scenario`], or what is wrong with it, by file and line.
//!
//! A line that begins in the first column is a step; the indented lines below belong to it. `#` begins a comment. The
//! first line is a comment too: one sentence, what the user sees. The words are explained in `scenarios/README.md`.

mod objects;
mod words;

use std::ops::Range;
use std::path::Path;

use model::{Config, Packet};

use crate::step::{Action, Question, Scenario, Step};

/// Reads the file at `path`, whose text is `text`.
pub(crate) fn scenario(path: &Path, text: &str) -> Result<Scenario, String> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let sentence = lines.first().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
    if !sentence.ends_with('.') {
        return Err(format!(
            "{}:1: must be a comment of one sentence: `# What the user sees.`",
            path.display()
        ));
    }
    let mut reader = Reader::default();
    let mut steps = Vec::new();
    for (at, body) in steps_of(&lines) {
        let body_lines: Vec<&str> = lines[body.clone()].iter().map(String::as_str).collect();
        let actions = reader
            .step(without_comment(&lines[at]).trim(), &body_lines)
            .map_err(|problem| format!("{}:{}: {problem}", path.display(), at + 1))?;
        steps.extend(actions.into_iter().map(|action| Step { line: at + 1, body: body.clone(), action }));
    }
    Ok(Scenario { path: path.into(), config: reader.config, lines, steps })
}

/// The index of each line that begins a step, and the range of those that belong to it.
fn steps_of(lines: &[String]) -> Vec<(usize, Range<usize>)> {
    let is_step = |line: &String| line.starts_with(|c: char| !c.is_whitespace() && c != '#');
    let is_body = |line: &String| line.starts_with(char::is_whitespace) && !line.trim().is_empty();
    let starts = (0..lines.len()).filter(|&at| is_step(&lines[at]));
    starts
        .map(|at| {
            let body = lines[at + 1..].iter().take_while(|line| is_body(line)).count();
            (at, at + 1..at + 1 + body)
        })
        .collect()
}

/// A `#` begins a comment at the start of a word only: it may stand inside of one.
fn without_comment(line: &str) -> &str {
    line.find(" #").map_or(line, |at| &line[..at])
}

/// What the lines so far mean for those to come.
#[derive(Default)]
struct Reader {
    config: Config,
    promises: model::Promises,
    last_packet: Option<Packet>,
    has_begun: bool,
}

impl Reader {
    fn step(&mut self, line: &str, body: &[&str]) -> Result<Vec<Action>, String> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if word == "config" {
            self.configure(rest)?;
            return Ok(Vec::new());
        }
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if is_first != (word == "node") && self.config.node_name.is_empty() {
            return Err("the first step must be `node NAME ip=ADDRESS`, which is this node".into());
        }
        let action = match word {
            "node" => return self.node(rest),
            "service-cidr" => Action::Apply(vec![objects::service_cidr(rest)?]),
            "apply" => Action::Apply(objects::from_yaml(body)?),
            "endpoints" => Action::Apply(vec![objects::endpoints(rest)?]),
            "pods" => Action::Apply(vec![objects::pods(rest)?]),
            "delete" => Action::Tell(words::deletion(rest)?),
            "promise" => {
                words::promises(rest, &mut self.promises)?;
                Action::Promise(Box::new(self.promises))
            }
            "packet" => self.question(rest, body)?,
            "again" => self.again(rest)?,
            "after" => Action::After(words::seconds(rest)?),
            "stale" => Action::Stale(content(body).map(words::stale_flows).collect::<Result<_, _>>()?),
            "vanished" => {
                Action::Vanished(content(body).map(words::vanished_flows).collect::<Result<_, _>>()?)
            }
            "report" if rest.is_empty() => return Err("`report` needs words that the report has".into()),
            "report" => Action::Report(rest.split_whitespace().map(str::to_owned).collect()),
            "no" if rest == "reports" => Action::NoReports,
            "health" => words::health(rest)?,
            _ => return Err(format!("unknown step `{line}`: see scenarios/README.md")),
        };
        Ok(vec![action])
    }

    fn configure(&mut self, rest: &str) -> Result<(), String> {
        if self.has_begun {
            return Err(
                "`config` must come before all other steps: it is constant for the life of a process".into(),
            );
        }
        words::configure(rest, &mut self.config)
    }

    fn node(&mut self, rest: &str) -> Result<Vec<Action>, String> {
        let node = objects::node(rest)?;
        self.config.node_name.clone_from(&node.name);
        Ok(vec![
            Action::Apply(vec![node.object]),
            Action::Tell(model::Event::LocalAddresses(node.local_addresses)),
        ])
    }

    fn question(&mut self, rest: &str, body: &[&str]) -> Result<Action, String> {
        let packet = words::packet(rest)?;
        let (because, landings): (Vec<_>, Vec<_>) =
            content(body).partition(|line| line.starts_with("because "));
        let because = because.iter().filter_map(|line| line.strip_prefix("because ")).map(str::to_owned);
        self.last_packet = Some(packet.clone());
        Ok(Action::Ask(Question { packet, expected: words::outcome(&landings)?, because: because.collect() }))
    }

    fn again(&mut self, rest: &str) -> Result<Action, String> {
        let mut packet = self.last_packet.clone().ok_or("`again` needs a `packet` before it")?;
        if let Some(destination) = rest.strip_prefix("-> ") {
            (packet.destination, packet.payload) = words::destination(destination)?;
        } else if !rest.is_empty() {
            return Err(format!("`again` is followed by nothing or by `-> DESTINATION`, not by `{rest}`"));
        }
        Ok(Action::Again(packet))
    }
}

/// The lines of a body that say something.
fn content<'a>(body: &'a [&str]) -> impl Iterator<Item = &'a str> {
    body.iter()
        .map(|line| without_comment(line).trim())
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

//! `portway doctor`: what on this host stops packets of Services, outside of our rules.

use std::fmt::Write as _;

use clap::Args;
use dataplane::checks::{Finding, Severity};
use dataplane::{ModeSettings, programs};
use observe::doctor::{Doctor, Examined, FindingStatus, Sample};
use serde_json::{Value, json};

use super::args::Shared;
use super::format::{self, Structured};
use super::mode::{ModeArgs, ModeChoice};
use super::output::Paint;
use super::said::{Failure, Said};
use super::table::{Table, printable};
use super::values::Words;
use super::view::View;

const EXAMPLES: &str = "\
Examples:
  portway doctor                       what the running portway was told, on this host
  portway doctor -o json
  portway doctor --from /etc/portway   before portway runs here

An *error* names a packet that is lost; *possible* is what may lose packets. Needs root to read firewall rules.
Exit codes: 0 no error, 1 an error, 2 the command line is malformed.";

/// `portway doctor`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    mode: ModeArgs,

    /// The answer for a program
    #[arg(short, long, value_name = "FORMAT", value_parser = Words::<Structured>::called("format"))]
    output: Option<Structured>,
}

/// Runs `portway doctor`.
pub(super) fn run(args: &DoctorArgs, shared: &Shared, paint: Paint) -> Result<Said, Failure> {
    let ModeChoice { settings, config, mut warnings, .. } = args.mode.choose(shared)?;
    let View { picture, .. } = View::open_on_host(shared, config.as_ref())?;
    let doctor = doctor(&settings);
    let examined = doctor.examine(&Sample::of(&picture, true));
    let text = match args.output {
        Some(format) => format::value(&value(&doctor, &examined), format)?,
        None => show(&doctor, &examined, paint),
    };
    let warning = |what: &String| format!("cannot be read, so its checks say nothing: {}", printable(what));
    warnings.extend(examined.unread.iter().map(warning));
    let found_wrong = examined.findings.iter().any(|finding| finding.severity == Severity::Error);
    Ok(Said { text, warnings, found_wrong })
}

/// The checks of this mode.
pub(super) fn doctor(settings: &ModeSettings) -> Doctor {
    Doctor {
        mode: settings.mode,
        program: programs::chosen(&settings.own),
        masquerade_bit: settings.masquerade_bit,
        promises: settings.semantics(),
    }
}

fn status_of<'a>(name: &str, findings: &'a [Finding]) -> Option<&'a Finding> {
    findings.iter().find(|finding| finding.check == name)
}

fn show(doctor: &Doctor, examined: &Examined, paint: Paint) -> String {
    let mut table = Table::new(["CHECK", "STATUS", "QUESTION"]);
    for check in doctor.mode.checks() {
        let status =
            status_of(check.name, &examined.findings).map_or("ok", |finding| finding.severity.name());
        table.push([check.name, status, check.question].map(str::to_owned));
    }
    let mut text = format!("{table}\n");
    for finding in &examined.findings {
        let title = format!("{}: {}", finding.severity.name(), finding.check);
        let title =
            if finding.severity == Severity::Error { paint.bad(&title) } else { paint.doubtful(&title) };
        let (cause, traffic, fix) =
            (printable(&finding.cause), printable(&finding.traffic), printable(&finding.fix));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{title}\n  {cause}\n  affected: {traffic}\n  fix:      {fix}\n");
    }
    let count = |severity| examined.findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, possible, packets) = (count(Severity::Error), count(Severity::Possible), examined.packets);
    let tried = format!("{packets} example packets, mode {}", doctor.mode);
    let _ = match (errors, possible) {
        (0, 0) => {
            writeln!(text, "{} ({tried}).", paint.good("Nothing on this host stops traffic of Services"))
        }
        _ => writeln!(text, "{errors} errors, {possible} possible ({tried})."),
    };
    text
}

fn value(doctor: &Doctor, examined: &Examined) -> Value {
    let check = |check: &dataplane::checks::Check| {
        let status =
            status_of(check.name, &examined.findings).map_or("ok", |finding| finding.severity.name());
        json!({ "name": check.name, "question": check.question, "traffic": check.traffic, "status": status })
    };
    json!({
        "mode": doctor.mode.name(),
        "packets": examined.packets,
        "checks": doctor.mode.checks().map(check).collect::<Vec<_>>(),
        "findings": examined.findings.iter().map(FindingStatus::from).collect::<Vec<_>>(),
        "unread": examined.unread,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{ColorWhen, LogFormat};
    use crate::output::Output;

    fn finding(check: &'static str, severity: Severity) -> Finding {
        let text = |text: &str| text.to_owned();
        Finding {
            severity,
            check,
            cause: text("it is 0"),
            traffic: text("a pod"),
            fix: text("sysctl -w a=1"),
        }
    }

    fn shown(findings: Vec<Finding>) -> (String, Value) {
        let doctor = doctor(&ModeSettings::default());
        let examined = Examined { findings, packets: 3, unread: Vec::new() };
        let paint = Output::new(ColorWhen::Never, LogFormat::Text).paint();
        (show(&doctor, &examined, paint), value(&doctor, &examined))
    }

    #[test]
    fn a_host_without_trouble_is_told_so() {
        let (text, value) = shown(Vec::new());
        assert!(
            text.ends_with(
                "Nothing on this host stops traffic of Services (3 example packets, mode nftables).\n"
            ),
            "{text}"
        );
        assert!(
            value["checks"].as_array().is_some_and(|all| all.iter().all(|check| check["status"] == "ok")),
            "{value}"
        );
    }

    #[test]
    fn a_finding_is_shown_with_its_packet_and_the_command_that_fixes_it() {
        let (text, value) =
            shown(vec![finding("ip-forward", Severity::Error), finding("tcp-loose", Severity::Possible)]);
        assert!(
            text.contains("error: ip-forward\n  it is 0\n  affected: a pod\n  fix:      sysctl -w a=1\n"),
            "{text}"
        );
        assert!(text.ends_with("1 errors, 1 possible (3 example packets, mode nftables).\n"), "{text}");
        assert_eq!(value["findings"][0]["severity"], "error");
        assert_eq!(value["findings"][1]["fix"], "sysctl -w a=1");
    }
}

//! The stage of `cargo xtask demo`: portway at work on real packets, in a playground of network namespaces.
//!
//! In: `demo PORTWAY EXAMPLES [--once]`, a built portway and a folder of manifests; root.
//! Out: for each scene who answered how often, beside what `portway explain` says of the same packet.
//! Exit code 1 when anything was not as explained. Without `--once` it stays until Ctrl-C.
//!
//! | file | what it holds |
//! |---|---|
//! | `facts` | the Pods and Nodes of the manifests |
//! | `stage`, `server` | the playground furnished as the manifests say; a server in each Pod |
//! | `portway`, `explained` | the program under show; its answer about a packet |
//! | `scenes`, `play`, `scale` | what is shown, as data; how a scene is played; an endpoint that comes and goes |
//! | `screen`, `chart` | how it looks |
//! | `folder`, `stay` | where files lie meanwhile; the time until Ctrl-C |
//!
//! Nothing of the machine's own network is touched, and nothing stays, however this ends: the namespaces and
//! the programs in them go with this process, and a broom waits for its end to remove the folder.

mod chart;
mod explained;
mod facts;
mod folder;
mod play;
mod portway;
mod scale;
mod scenes;
mod screen;
mod server;
mod stage;
mod stay;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use kernel::signal::Termination;

use facts::Facts;
use folder::Folder;
use portway::Portway;
use screen::Screen;
use stage::Stage;

fn main() -> ExitCode {
    let screen = Screen::new();
    match run(&screen) {
        Ok(()) if screen.failures() == 0 => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            screen.wrong(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(screen: &Screen) -> Result<()> {
    let arguments = Arguments::read(std::env::args().skip(1))?;
    // Before any thread is started, so that all of them leave signals to the one that waits for them.
    let termination = Termination::block().context("cannot hear signals")?;
    let folder = Folder::create(&arguments.examples)?;
    stay::end_on_signal(termination, folder.path().to_owned());
    let portway = Portway::new(arguments.portway, folder.path());
    let show = set_up(screen, &portway)?;
    for scene in scenes::SCENES {
        play::play(screen, &show, scene)?;
    }
    scale::play(screen, &show)?;
    play::show_rules(screen, &show)?;
    sum_up(screen);
    if !arguments.is_once {
        stay::until_interrupted(screen, &show)?;
    }
    Ok(())
}

/// All that a scene needs.
pub(crate) struct Show<'a> {
    stage: Stage,
    portway: &'a Portway,
    /// The portway of each node; they end with this.
    running: Vec<playground::Process>,
}

fn set_up<'a>(screen: &Screen, portway: &'a Portway) -> Result<Show<'a>> {
    let facts = Facts::read(portway)?;
    screen.progress(&format!("Building two nodes and {} pods out of network namespaces", facts.pods.len()));
    let stage = Stage::build(&facts)
        .context("the playground cannot be built (it needs root, with CAP_SYS_ADMIN and CAP_NET_ADMIN)")?;
    screen.done();
    screen.progress("Starting portway on both");
    let nodes = stage.playground().nodes();
    let running = nodes.iter().map(|node| portway.run_on(node)).collect::<Result<_>>()?;
    screen.done();
    screen.plain("Nothing here touches the machine's own network, and nothing stays.");
    show_services(screen, portway)?;
    Ok(Show { stage, portway, running })
}

fn show_services(screen: &Screen, portway: &Portway) -> Result<()> {
    screen.heading(
        "The Services",
        "They come from the files in examples/; portway gave out what they left open.",
    );
    screen.command("portway get services -A");
    screen.block(&portway.ask("a", "get services -A")?);
    Ok(())
}

fn sum_up(screen: &Screen) {
    screen.plain("");
    match screen.failures() {
        0 => screen.fine("Everything went where `portway explain` said it would."),
        1 => screen.plain("One thing was not as it should be: see ✗ above."),
        count => screen.plain(&format!("{count} things were not as they should be: see ✗ above.")),
    }
}

struct Arguments {
    portway: PathBuf,
    examples: PathBuf,
    is_once: bool,
}

impl Arguments {
    fn read(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let (options, paths): (Vec<_>, Vec<_>) = arguments.partition(|argument| argument.starts_with('-'));
        let [portway, examples] = paths.as_slice() else {
            bail!("usage: demo PORTWAY EXAMPLES [--once]; `cargo xtask demo` knows the paths");
        };
        if let Some(option) = options.iter().find(|option| *option != "--once") {
            bail!("unknown option `{option}`: there is `--once` alone");
        }
        // The scripts for the reader run from anywhere.
        let portway = std::path::absolute(portway).with_context(|| format!("cannot find `{portway}`"))?;
        Ok(Self { portway, examples: examples.into(), is_once: !options.is_empty() })
    }
}

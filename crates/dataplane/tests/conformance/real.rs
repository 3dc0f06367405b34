//! A mode follows random clusters on the real kernel, with real programs, as on the simulated one; and nothing stays.

use std::process::Command;

use dataplane::registry::known_chains;
use dataplane::sim::{Listing, RealMode, difference};
use dataplane::{ModeSettings, Scope};
use playground::namespace::Namespace;

use crate::common::{Simulation, from_scratch, settle, sync};
use crate::world::World;

/// How many clusters, and how many steps of each: what a kernel does by itself is quick, what programs do is not, and a VM is slow.
fn extent(simulation: &Simulation) -> (u64, usize) {
    match simulation.modules() {
        [] if simulation.is_alone => (8, 40),
        [] => (3, 15),
        _ => (2, 4),
    }
}

pub(crate) fn the_real_kernel_follows_random_steps_as_the_simulated_one(simulation: &Simulation) {
    if !simulation.modules().is_empty() && std::env::var_os("PORTWAY_VM").is_none() {
        return eprintln!("skipped: it needs the VM's kernel: `cargo xtask vm --smoke`");
    }
    for module in simulation.modules() {
        assert!(Command::new("modprobe").arg(module).status().unwrap().success(), "{module}");
    }
    let ((clusters, steps), mut restarts) = (extent(simulation), 0);
    for seed in 0..clusters {
        let Some(namespace) = Namespace::create_or_skip() else { return };
        match namespace.run(|| follow(simulation, seed, steps)).unwrap() {
            Ok(count) => restarts += count,
            Err(why) => return eprintln!("skipped: {}: {why}", simulation.name),
        }
    }
    let steps = steps * usize::try_from(clusters).unwrap();
    let name = &simulation.name;
    eprintln!("counted: {steps} random steps of {name} on the real kernel as simulated, {restarts} restarts");
}

/// How often another process went on; the error says why it cannot be tried here.
fn follow(simulation: &Simulation, seed: u64, steps: usize) -> Result<usize, String> {
    let (settings, mut restarts) = (ModeSettings::of(simulation.mode), 0);
    let mut node = simulation.mode.simulate(&settings).swap_remove(simulation.place);
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let mut real = node.real(0)?;
    let mut world = World::new(seed ^ 0xc0de);
    let same = |real: &mut dyn RealMode, listing: Listing, when: &str| {
        assert_eq!(difference(&real.listing().unwrap(), &listing), "", "{}, {when}", simulation.name);
    };
    for step in 0..steps {
        let when = format!("seed {seed}, step {step}");
        let ids = world.step().before.into_keys().collect();
        let refused = real.dataplane().sync(&world.table, Scope::Changed(&ids)).unwrap().refused;
        assert_eq!(refused, sync(&mut *node, &world.table, Scope::Changed(&ids)).refused, "{when}");
        // Where time does not count, deletions wait for every second step.
        if !simulation.is_alone || step.is_multiple_of(2) {
            real.dataplane().settle().unwrap();
            settle(&mut *node);
        }
        same(&mut *real, node.listing_as_real().unwrap(), &when);
        // The process is killed. The next one finds everything as it is to be, and goes on.
        if step.is_multiple_of(4) {
            (real, node) = (node.real(step + 1)?, node.restart(&settings));
            let synced = real.dataplane().sync(&world.table, Scope::Everything).unwrap();
            assert_eq!(synced.operations, 0, "{when}");
            assert_eq!(sync(&mut *node, &world.table, Scope::Everything).operations, 0, "{when}");
            restarts += 1;
        }
    }
    real.dataplane().settle().unwrap();
    let when = format!("seed {seed}");
    same(&mut *real, from_scratch(&*node, &world.table).listing_as_real().unwrap(), &when);
    assert_eq!(real.dataplane().differences(&world.table).unwrap(), Vec::<String>::new(), "{when}");
    let synced = real.dataplane().sync(&world.table, Scope::Everything).unwrap();
    assert_eq!((synced.operations, synced.settle_after), (0, None), "{when}");
    real.clean_up(known_chains()).unwrap();
    node.clean_up(known_chains()).unwrap();
    same(&mut *real, node.listing_as_real().unwrap(), &format!("seed {seed}, after a cleanup"));
    Ok(restarts)
}

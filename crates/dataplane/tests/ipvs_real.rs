//! IPVS mode on a real kernel that has it: what is written is read back as on the twin, by both iptables programs; and nothing stays.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod iptables_guides;
mod ipvs_ends;
mod world;

mod needs_vm {
    use dataplane::registry::known_chains;
    use std::collections::BTreeSet;
    use std::process::Command;
    use std::time::Duration;

    use dataplane::ipvs::{Doors, Ipvs, Kernel, Options};
    use dataplane::{Dataplane, Scope};
    use kernel::xtables::{Programs, Variant, Xtables as _};
    use kernel::{host, ipset, ipvs, sysctl};
    use playground::namespace::Namespace;
    use serde_json::json;

    use super::iptables_guides::{plain, service, slice, table};
    use super::ipvs_ends::{mode, shown};
    use super::world::World;

    type Real = Kernel<ipvs::Netlink, ipset::Netlink, host::ThisMachine, sysctl::ThisMachine>;

    /// Runs a program in this thread's namespace; what it says.
    fn run(program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Does something in a namespace of a kernel that has IPVS; not at all where there is none.
    fn in_a_namespace(work: impl FnOnce() + Send) {
        if std::env::var_os("PORTWAY_VM").is_none() {
            eprintln!("skipped: it needs the VM's kernel: `cargo xtask vm --smoke`");
            return;
        }
        run("modprobe", &["ip_vs"]);
        let namespace = Namespace::create().unwrap();
        namespace
            .run(|| {
                run("ip", &["link", "set", "lo", "up"]);
                work();
            })
            .unwrap();
    }

    fn real(variant: Variant) -> Ipvs<Programs, Real> {
        let programs = Programs::find().programs.into_iter().filter(|program| program.variant() == variant);
        let doors = Kernel {
            servers: ipvs::Netlink::open().unwrap(),
            sets: ipset::Netlink::open().unwrap(),
            host: host::ThisMachine,
            settings: sysctl::ThisMachine,
        };
        Ipvs::new(programs.collect::<Vec<_>>(), doors, Options::default(), || Duration::ZERO)
    }

    fn held(doors: &mut dyn Doors) -> BTreeSet<String> {
        shown(doors)
            .into_iter()
            .filter(|line| !line.starts_with("PORTWAY-FORMER") && !line.starts_with("lo "))
            .collect()
    }

    #[test]
    fn root_a_real_kernel_holds_what_the_twin_holds_and_nothing_stays() {
        in_a_namespace(|| {
            let mut steps = 0;
            for (seed, variant) in [(3, Variant::Nft), (4, Variant::Legacy)] {
                let (mut world, mut real, mut twin) = (World::new(seed), real(variant), mode(variant));
                for _ in 0..4 {
                    let ids: BTreeSet<_> = world.step().before.into_keys().collect();
                    let synced = real.sync(&world.table, Scope::Changed(&ids)).unwrap();
                    assert!(synced.refused.is_empty(), "{:?}", synced.refused);
                    twin.sync(&world.table, Scope::Changed(&ids)).unwrap();
                    real.settle().unwrap();
                    twin.settle().unwrap();
                    let (here, there) = (held(real.doors()), held(twin.doors()));
                    let difference: Vec<_> = here.symmetric_difference(&there).collect();
                    assert!(difference.is_empty(), "{variant}, seed {seed}: {difference:#?}");
                    let differences = real.differences(&world.table).unwrap();
                    assert!(differences.is_empty(), "{variant}, seed {seed}: {differences:#?}");
                    assert_eq!(real.sync(&world.table, Scope::Everything).unwrap().operations, 0);
                    steps += 1;
                }
                real.cleanup(known_chains()).unwrap();
                assert_eq!(held(real.doors()), BTreeSet::new());
            }
            eprintln!(
                "counted: {steps} changes of IPVS mode read back from the real kernel as from the twin"
            );
        });
    }

    #[test]
    fn root_ipvsadm_shows_the_documents_example() {
        in_a_namespace(|| {
            let spec = json!({"clusterIPs": ["10.10.0.1"], "ports": [{"port": 8410}]});
            let pods = ["10.2.17.53", "10.2.17.54"];
            let slice = slice("default", "web", &json!([{"port": 12_345}]), &pods);
            let table = table(plain(), &[service("default", "web", &spec), slice]);
            let mut real = real(Variant::Nft);
            real.sync(&table, Scope::Everything).unwrap();
            assert_eq!(run("cat", &["/proc/sys/net/ipv4/vs/conntrack"]).trim(), "1");
            let Ok(output) = Command::new("ipvsadm").arg("-Ln").output() else {
                eprintln!("skipped: the program `ipvsadm` is not installed");
                return;
            };
            let text = String::from_utf8(output.stdout).unwrap();
            eprintln!("{text}");
            let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
            let (_, readme) = include_str!("../src/ipvs/README.md").split_once("IP Virtual Server").unwrap();
            let (shown, _) = readme.split_once("```").unwrap();
            assert_eq!(lines(&text), lines(&format!("IP Virtual Server{shown}")), "the README shows another");
            real.cleanup(known_chains()).unwrap();
            assert_eq!(run("cat", &["/proc/sys/net/ipv4/vs/conntrack"]).trim(), "0", "it is as it was");
        });
    }
}

//! IPVS mode on a real kernel that has it, as `ipvsadm` shows it.

mod needs_vm {
    use std::process::Command;

    use dataplane::ipvs::handles;
    use kernel::xtables::{Programs, Variant};
    use playground::namespace::Namespace;

    use crate::*;
    use dataplane::sim::cluster::table_of;

    /// Runs a program in this thread's namespace; what it says.
    fn run(program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn root_ipvsadm_shows_the_documents_example() {
        if std::env::var_os("PORTWAY_VM").is_none() {
            return eprintln!("skipped: it needs the VM's kernel: `cargo xtask vm --smoke`");
        }
        run("modprobe", &["ip_vs"]);
        Namespace::create().unwrap().run(shows_the_example).unwrap();
    }

    fn shows_the_example() {
        run("ip", &["link", "set", "lo", "up"]);
        let table = table_of("svc web 10.10.0.1 8410\nep web 12345 10.2.17.53 10.2.17.54");
        let programs = Programs::find().programs.into_iter().filter(|one| one.variant() == Variant::Nft);
        let clock = || Duration::ZERO;
        let mut real = dataplane::ipvs::Ipvs::new(programs, handles().unwrap(), Options::default(), clock);
        real.sync(&table, Scope::Everything).unwrap();
        assert_eq!(run("cat", &["/proc/sys/net/ipv4/vs/conntrack"]).trim(), "1");
        let Ok(output) = Command::new("ipvsadm").arg("-Ln").output() else {
            return eprintln!("skipped: the program `ipvsadm` is not installed");
        };
        let text = String::from_utf8(output.stdout).unwrap();
        eprintln!("{text}");
        let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        let (_, readme) = include_str!("../../src/ipvs/README.md").split_once("IP Virtual Server").unwrap();
        let (shown, _) = readme.split_once("```").unwrap();
        assert_eq!(lines(&text), lines(&format!("IP Virtual Server{shown}")), "the README shows another");
        real.cleanup(known_chains()).unwrap();
        assert_eq!(run("cat", &["/proc/sys/net/ipv4/vs/conntrack"]).trim(), "0", "it is as it was");
    }
}

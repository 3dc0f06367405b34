//! Settings of this machine and simulated ones answer alike.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

use kernel::sysctl::{Sysctls, ThisMachine};
use kernel_sim::sysctl::Simulated;

/// What is there, what is not, and what cannot be written: on both.
fn walk(settings: &mut impl Sysctls) {
    assert_eq!(settings.read("kernel/ostype").unwrap().as_deref(), Some("Linux"));
    assert_eq!(settings.read("kernel/no-such-setting").unwrap(), None);
    let error = settings.write("kernel/no-such-setting", "1").unwrap_err();
    let said = error.to_string();
    assert!(said.contains("`/proc/sys/kernel/no-such-setting` cannot be set to `1`"), "{said}");
}

#[test]
fn settings_are_read_and_missing_ones_are_told() {
    walk(&mut ThisMachine);
    walk(&mut Simulated::new([("kernel/ostype", "Linux")]));
}

mod needs_root {
    use playground::namespace::Namespace;

    use super::*;

    const NAME: &str = "net/ipv4/ip_default_ttl";

    #[test]
    fn root_settings_below_net_are_the_namespaces_own() {
        let Ok(namespace) = Namespace::create() else {
            return eprintln!("skipped: a network namespace of its own needs root");
        };
        let outside = ThisMachine.read(NAME).unwrap();
        let inside = namespace.run(|| {
            ThisMachine.write(NAME, "77").unwrap();
            ThisMachine.read(NAME).unwrap()
        });
        assert_eq!(inside.unwrap().as_deref(), Some("77"));
        assert_eq!(ThisMachine.read(NAME).unwrap(), outside);
    }
}

//! A file that changes: what counts at once, what waits, what has no effect, and what is told of it.

use super::super::kind::Kind;
use super::*;

const HEAD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn reload(text: &str, before: Before) -> Reload {
    let text = format!("{HEAD}{text}");
    let chosen = choose(&Given::default(), Some(&text)).expect("it is right");
    let which = Which { usual: dataplane::iptables::MODE, forced: None };
    let told = notices(&chosen.document, dataplane::nftables::MODE);
    let loaded = Loaded { document: chosen.document, text: Some(text), said: chosen.said, warnings: told };
    Reload::new(&loaded, Path::new("f"), &Given::default(), before, which, |_| ())
}

#[test]
fn what_is_safe_counts_at_once_and_the_rest_waits_for_a_restart() {
    let mut reload = reload("mode: nftables\n", Before::default());
    let looked = reload.take(format!(
        "{HEAD}mode: nftables\nnodePortAddresses: [primary]\nnftables: {{ masqueradeAll: true, syncPeriod: 7s }}\n\
         logging: {{ verbosity: 4 }}\nclusterCIDR: 10.0.0.0/8\n"
    ));
    let live = looked.live.expect("something may change");
    assert_eq!(live.pace.sync_period, Duration::from_secs(7));
    assert_eq!(live.pace.min_sync_period, Duration::from_millis(50));
    assert!(live.packets.masquerade_all);
    assert_eq!(live.packets.node_port_addresses, [NodePortAddress::Primary]);
    assert_eq!(looked.level, Some(LevelFilter::DEBUG));
    for name in ["logging.verbosity", "nftables.masqueradeAll", "nftables.syncPeriod", "nodePortAddresses"] {
        assert!(looked.said[0].contains(&format!("`{name}`")), "{:?}", looked.said);
    }
    assert_eq!(looked.warned, ["the config file has changed; restart to bring into force: `clusterCIDR`"]);
    let back = reload.take(format!("{HEAD}mode: nftables\n"));
    assert!(back.said[0].contains("`nodePortAddresses`") && back.warned.is_empty(), "{back:?}");
}

#[test]
fn a_broken_file_changes_nothing_and_says_why() {
    let mut reload = reload("mode: nftables\n", Before::default());
    let looked = reload.take(format!("{HEAD}mode: nftables\noomScoreAdj: 5000\n"));
    assert_eq!((looked.live, looked.level), (None, None));
    assert!(looked.warned[0].contains("all stays as it was"), "{:?}", looked.warned);
    assert!(looked.warned[0].contains("KubeProxyConfiguration.oomScoreAdj"), "{:?}", looked.warned);
    assert!(
        reload.standing.refused.as_ref().is_some_and(|why| why.contains("oomScoreAdj")),
        "the status tells it"
    );
    let half = reload.take("mode: [".to_owned());
    assert!(half.live.is_none() && half.warned[0].contains("line 1"), "{half:?}");
    let right = reload.take(format!("{HEAD}mode: nftables\n"));
    assert_eq!(right, Looked::default(), "back to what is in force: nothing to tell");
    assert_eq!(reload.standing, ConfigStatus::default());
}

#[test]
fn another_mode_waits_and_the_pace_is_that_of_the_mode_in_force() {
    let mut reload = reload("mode: nftables\n", Before::default());
    let looked = reload
        .take(format!("{HEAD}mode: ipvs\nnftables: {{ syncPeriod: 9s }}\nipvs: {{ syncPeriod: 3s }}\n"));
    assert_eq!(looked.live.expect("a period has changed").pace.sync_period, Duration::from_secs(9));
    assert!(
        looked.warned[0].ends_with("restart to bring into force: `mode`, `ipvs.syncPeriod`"),
        "{:?}",
        looked.warned
    );
    assert_eq!(reload.standing.waiting, ["mode", "ipvs.syncPeriod"]);
}

#[test]
fn what_the_command_line_says_goes_before_the_file() {
    let before = Before {
        sync_period: Some(Duration::from_secs(2)),
        node_port_addresses: vec![NodePortAddress::All],
        over: over_fields(&["sync-period", "nodeport-addresses"].map(str::to_owned)),
        ..Before::default()
    };
    let mut reload = reload("mode: nftables\n", before);
    let looked = reload.take(format!(
        "{HEAD}mode: nftables\nnodePortAddresses: [primary]\nnftables: {{ syncPeriod: 9s }}\n"
    ));
    assert_eq!((looked.live, looked.said), (None, Vec::new()), "nothing is said to be in force that is not");
    assert_eq!(
        looked.warned,
        [
            "the config file has changed; without effect: `nftables.syncPeriod` (--sync-period goes before it), `nodePortAddresses` \
          (--nodeport-addresses goes before it)"
        ]
    );
    let looked = reload.take(format!("{HEAD}mode: nftables\nnftables: {{ masqueradeAll: true }}\n"));
    let live = looked.live.expect("another field has changed");
    assert_eq!(live.pace.sync_period, Duration::from_secs(2));
    assert_eq!(live.packets.node_port_addresses, [NodePortAddress::All]);
}

#[test]
fn what_is_of_another_mode_has_no_effect_and_is_told_as_such() {
    let mut reload = reload("mode: nftables\n", Before::default());
    let looked = reload.take(format!(
        "{HEAD}mode: nftables\niptables: {{ syncPeriod: 9s, masqueradeBit: 3 }}\nipvs: {{ scheduler: lc }}\n"
    ));
    assert_eq!((looked.live, looked.said), (None, Vec::new()));
    assert_eq!(
        looked.warned,
        [
            "the config file has changed; without effect: `iptables.masqueradeBit` (the mode is nftables), `iptables.syncPeriod` (the \
          mode is nftables), `ipvs.scheduler` (the mode is nftables)"
        ]
    );
}

#[test]
fn what_a_detour_over_another_mode_changed_waits_for_a_restart() {
    let mut reload = reload("mode: ipvs\nipvs: { scheduler: rr }\n", Before::default());
    let away = reload.take(format!("{HEAD}mode: nftables\nipvs: {{ scheduler: lc }}\n"));
    assert_eq!(
        away.warned[..2],
        [
            "the config file has changed; restart to bring into force: `mode`",
            "the config file has changed; without effect: `ipvs.scheduler` (the mode is nftables)"
        ]
    );
    let back = reload.take(format!("{HEAD}mode: ipvs\nipvs: {{ scheduler: lc }}\n"));
    assert!(
        back.warned[0].ends_with("restart to bring into force: `ipvs.scheduler`"),
        "the kernel still has rr: {back:?}"
    );
    assert_eq!(reload.standing.waiting, ["ipvs.scheduler"]);
}

#[test]
fn the_mode_that_runs_may_be_written_down() {
    for usual in [dataplane::iptables::MODE, dataplane::nftables::MODE] {
        let mut reload = reload("", Before::default());
        reload.which.usual = usual;
        let looked = reload.take(format!("{HEAD}mode: {usual}\n"));
        assert!(!looked.warned.iter().any(|line| line.contains("restart")), "{looked:?}");
        assert_eq!(reload.standing, ConfigStatus::default());
        let emptied = reload.take(HEAD.to_owned());
        assert!(!emptied.warned.iter().any(|line| line.contains("restart")), "{emptied:?}");
    }
}

#[test]
fn a_live_field_counts_in_the_modes_that_it_acts_in_and_in_no_other() {
    for mode in dataplane::registry::MODES {
        let usual = Document { mode: mode.name().to_owned(), ..Document::usual() };
        let live =
            |document: &Document| Before::default().live(Asked::of(document, dataplane::iptables::MODE), 0);
        let fields =
            FIELDS.iter().filter(|field| field.change == Change::Live && field.path != "logging.verbosity");
        for field in fields {
            let mut value = json!(usual);
            let other = match field.kind {
                Kind::Texts => json!(["localhost"]),
                Kind::Bool => json!(true),
                _ => json!("7s"),
            };
            field.put(&mut value, other);
            let changed: Document = serde_json::from_value(value).expect("it is a document");
            assert_eq!(live(&changed) != live(&usual), field.acts_in(*mode), "{} in mode {mode}", field.path);
        }
    }
}

#[test]
fn options_go_before_the_fields_that_they_set() {
    let over = over_fields(&["masquerade-all", "cluster-cidr", "from", "node-name"].map(str::to_owned));
    let fields: Vec<&str> = over.keys().copied().collect();
    assert_eq!(
        fields,
        [
            "clusterCIDR",
            "detectLocal.bridgeInterface",
            "detectLocal.interfaceNamePrefix",
            "detectLocalMode",
            "hostnameOverride",
            "iptables.masqueradeAll",
            "nftables.masqueradeAll"
        ]
    );
    for (_, fields) in OWN_OPTIONS {
        fields.iter().for_each(|field| assert!(Field::at(field).is_some(), "{field}"));
    }
}

#[test]
fn a_new_slip_is_told_once() {
    let mut reload = reload("mode: nftables\n", Before::default());
    let slip = format!("{HEAD}mode: nftables\nmodee: x\n");
    assert_eq!(reload.take(slip.clone()).warned, ["unknown field `modee`: did you mean `mode`?"]);
    assert_eq!(reload.take(format!("{slip}# more\n")).warned, Vec::<String>::new());
}

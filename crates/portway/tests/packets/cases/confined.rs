//! In a container: with the capabilities of the manifest, on a root that cannot be written to.

use playground::plan::NODES;

use super::ALL;
use crate::check::Want;
use crate::confine::{self, capabilities};
use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};

/// The first rules, a change, and a start on rules that are there.
pub(crate) fn root_it_serves_with_the_capabilities_of_its_manifest_on_a_read_only_root(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.confined().stage_without_portways(&[&web]) else { return };
    for node in NODES {
        stage.init_only(node);
        // Whoever lists a legacy table makes it; without NET_RAW it cannot be looked into any more.
        stage.list_legacy_tables(node);
        stage.start(node);
    }
    for node in NODES {
        stage.wait_for_sync(node);
    }
    let (held, of_manifest) = (confine::held(stage.id("a")), capabilities(stage.way()));
    assert_eq!(held, of_manifest, "the capabilities are those of the manifest");
    assert!(confine::cannot_write(stage.id("a")), "the root is read-only");
    until("its probe succeeds there", || stage.probe("a").contains("portway is ready"));
    let both = |stage: &Stage, ends: &[&str]| {
        stage.check(&[
            ("client-a", stage.cluster_ip(&web), Want::kept(ends)),
            ("outside", stage.node_port("a", &web), Want::masqueraded(ends)),
            ("outside", stage.node_port("b", &web), Want::masqueraded(ends)),
        ]);
    };
    both(&stage, &ALL);
    stage.apply(&web.clone().on(&ALL[..1]));
    both(&stage, &ALL[..1]);
    stage.terminate("a");
    stage.start("a");
    stage.wait_for_sync("a");
    both(&stage, &ALL[..1]);
}

//! Short forms of cases that take minutes on a machine as slow as the VM.

use crate::manifest::Service;
use crate::stage::Setting;

use super::ALL;
use super::live::Traffic;

/// Rules outlive the program that wrote them, whether it was asked to end or killed; the next one goes on from there.
pub(crate) fn root_a_restart_disturbs_nobody(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let traffic = Traffic::start(&stage, &web);
    stage.terminate("a");
    stage.kill("b");
    traffic.go_on();
    for node in ["a", "b"] {
        stage.start(node);
        stage.wait_for_sync(node);
        traffic.go_on();
    }
    stage.apply(&web.clone().on(&ALL[..2]));
    traffic.until_enough();
    traffic.end(&stage);
}

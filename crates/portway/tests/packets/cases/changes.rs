//! Services that are changed while they are served, several at a time: in three steps, each with what clients see after it.
//!
//! | Service | at first | then | in the end |
//! |---|---|---|---|
//! | `zones` | an endpoint in each of three zones | that of node a's zone is gone | is back |
//! | `balanced` | a load balancer without node ports | with them | without |
//! | `name` | a node port | an ExternalName | a cluster IP |
//! | `sticky` | without session affinity | with it | without |
//! | `one` | the pods of `two` | is deleted | |
//! | `two` | dialled all the while | | |

use std::collections::BTreeSet;

use playground::{Ask, Family, Held, Protocol};

use crate::check::{Target, Want};
use crate::manifest::Service;
use crate::stage::{Setting, Stage};
use crate::talk::PATIENCE;

use super::ALL;
use super::live::Traffic;

/// Node `c` is of a third zone, and not of the playground: its pod is one of node b's.
const ZONES: [(&str, &str, &str); 3] =
    [("web-a-0", "a", "z1"), ("web-b-0", "b", "z2"), ("web-b-1", "c", "z3")];
const WEB: [&str; 2] = ["web-a-0", "web-b-0"];
/// Hours, so that no client rests for so long.
const AFFINITY_SECONDS: u32 = 10_800;
/// With four endpoints and no affinity, so many in a row meet the same one once in 16,384 times, and there are six kinds of clients.
const ASKED: usize = 8;

type Rows = Vec<(&'static str, Target, Want)>;

pub(crate) fn root_services_that_change_while_they_are_served_are_served_as_they_say_now(setting: &Setting) {
    let all = Services::new();
    let at_first = all.at_first();
    let Some(mut stage) = setting.stage(&at_first.iter().collect::<Vec<_>>()) else { return };
    let mut held = hold(&stage, &all.two);
    let traffic = Traffic::start_slowly(&stage, &all.two);
    stage.check(&all.rows_at_first(&stage));
    traffic.go_on();

    all.then(&mut stage);
    stage.check(&all.rows_then(&stage));
    stays(&stage, &all.sticky);
    held.iter_mut().for_each(goes_on);
    traffic.go_on();

    all.in_the_end(&mut stage);
    stage.check(&all.rows_in_the_end(&stage));
    held.iter_mut().for_each(goes_on);
    traffic.go_on();
    traffic.end(&stage);
}

struct Services {
    zones: Service,
    balanced: Service,
    name: Service,
    sticky: Service,
    one: Service,
    two: Service,
}

impl Services {
    fn new() -> Self {
        let of_pods = |name, number| Service::new(name, number).of_pods().on(&ALL);
        Self {
            zones: Service::new("zones", 1).on(&ZONES.map(|(pod, ..)| pod)).in_zones(&ZONES),
            balanced: Service::new("balanced", 2).on(&WEB),
            name: Service::new("name", 3).on(&WEB),
            sticky: Service::new("sticky", 4).on(&ALL),
            one: of_pods("one", 5),
            two: of_pods("two", 6),
        }
    }

    fn at_first(&self) -> Vec<Service> {
        let balanced = self.balanced.clone().without_node_ports();
        let others = [&self.zones, &self.name, &self.sticky, &self.one, &self.two];
        others.into_iter().cloned().chain([balanced]).collect()
    }

    fn rows_at_first(&self, stage: &Stage) -> Rows {
        [
            self.in_their_zones(stage),
            self.without_node_ports(stage),
            vec![
                ("client-a", stage.cluster_ip(&self.name), Want::kept(&WEB)),
                ("outside", stage.node_port("a", &self.name), Want::masqueraded(&WEB)),
                ("client-a", stage.cluster_ip(&self.sticky), Want::kept(&ALL)),
                ("client-a", stage.cluster_ip(&self.one), Want::kept(&ALL)),
            ],
            self.of_two(stage),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// All changes at once: both nodes follow in one sync.
    fn then(&self, stage: &mut Stage) {
        stage.apply_unheard(&self.zones.clone().on(&["web-b-0", "web-b-1"]));
        stage.apply_unheard(&self.balanced.clone().load_balanced());
        stage.apply_unheard(&self.name.clone().named("example.org"));
        stage.apply_unheard(&self.sticky.clone().sticky(AFFINITY_SECONDS));
        stage.delete(&self.one);
    }

    fn rows_then(&self, stage: &Stage) -> Rows {
        let nobody = Want::from(stage.mode().semantics().unallocated_service_ip);
        let dry = ["web-b-0", "web-b-1"];
        let rows = vec![
            // Zone z1 has no endpoint: its clients reach those of all other zones. Those of z2 stay in theirs.
            ("client-a", stage.cluster_ip(&self.zones), Want::kept(&dry)),
            ("outside", stage.node_port("a", &self.zones), Want::masqueraded(&dry)),
            ("client-b", stage.cluster_ip(&self.zones), Want::kept(&["web-b-0"])),
            ("outside", stage.node_port("a", &self.balanced), Want::masqueraded(&WEB)),
            ("outside", stage.node_port("b", &self.balanced), Want::masqueraded(&WEB)),
            ("outside", stage.load_balancer_ip(&self.balanced), Want::masqueraded(&WEB)),
            ("client-a", stage.cluster_ip(&self.name), nobody.clone()),
            ("outside", stage.node_port("a", &self.name), Want::Untouched),
            ("client-a", stage.cluster_ip(&self.one), nobody),
            ("outside", stage.node_port("b", &self.one), Want::Untouched),
        ];
        rows.into_iter().chain(self.of_two(stage)).collect()
    }

    fn in_the_end(&self, stage: &mut Stage) {
        stage.apply_unheard(&self.zones);
        stage.apply_unheard(&self.balanced.clone().without_node_ports());
        stage.apply_unheard(&self.name.clone().inside());
        stage.apply(&self.sticky);
    }

    fn rows_in_the_end(&self, stage: &Stage) -> Rows {
        [
            self.in_their_zones(stage),
            self.without_node_ports(stage),
            vec![
                ("client-a", stage.cluster_ip(&self.name), Want::kept(&WEB)),
                ("outside", stage.node_port("a", &self.name), Want::Untouched),
                ("client-a", stage.cluster_ip(&self.sticky), Want::kept(&ALL)),
            ],
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Each node leads to the endpoint of its zone; clients outside, too, by whichever node they come.
    fn in_their_zones(&self, stage: &Stage) -> Rows {
        vec![
            ("client-a", stage.cluster_ip(&self.zones), Want::kept(&["web-a-0"])),
            ("a", stage.cluster_ip(&self.zones), Want::masqueraded(&["web-a-0"])),
            ("client-b", stage.cluster_ip(&self.zones), Want::kept(&["web-b-0"])),
            ("outside", stage.node_port("b", &self.zones), Want::masqueraded(&["web-b-0"])),
        ]
    }

    fn without_node_ports(&self, stage: &Stage) -> Rows {
        vec![
            ("outside", stage.node_port("a", &self.balanced), Want::Untouched),
            ("outside", stage.load_balancer_ip(&self.balanced), Want::masqueraded(&WEB)),
        ]
    }

    fn of_two(&self, stage: &Stage) -> Rows {
        vec![
            ("client-a", stage.cluster_ip(&self.two), Want::kept(&ALL)),
            ("outside", stage.node_port("b", &self.two), Want::masqueraded(&ALL)),
        ]
    }
}

/// A client, however often it asks, is answered by one endpoint.
fn stays(stage: &Stage, sticky: &Service) {
    for (family, protocol) in stage.way().every_kind() {
        let to = sticky.cluster_ip(family);
        let ask = |_| {
            let outcome = stage.talk.ask(stage.place("client-a"), protocol, to, PATIENCE);
            outcome.server().unwrap_or_else(|| panic!("{to} {protocol}: {outcome}")).to_owned()
        };
        let servers: BTreeSet<String> = (0..ASKED).map(ask).collect();
        assert_eq!(servers.len(), 1, "{to} {protocol}: {servers:?}");
    }
}

/// Connections and UDP flows that stay, some with each endpoint: of a pod to the cluster IP, and from outside to a node port.
fn hold(stage: &Stage, web: &Service) -> Vec<Held> {
    const OF_EACH_KIND: usize = 8;
    let mut held = Vec::new();
    for family in Family::ALL {
        let node_port = |port| stage.place("b").at(family, port);
        let kinds = [
            ("client-a", Protocol::Tcp, web.held_cluster_ip(family)),
            ("outside", Protocol::Tcp, node_port(web.held_node_port())),
            ("client-a", Protocol::Udp, web.cluster_ip(family)),
            ("outside", Protocol::Udp, node_port(web.node_port())),
        ];
        for (from, protocol, to) in kinds {
            let open = || Held::open(stage.place(from), protocol, to, &Ask::within(PATIENCE)).unwrap();
            held.extend((0..OF_EACH_KIND).map(|_| open()));
        }
    }
    // The relay forgets a UDP client after 3 s that asked once, and after 30 s one that asked twice.
    held.iter_mut().for_each(goes_on);
    held
}

fn goes_on(held: &mut Held) {
    let outcome = held.ping(PATIENCE);
    assert_eq!(outcome.server(), Some(&*held.reply().server), "{outcome}");
}

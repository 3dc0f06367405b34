//! The ipvs mode on a kernel that has no IPVS, as those of many build machines. `needs_vm` has what it does on one that has.

use crate::common::{Place, skipped};

use super::WEB;

#[test]
fn root_ipvs_without_its_module_is_refused_in_one_sentence_and_nothing_is_written() {
    let Some(place) = Place::new() else { return };
    if place.inside(kernel::ipvs::Netlink::open).is_ok() {
        skipped::<()>("this kernel has IPVS");
        return;
    }
    place.write("web.yaml", WEB);
    let (rules, links) = (place.nft("list ruleset"), place.ip("-o link"));
    for (command, way_out) in [("run", "or use another mode"), ("diff", "`portway render --mode ipvs` shows")]
    {
        let said = place.portway(&format!("{command} --from manifests --mode ipvs"));
        assert_eq!(said.err.lines().count(), 1, "{said}");
        said.refused(1, &["this kernel has no IPVS", "load the module `ip_vs`", way_out]);
    }
    let nothing = place.portway("cleanup --mode ipvs").fine();
    assert_eq!(nothing, "This kernel has no IPVS, so there is nothing of the ipvs mode to remove.\n");
    assert_eq!((place.nft("list ruleset"), place.ip("-o link")), (rules, links));
    assert!(!place.path("state").exists(), "no address was given");
}

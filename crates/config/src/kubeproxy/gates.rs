//! Feature gates, known by name: what each means here.
//!
//! In: `featureGates` of a document. Out: what is wrong with it, and what is to be told. As upstream, a gate that is locked cannot be
//! turned. Every Kubernetes program knows the gates of all others, so a name that is none of ours and like none of ours is only told.

use std::collections::BTreeMap;

use standalone::suggest::nearest;

/// What a gate does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Its switch is obeyed.
    Obeyed,
    /// What it would switch on is always on, and needs no switch.
    AlwaysOn,
    /// What it would switch is not here.
    Nothing,
}

/// How far upstream is with what a gate switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// `AllAlpha` switches it too.
    Alpha,
    /// `AllBeta` switches it too.
    Beta,
    /// Nothing switches it but its own name.
    Settled,
}

/// A feature gate of kube-proxy.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// Whether upstream has it on.
    pub is_on: bool,
    /// Upstream refuses to turn it.
    pub is_locked: bool,
    /// How far upstream is with it.
    pub stage: Stage,
    /// What it does here.
    pub effect: Effect,
    /// Why.
    pub why: &'static str,
}

const fn gate(name: &'static str, is_on: bool, effect: Effect, why: &'static str) -> Gate {
    Gate { name, is_on, is_locked: false, stage: Stage::Settled, effect, why }
}

const fn locked(name: &'static str, why: &'static str) -> Gate {
    Gate { is_locked: true, ..gate(name, true, Effect::AlwaysOn, why) }
}

const fn alpha(gate: Gate) -> Gate {
    Gate { stage: Stage::Alpha, ..gate }
}

const fn beta(gate: Gate) -> Gate {
    Gate { stage: Stage::Beta, ..gate }
}

/// The gates that switch all of a stage.
const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// All that upstream's kube-proxy asks for.
pub const GATES: &[Gate] = &[
    gate(ALL_ALPHA, false, Effect::Obeyed, "switches LoggingAlphaOptions where that is not named itself"),
    gate(ALL_BETA, false, Effect::Obeyed, "switches LoggingBetaOptions where that is not named itself"),
    gate("KubeProxyIPVS", true, Effect::Obeyed, "false refuses mode ipvs, as upstream"),
    alpha(gate(
        "KubeProxyNFTablesLocalhostNodePorts",
        false,
        Effect::AlwaysOn,
        "node ports on localhost need no gate: nodePortAddresses says where they answer",
    )),
    beta(gate("NFTablesNetlink", true, Effect::AlwaysOn, "all is read and written by netlink")),
    gate(
        "AllowServiceExternalIPs",
        true,
        Effect::Obeyed,
        "false serves no external IPs, as upstream; `portway run --allowed-external-ips` is finer",
    ),
    locked("PreferSameTrafficDistribution", "hints for nodes are honoured"),
    locked("MultiCIDRServiceAllocator", "ServiceCIDRs are watched"),
    locked("NFTablesProxyMode", "mode nftables is there"),
    beta(gate("ComponentFlagz", true, Effect::AlwaysOn, "/flagz answers")),
    beta(gate("ComponentStatusz", true, Effect::AlwaysOn, "/statusz answers")),
    beta(gate("NativeHistograms", true, Effect::Nothing, "histograms are classic ones")),
    alpha(gate(
        "LoggingAlphaOptions",
        false,
        Effect::Obeyed,
        "without it logging.options is refused, as upstream",
    )),
    beta(gate(
        "LoggingBetaOptions",
        true,
        Effect::Obeyed,
        "without it vmodule and format json are refused, as upstream",
    )),
    beta(gate("ContextualLogging", true, Effect::AlwaysOn, "lines have fields")),
];

/// Is this gate on, with these choices? Its own goes before that of its stage.
pub(super) fn is_on(chosen: &BTreeMap<String, bool>, name: &str) -> bool {
    let Some(gate) = GATES.iter().find(|gate| gate.name == name) else { return false };
    let of_stage = || match gate.stage {
        Stage::Alpha => chosen.get(ALL_ALPHA),
        Stage::Beta => chosen.get(ALL_BETA),
        Stage::Settled => None,
    };
    chosen.get(name).or_else(of_stage).copied().unwrap_or(gate.is_on)
}

/// What is wrong with these choices.
pub(super) fn errors(chosen: &BTreeMap<String, bool>) -> Vec<String> {
    chosen.iter().filter_map(|(name, value)| error(name, *value)).collect()
}

fn error(name: &str, value: bool) -> Option<String> {
    match GATES.iter().find(|gate| gate.name == name) {
        Some(gate) if gate.is_locked && gate.is_on != value => Some(format!(
            "cannot set feature gate {name} to {value}, feature is locked to {}: {}",
            gate.is_on, gate.why
        )),
        Some(_) => None,
        None => nearest(name, GATES.iter().map(|gate| gate.name))
            .map(|near| format!("unrecognized feature gate: {name}: did you mean {near}?")),
    }
}

/// What is to be told of choices that have no effect.
pub(super) fn warnings(chosen: &BTreeMap<String, bool>) -> Vec<String> {
    chosen.iter().filter_map(|(name, value)| warning(name, *value)).collect()
}

fn warning(name: &str, value: bool) -> Option<String> {
    let Some(gate) = GATES.iter().find(|gate| gate.name == name) else {
        return Some(format!("feature gate `{name}` is none of kube-proxy's: nothing here follows it"));
    };
    let is_told = match gate.effect {
        Effect::Obeyed => false,
        Effect::AlwaysOn => !value,
        Effect::Nothing => value != gate.is_on,
    };
    is_told.then(|| format!("feature gate `{name}` set to {value} changes nothing: {}", gate.why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(name: &str, value: bool) -> BTreeMap<String, bool> {
        BTreeMap::from([(name.to_owned(), value)])
    }

    #[test]
    fn gates_are_known_by_name() {
        for gate in GATES {
            assert!(errors(&chosen(gate.name, gate.is_on)).is_empty(), "{}", gate.name);
        }
        let locked = errors(&chosen("NFTablesProxyMode", false));
        assert!(locked[0].contains("locked to true"), "{locked:?}");
        let slip = errors(&chosen("KubeProxyIPSV", true));
        assert!(slip[0].ends_with("did you mean KubeProxyIPVS?"), "{slip:?}");
        let small = errors(&chosen("kubeproxynftableslocalhostnodeports", true));
        assert!(small[0].ends_with("did you mean KubeProxyNFTablesLocalhostNodePorts?"), "{small:?}");
    }

    #[test]
    fn a_gate_of_another_program_is_told_and_not_refused() {
        let others = chosen("SidecarContainers", true);
        assert!(errors(&others).is_empty());
        assert!(warnings(&others)[0].contains("`SidecarContainers` is none of kube-proxy's"));
    }

    #[test]
    fn a_stage_is_switched_as_a_whole_but_for_gates_that_are_named_themselves() {
        assert!(is_on(&chosen("AllAlpha", true), "LoggingAlphaOptions"));
        assert!(!is_on(&chosen("AllBeta", true), "LoggingAlphaOptions"));
        assert!(!is_on(&chosen("AllBeta", false), "LoggingBetaOptions"));
        assert!(is_on(&chosen("AllBeta", false), "KubeProxyIPVS"), "it is of neither stage");
        let named = BTreeMap::from([("AllBeta".to_owned(), false), ("LoggingBetaOptions".to_owned(), true)]);
        assert!(is_on(&named, "LoggingBetaOptions"));
    }

    #[test]
    fn a_choice_without_effect_is_told() {
        for (name, value, is_told) in [
            ("NFTablesNetlink", true, false),
            ("NFTablesNetlink", false, true),
            ("KubeProxyIPVS", false, false),
            ("NativeHistograms", false, true),
            ("AllAlpha", true, false),
            ("KubeProxyNFTablesLocalhostNodePorts", true, false),
        ] {
            assert_eq!(!warnings(&chosen(name, value)).is_empty(), is_told, "{name}={value}");
        }
        assert!(is_on(&BTreeMap::new(), "KubeProxyIPVS"));
        assert!(!is_on(&chosen("KubeProxyIPVS", false), "KubeProxyIPVS"));
    }
}

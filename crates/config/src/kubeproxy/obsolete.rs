//! Fields that documents had once, and what replaces each: they are told of, and have no effect.
//!
//! Those of early documents stood at the top, under the names of flags; others are known from upstream's messages, which name its own
//! structures.

/// A field of earlier days.
#[derive(Clone, Copy, Debug)]
pub struct ObsoleteField {
    /// Its place in the document.
    pub path: &'static str,
    /// What replaces it.
    pub why: &'static str,
}

const fn obsolete(path: &'static str, why: &'static str) -> ObsoleteField {
    ObsoleteField { path, why }
}

const UDP: &str =
    "it was of the userspace mode that upstream no longer has; `portway run --udp-timeout` sets that of ours";
const OF_MODE: &str = "each mode has its own: iptables.syncPeriod, ipvs.syncPeriod, nftables.syncPeriod";
const MIN_OF_MODE: &str =
    "each mode has its own: iptables.minSyncPeriod, ipvs.minSyncPeriod, nftables.minSyncPeriod";

/// All of them.
pub const OBSOLETE_FIELDS: &[ObsoleteField] = &[
    obsolete("udpIdleTimeout", UDP),
    obsolete("udpTimeoutMilliseconds", UDP),
    obsolete("resourceContainer", "limits are the container's"),
    obsolete("conntrack.max", "use conntrack.maxPerCore and conntrack.min"),
    obsolete("conntrackMax", "use conntrack.maxPerCore and conntrack.min"),
    obsolete("conntrackMaxPerCore", "use conntrack.maxPerCore"),
    obsolete("conntrackMin", "use conntrack.min"),
    obsolete("conntrackTCPEstablishedTimeout", "use conntrack.tcpEstablishedTimeout"),
    obsolete("conntrackTCPCloseWaitTimeout", "use conntrack.tcpCloseWaitTimeout"),
    obsolete("iptablesMasqueradeBit", "use iptables.masqueradeBit"),
    obsolete("masqueradeAll", "use iptables.masqueradeAll or nftables.masqueradeAll"),
    obsolete("iptablesSyncPeriodSeconds", "use iptables.syncPeriod, a time such as 30s"),
    obsolete("syncPeriod", OF_MODE),
    obsolete("minSyncPeriod", MIN_OF_MODE),
    obsolete("kubeconfigPath", "use clientConnection.kubeconfig"),
    obsolete("clientConnection.kubeConfigFile", "use clientConnection.kubeconfig"),
    obsolete("master", "use the flag --master, or name the server in the kubeconfig"),
    obsolete("healthzPort", "use healthzBindAddress, as IP:port"),
    obsolete("metricsPort", "use metricsBindAddress, as IP:port"),
    obsolete("detectLocal.clusterCIDRs", "use clusterCIDR, networks with a comma between them"),
];

impl ObsoleteField {
    /// The one at this place.
    pub(super) fn at(path: &str) -> Option<&'static ObsoleteField> {
        OBSOLETE_FIELDS.iter().find(|field| field.path == path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Field;
    use super::*;

    #[test]
    fn no_field_of_today_is_called_obsolete_and_those_that_replace_are_of_today() {
        for field in OBSOLETE_FIELDS {
            assert!(Field::at(field.path).is_none(), "{}", field.path);
            let words = field.why.split([' ', ',', ':']).filter(|word| word.contains('.'));
            for word in words {
                assert!(Field::at(word).is_some(), "{}: {word}", field.path);
            }
        }
    }
}

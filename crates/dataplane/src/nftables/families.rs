//! Which families this kernel can serve, asked before anything is written.
//!
//! A host without IPv6 is an ordinary host: IPv4 goes on. A host that has IPv6 but lacks what our rules need for it is not:
//! half of its Services would silently not work, so that is refused with the way out.

use std::path::Path;

use kernel::nft::{self, Error, Shortcoming, probe};
use model::Family;

use crate::mode::OpenError;
use crate::programs::HAS_IPV6;

/// Which families there are to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Families {
    /// Both.
    Both,
    /// IPv4 alone, since this host has no IPv6.
    OnlyV4 {
        /// What the kernel lacks for IPv6.
        because: String,
    },
}

impl Families {
    /// Asks the kernel of this network namespace.
    pub(super) fn probe() -> Result<Self, OpenError> {
        Self::judge(&probe(nft::Family::V4), &probe(nft::Family::V6), Path::new(HAS_IPV6).exists())
    }

    /// Those that are served.
    pub(super) fn served(&self) -> &'static [Family] {
        match self {
            Self::Both => &Family::ALL,
            Self::OnlyV4 { .. } => &[Family::V4],
        }
    }

    fn judge(v4: &[Shortcoming], v6: &[Shortcoming], has_ipv6: bool) -> Result<Self, OpenError> {
        match (v4, v6) {
            ([], []) => Ok(Self::Both),
            ([], missing) if !has_ipv6 => Ok(Self::OnlyV4 { because: sentence(missing) }),
            ([], missing) => Err(OpenError::Host(format!("for IPv6, {}", sentence(missing)))),
            (missing, _) => Err(OpenError::Host(sentence(missing))),
        }
    }
}

fn sentence(missing: &[Shortcoming]) -> String {
    let show = |found: &Shortcoming| match found.cause {
        Error::NotPermitted => found.sentence.to_owned(),
        _ => found.to_string(),
    };
    missing.iter().map(show).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(sentence: &'static str) -> Vec<Shortcoming> {
        vec![Shortcoming { sentence, cause: Error::Missing }]
    }

    #[test]
    fn a_host_without_ipv6_goes_on_with_ipv4() {
        let both = Families::judge(&[], &[], false).unwrap();
        assert_eq!((both.served(), &both), (&Family::ALL[..], &Families::Both));
        let only_v4 = Families::judge(&[], &lacks("no IPv6 here"), false).unwrap();
        assert_eq!(only_v4.served(), [Family::V4]);
        assert!(matches!(only_v4, Families::OnlyV4 { because } if because.contains("no IPv6 here")));
    }

    #[test]
    fn what_is_missing_where_it_is_needed_is_refused() {
        let without_v4 = Families::judge(&lacks("no NAT: load it"), &[], true).unwrap_err();
        assert!(without_v4.to_string().contains("no NAT: load it"), "{without_v4}");
        let without_v6 = Families::judge(&[], &lacks("no NAT: load it"), true).unwrap_err();
        assert!(without_v6.to_string().contains("for IPv6, no NAT"), "{without_v6}");
    }

    #[test]
    fn a_missing_privilege_is_one_sentence() {
        let missing = vec![Shortcoming { sentence: "run as root", cause: Error::NotPermitted }];
        let error = Families::judge(&missing, &missing, true).unwrap_err();
        assert_eq!(error.to_string(), "run as root");
    }
}

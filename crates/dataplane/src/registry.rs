//! The list of modes, and what all of them together know. To add one, write its folder and one line here.

use std::sync::LazyLock;

use model::Report;
use model::facts::Fact;
use model::object::Read;

use crate::mode::{Mode, ModeSettings};
use crate::served::{ServingSign, ServingSigns};
use crate::upstream::KnownChains;

/// All modes, in the order in which they are shown. The first is the default of `portway run`.
pub static MODES: &[Mode] = &[
    crate::nftables::MODE,
    crate::iptables::MODE,
    crate::ipvs::MODE,
    crate::userspace::MODE,
    #[cfg(feature = "sim")]
    crate::null::MODE,
];

/// The mode of a run that names none.
pub fn default_mode() -> Mode {
    MODES[0]
}

/// The modes of programs that are handed out.
pub fn product_modes() -> impl Iterator<Item = Mode> + Clone {
    MODES.iter().copied().filter(|mode| !mode.is_test_only())
}

/// Names of modes of programs, for sentences: `ipvs` or `ipvs and userspace`.
pub fn names_of(is_meant: impl Fn(Mode) -> bool) -> String {
    let names: Vec<&str> = product_modes().filter(|mode| is_meant(*mode)).map(|mode| mode.name()).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Interfaces whose addresses are all Services', whichever mode made them.
pub fn service_interfaces() -> Vec<&'static str> {
    MODES.iter().filter_map(|mode| mode.service_interface()).collect()
}

/// The chains of iptables that the modes write.
pub fn known_chains() -> &'static KnownChains {
    static KNOWN: LazyLock<KnownChains> =
        LazyLock::new(|| KnownChains::of(MODES.iter().filter_map(|mode| mode.chains())));
    &KNOWN
}

/// By what in a kernel it is seen that a mode serves.
pub fn serving_signs() -> &'static ServingSigns {
    static SIGNS: LazyLock<ServingSigns> = LazyLock::new(|| {
        let signs: Vec<ServingSign> = MODES.iter().filter_map(|mode| mode.serving_sign()).collect();
        ServingSigns::of(&signs)
    });
    &SIGNS
}

impl Mode {
    /// The mode that has this name or alias.
    pub fn named(name: &str) -> Option<Self> {
        let is_it = |mode: &&Self| mode.name() == name || mode.aliases().contains(&name);
        MODES.iter().find(is_it).copied()
    }

    fn place(self) -> Option<usize> {
        MODES.iter().position(|mode| *mode == self)
    }
}

impl PartialOrd for Mode {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// In the order of the registry.
impl Ord for Mode {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

impl Default for ModeSettings {
    fn default() -> Self {
        Self::of(default_mode())
    }
}

/// Adds what modes have to say about the annotations of a Service. It works like it would without those.
pub fn review(read: Read) -> Read {
    match read {
        Read::Fact(fact) => Read::Fact(review_fact(fact)),
        other => other,
    }
}

/// The same, of a fact.
pub fn review_fact(mut fact: Fact) -> Fact {
    let Fact::Service(service) = &mut fact else { return fact };
    let mut found = Vec::new();
    for (name, value) in service.annotations().iter() {
        let field = format!("metadata.annotations[{name}]");
        let objections = MODES.iter().filter_map(|mode| mode.objection_to_annotation(name, value));
        let object = || model::ObjectRef::service(&service.name);
        found
            .extend(objections.map(|objection| Report::new(object(), &field, value, objection).as_warning()));
    }
    if !found.is_empty() {
        service.reports = service.reports.iter().cloned().chain(found).collect();
    }
    fact
}

//! The names of all modes, as the registry of `crates/dataplane` lists them.
//!
//! In: the text of the registry. Out: names, in its order.
//!
//! Read as text: depending on `dataplane` would have every command wait until it is built.

const REGISTRY: &str = include_str!("../../crates/dataplane/src/registry.rs");

/// The names of all modes, which are those of their folders.
pub(crate) fn modes() -> impl Iterator<Item = &'static str> {
    REGISTRY.split("crate::").filter_map(|rest| {
        let (name, _) = rest.split_once("::MODE")?;
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_with_a_mode_is_in_the_registry() {
        let source = crate::cargo::root().join("crates/dataplane/src");
        let folders =
            std::fs::read_dir(&source).expect("it can be read").map(|entry| entry.expect("it can").path());
        let mut folders: Vec<_> = folders
            .filter(|folder| folder.join("mode.rs").exists())
            .map(|folder| folder.file_name().expect("it has one").to_string_lossy().into_owned())
            .collect();
        folders.sort();
        let mut modes: Vec<_> = modes().collect();
        modes.sort_unstable();
        assert_eq!(modes, folders);
    }
}

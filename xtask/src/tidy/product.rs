//! How much code the product is: a report, which fails nobody.
//!
//! In: the files of the repository. Out: lines for each crate that are neither blank nor a comment. Tests, simulators, and crates that are
//! in no program are left out.

use std::collections::BTreeMap;

use super::imports::{is_simulated, is_test, product_code};
use super::{DEV_CRATES, crate_of};
use crate::source::File;

/// Lines of each crate that is in the program.
pub(super) fn lines(files: &[File]) -> BTreeMap<&str, usize> {
    let mut lines = BTreeMap::new();
    for file in files.iter().filter(|file| is_product(file)) {
        let Some(name) = crate_of(&file.path) else { continue };
        *lines.entry(name).or_default() += count(file);
    }
    lines
}

fn is_product(file: &File) -> bool {
    let is_dev = crate_of(&file.path).is_some_and(|name| DEV_CRATES.contains(&name));
    file.is_rust()
        && file.path.contains("/src/")
        && !is_dev
        && !is_test(&file.path)
        && !is_simulated(&file.path)
}

/// Lines that are a part of a literal alone do not count.
fn count(file: &File) -> usize {
    product_code(file).lines().filter(|line| !line.trim().is_empty()).count()
}

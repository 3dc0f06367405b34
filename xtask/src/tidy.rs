//! The promises of the repository about itself, as ordinary tests.
//!
//! In: all files of the repository. Out: for each broken promise a sentence that says what to write.
//!
//! Each rule is a function from files to problems, with a test that the repository keeps it and a test that
//! a breach is noticed.
//!
//! Absent on purpose: rules about length or taste. Lengths are shown by `longest.rs` and fail nobody.

mod breaches;
mod clocks;
mod cycles;
mod imports;
mod modes;
mod names;
mod product;

use crate::source::{File, read_tree, word_positions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The crates that `model` may depend on.
const MODEL_DEPENDENCIES: [&str; 2] = ["ipnet", "serde_json"];

/// Crates that are in no program.
const DEV_CRATES: [&str; 4] = ["harness", "kernel-sim", "mockapi", "playground"];

/// The feature behind which a library may depend on one of them.
const DEV_FEATURE: &str = "sim";

/// The only crate that may hold `unsafe`.
const UNSAFE_IS_ALLOWED_IN: &str = "crates/kernel/";

/// The headings of a decision record.
const DECISION_SECTIONS: [&str; 5] =
    ["Situation", "Decision", "What else was weighed", "Consequence", "How we would notice it was wrong"];

/// Folders that exist on somebody's machine only. Spelt in two parts, so that this file does not break its own rule.
const PRIVATE_FOLDERS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

type Rule = fn(&[File]) -> Vec<String>;

/// Each module opens with a header doc.
fn headers(files: &[File]) -> Vec<String> {
    let opens = |file: &File| {
        file.text.lines().find(|line| !line.trim().is_empty()).is_some_and(|l| l.starts_with("//!"))
    };
    files
        .iter()
        .filter(|file| file.is_rust() && !opens(file))
        .map(|file| {
            format!(
                "{}: open the file with `//! ` and a sentence that tells why it exists, what goes in, what comes out",
                file.path
            )
        })
        .collect()
}

/// ARCHITECTURE.md names each crate, and no crate that is not there.
fn architecture(files: &[File]) -> Vec<String> {
    let Some(document) = find(files, "ARCHITECTURE.md") else {
        return vec![
            "ARCHITECTURE.md is missing: write the picture, where to start reading, and the code map"
                .to_owned(),
        ];
    };
    let crates: BTreeSet<&str> = files.iter().filter_map(|file| crate_of(&file.path)).collect();
    let named = crates_named_in(&document.text);
    let unnamed = crates.iter().filter(|name| !named.contains(**name)).map(|name| {
        format!(
            "ARCHITECTURE.md: add `crates/{name}` to the code map: what it is for, and what it never holds"
        )
    });
    let absent = named.iter().filter(|name| !crates.contains(name.as_str())).map(|name| {
        format!("ARCHITECTURE.md: names `crates/{name}`, which does not exist: take it out, or say what it is called now")
    });
    unnamed.chain(absent).collect()
}

/// `model` depends on the allowed crates and no others.
fn model_dependencies(files: &[File]) -> Vec<String> {
    let Some(manifest) = find(files, "crates/model/Cargo.toml") else {
        return vec!["crates/model/Cargo.toml is missing".to_owned()];
    };
    let seen = dependencies(&manifest.text);
    let allowed: BTreeSet<String> = MODEL_DEPENDENCIES.map(str::to_owned).into();
    if seen == allowed {
        return Vec::new();
    }
    vec![format!(
        "crates/model/Cargo.toml: depends on {seen:?}, allowed are {allowed:?}: keep model pure, or write a decision \
         record and change MODEL_DEPENDENCIES in xtask/src/tidy.rs"
    )]
}

/// No program depends on a crate for tests: it is a dev-dependency, or optional and enabled by the feature `sim` alone, which
/// dev-dependencies alone ask for.
fn dev_crates_are_in_no_program(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for File { path, text } in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        if crate_of(path).is_some_and(|name| DEV_CRATES.contains(&name)) {
            continue;
        }
        for (section, line) in lines_with_sections(text) {
            let names = |name: &&&str| names_dependency(section, line, name);
            if section == "features" && enables_dev_crate(line) {
                problems.push(format!(
                    "{path}: a feature other than `{DEV_FEATURE}` enables a crate for tests, or `{DEV_FEATURE}` itself: `{line}`"
                ));
            }
            if !is_of_a_product(section) || line.contains("optional = true") {
                continue;
            }
            if let Some(name) = DEV_CRATES.iter().find(names) {
                problems.push(format!(
                    "{path}: depends on `{name}`: move it to [dev-dependencies], or make it optional behind the feature `{DEV_FEATURE}`"
                ));
            }
            if asks_for(line, DEV_FEATURE) {
                problems.push(format!(
                    "{path}: asks for the feature `{DEV_FEATURE}`, which is for [dev-dependencies] alone: `{line}`"
                ));
            }
        }
    }
    problems
}

/// `unsafe` stands in the kernel crate alone.
fn unsafe_is_in_kernel(files: &[File]) -> Vec<String> {
    files
        .iter()
        .filter(|file| file.is_rust() && !file.path.starts_with(UNSAFE_IS_ALLOWED_IN))
        .filter(|file| word_positions(&file.code(), "unsafe").next().is_some())
        .map(|file| format!("{}: holds `unsafe`: put it behind a safe function of crates/kernel", file.path))
        .collect()
}

/// What `kernel` may take from the model.
const KERNEL_TAKES_OF_MODEL: [&str; 2] = ["Family", "Protocol"];

/// The kernel crate takes plain network types from the model, and nothing that decides.
fn kernel_knows_no_decisions(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/kernel/src/")) {
        let code = file.code();
        for (_, rest) in word_positions(&code, "model").filter_map(|at| code.split_at_checked(at)) {
            let Some(taken) = rest.strip_prefix("model::") else { continue };
            let is_foreign = |name: &String| !KERNEL_TAKES_OF_MODEL.contains(&name.as_str());
            for name in listed_names(taken).into_iter().filter(is_foreign) {
                problems.push(format!(
                    "{}: takes `model::{name}`: crates/kernel takes {KERNEL_TAKES_OF_MODEL:?} alone (docs/decisions/0031)",
                    file.path
                ));
            }
        }
    }
    problems
}

/// Where families and protocols are defined.
const NETWORK_TYPES: &str = "crates/model/src/net.rs";

/// A family and a protocol have one type each, so that nothing has to be turned from one into another.
fn network_types_are_the_models(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && file.path != NETWORK_TYPES) {
        let code = file.code();
        for (kind, name) in
            ["enum", "struct", "type"].iter().flat_map(|kind| KERNEL_TAKES_OF_MODEL.map(|name| (kind, name)))
        {
            let defines = |at: usize| {
                let rest = code[at..].strip_prefix(kind).unwrap_or_default().trim_start();
                rest.strip_prefix(name)
                    .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
            };
            if word_positions(&code, kind).any(defines) {
                problems.push(format!(
                    "{}: defines another `{name}`: use `model::{name}`, or name it after what it is, as `kernel::IpProtocol` (docs/decisions/0031)",
                    file.path
                ));
            }
        }
    }
    problems
}

/// Each scenario is a text file at the place that the runner reads, and says in a sentence what it shows.
fn scenarios(files: &[File]) -> Vec<String> {
    let inside = |file: &&File| file.path.starts_with("scenarios/") && file.path != "scenarios/README.md";
    let mut problems = Vec::new();
    for File { path, text } in files.iter().filter(inside) {
        let name = &path["scenarios/".len()..];
        if name.contains('/') || Path::new(name).extension() != Some("txt".as_ref()) {
            problems.push(format!(
                "{path}: the runner reads scenarios/*.txt alone: name it so, or move it elsewhere"
            ));
        } else if !begins_with_sentence(text) {
            problems
                .push(format!("{path}: begin with `# ` and a sentence that says what the scenario shows"));
        }
    }
    if !files.iter().any(|file| inside(&file)) {
        problems.push("scenarios/ is empty: write the first scenario".to_owned());
    }
    problems
}

/// No file names a folder that exists on somebody's machine only.
fn no_private_paths(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            if let Some(folder) = PRIVATE_FOLDERS.iter().find(|folder| has_path(line, folder)) {
                problems.push(format!(
                    "{}:{}: names a path below `{folder}`, which others do not have: write it relative to the repository",
                    file.path,
                    number + 1
                ));
            }
        }
    }
    problems
}

/// CHANGELOG.md has a place for what comes next.
fn changelog(files: &[File]) -> Vec<String> {
    let is_section = |line: &str| line.starts_with("## ") && line.contains("Unreleased");
    match find(files, "CHANGELOG.md") {
        Some(file) if file.text.lines().any(is_section) => Vec::new(),
        _ => vec![
            "CHANGELOG.md: write a section `## Unreleased`, in the words of the person who runs the proxy"
                .to_owned(),
        ],
    }
}

/// Each decision record has a number of its own and the five sections.
fn decisions(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut numbers: BTreeMap<&str, &str> = BTreeMap::new();
    for File { path, text } in files {
        let Some(name) = path.strip_prefix("docs/decisions/") else { continue };
        let Some(number) = decision_number(name) else {
            problems.push(format!(
                "{path}: name it docs/decisions/NNNN-title.md, in small letters, such as 0007-one-loop.md"
            ));
            continue;
        };
        if let Some(other) = numbers.insert(number, path) {
            problems.push(format!("{path}: {other} has the number {number} already: take the next free one"));
        }
        for section in DECISION_SECTIONS.iter().filter(|section| !has_heading(text, section)) {
            problems.push(format!("{path}: write the section `## {section}`"));
        }
    }
    if numbers.is_empty() {
        problems.push("docs/decisions/ is empty: write the first record, 0001-title.md".to_owned());
    }
    problems
}

/// A test that cannot run says so while it runs, so that the summary has its reason.
fn no_ignored_tests(files: &[File]) -> Vec<String> {
    let is_ignored = |code: &str| word_positions(code, "ignore").any(|at| code[..at].ends_with("#["));
    files
        .iter()
        .filter(|file| file.is_rust() && is_ignored(&file.code()))
        .map(|file| {
            format!(
                "{}: has an ignored test, which no summary shows: let it print `skipped: REASON` to stderr and return",
                file.path
            )
        })
        .collect()
}

fn find<'a>(files: &'a [File], path: &str) -> Option<&'a File> {
    files.iter().find(|file| file.path == path)
}

/// The crate that a path such as `crates/model/Cargo.toml` belongs to.
fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split_once('/').map(|(name, _)| name)
}

/// Every `NAME` of a `crates/NAME` in a text.
fn crates_named_in(text: &str) -> BTreeSet<String> {
    let names = text.split("crates/").skip(1);
    names
        .map(|rest| {
            rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect::<String>()
        })
        .filter(|name| !name.is_empty())
        .collect()
}

/// The dependencies that a manifest names, apart from those of its tests.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            is_inside = section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
            if let Some((kind, name)) = section.rsplit_once("dependencies.") {
                names.extend((!kind.ends_with("dev-")).then(|| name.to_owned()));
            }
        } else if is_inside && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or(line);
            names.insert(name.to_owned());
        }
    }
    names
}

/// Each line of a manifest that is neither empty nor a comment, with the section that it is in; a section's own line too.
fn lines_with_sections(manifest: &str) -> Vec<(&str, &str)> {
    let mut section = "";
    let mut lines = Vec::new();
    for line in manifest.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        }
        lines.push((section, line));
    }
    lines
}

/// Whether a program may be built with the dependencies of this section.
fn is_of_a_product(section: &str) -> bool {
    let is_dependencies = section.ends_with("dependencies") || section.contains("dependencies.");
    is_dependencies && !section.contains("dev-dependencies") && section != "workspace.dependencies"
}

/// Whether this line of a manifest says that a crate is depended on: `NAME.workspace = true`, or the section `[dependencies.NAME]`.
fn names_dependency(section: &str, line: &str, name: &str) -> bool {
    let key = line.split(['.', '=', ' ']).next().unwrap_or(line);
    let has_section =
        line.starts_with('[') && section.rsplit_once("dependencies.").is_some_and(|(_, of)| of == name);
    key == name || has_section || line.contains(&format!("package = \"{name}\""))
}

/// Whether a line of `[features]` has a feature other than `sim` enable a crate for tests, or `sim`.
fn enables_dev_crate(line: &str) -> bool {
    let (feature, enabled) = line.split_once('=').unwrap_or((line, ""));
    let is_meant = |word: &str| {
        let word = word.trim_start_matches("dep:");
        word == DEV_FEATURE
            || word.ends_with("/sim")
            || DEV_CRATES.contains(&word.split(['/', '?']).next().unwrap_or(word))
    };
    feature.trim() != DEV_FEATURE && enabled.split('"').any(is_meant)
}

/// Whether a dependency is asked for with this feature.
fn asks_for(line: &str, feature: &str) -> bool {
    line.split_once("features").is_some_and(|(_, rest)| rest.contains(&format!("\"{feature}\"")))
}

/// The first words of what follows `crate::`, also inside braces.
fn listed_names(code: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    match code.strip_prefix('{') {
        Some(list) => top_level_parts(list).map(|part| word(part.trim_start())).collect(),
        None => BTreeSet::from([word(code)]),
    }
}

/// The parts between commas of a `use` list, up to its closing brace; inner lists stay with their part.
fn top_level_parts(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let mut is_over = false;
    list.split(move |c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        is_over |= depth < 0;
        !is_over && depth == 0 && c == ','
    })
}

fn begins_with_sentence(text: &str) -> bool {
    text.lines().next().and_then(|line| line.strip_prefix("# ")).is_some_and(|rest| !rest.trim().is_empty())
}

/// Whether a line has an absolute path below `folder`; a web address that has such a part is none.
fn has_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~/}>*".contains(c))
    })
}

/// The number of a record named `NNNN-title.md`.
fn decision_number(name: &str) -> Option<&str> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let has_digits = number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit());
    let is_title = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (has_digits && !title.is_empty() && title.bytes().all(is_title)).then_some(number)
}

fn has_heading(text: &str, title: &str) -> bool {
    text.lines().any(|line| line.trim_start_matches('#').trim() == title && line.starts_with("##"))
}

/// Fails with the sentences that say what to write.
fn assert_kept(rule: Rule) {
    let files = read_tree(&crate::cargo::root()).expect("the repository can be read");
    let problems = rule(&files);
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn every_module_opens_with_a_header() {
    assert_kept(headers);
}

#[test]
fn the_architecture_names_exactly_the_crates_that_exist() {
    assert_kept(architecture);
}

#[test]
fn the_kernel_takes_plain_types_of_the_model_alone() {
    assert_kept(kernel_knows_no_decisions);
}

#[test]
fn a_family_and_a_protocol_have_one_type_each() {
    assert_kept(network_types_are_the_models);
}

#[test]
fn the_model_depends_on_the_allowed_crates_alone() {
    assert_kept(model_dependencies);
}

#[test]
fn crates_for_tests_are_in_no_program() {
    assert_kept(dev_crates_are_in_no_program);
}

#[test]
fn no_mode_depends_on_another_also_not_through_what_they_share() {
    assert_kept(modes::are_apart);
}

#[test]
fn no_mode_is_named_outside_its_folder() {
    assert_kept(names::are_at_home);
}

#[test]
fn the_lines_of_the_product_are_counted() {
    let files = read_tree(&crate::cargo::root()).expect("the repository can be read");
    let lines = product::lines(&files);
    println!("counted: {} lines of product code: {lines:?}", lines.values().sum::<usize>());
    assert!(lines.contains_key("model"), "{lines:?}");
}

#[test]
fn no_top_modules_of_a_crate_import_each_other_in_a_cycle() {
    assert_kept(cycles::none);
}

#[test]
fn only_the_runtime_reads_a_clock() {
    assert_kept(clocks::are_read_by_the_runtime);
}

#[test]
fn only_the_kernel_crate_is_unsafe() {
    assert_kept(unsafe_is_in_kernel);
}

#[test]
fn every_scenario_is_run_and_says_what_it_shows() {
    assert_kept(scenarios);
}

#[test]
fn no_file_names_a_private_folder() {
    assert_kept(no_private_paths);
}

#[test]
fn the_changelog_has_a_place_for_what_comes_next() {
    assert_kept(changelog);
}

#[test]
fn every_decision_record_is_complete() {
    assert_kept(decisions);
}

#[test]
fn no_test_is_ignored_in_silence() {
    assert_kept(no_ignored_tests);
}

//! Finds the links on the way to a file.
//!
//! In: a path. Out: each folder and name at which the path could be turned elsewhere: every link in it, links behind
//! links too, and what it leads to in the end. Whoever watches those folders misses no swap.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows.
const LINKS_MAX: usize = 40;

/// A name in a folder; the folder is free of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Station {
    pub(super) folder: PathBuf,
    pub(super) name: OsString,
}

/// The links on the way to `path`, and its last station.
pub(super) fn stations(path: &Path) -> Vec<Station> {
    let mut way = Way::new(path);
    while let Some(step) = way.ahead.pop_front() {
        way.go(step);
    }
    way.stations
}

struct Way {
    here: PathBuf,
    ahead: VecDeque<Step>,
    stations: Vec<Station>,
    links_left: usize,
}

enum Step {
    Root,
    Up,
    To(OsString),
}

impl Way {
    fn new(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { here: PathBuf::from("/"), ahead: steps(&path), stations: Vec::new(), links_left: LINKS_MAX }
    }

    fn go(&mut self, step: Step) {
        match step {
            Step::Root => self.here = PathBuf::from("/"),
            Step::Up => {
                self.here.pop();
            }
            Step::To(name) => self.enter(name),
        }
    }

    fn enter(&mut self, name: OsString) {
        let next = self.here.join(&name);
        match fs::read_link(&next) {
            Ok(target) if self.links_left > 0 => {
                self.links_left -= 1;
                self.stations.push(Station { folder: self.here.clone(), name });
                self.turn(&target);
            }
            _ => {
                let folder = std::mem::replace(&mut self.here, next);
                if self.ahead.is_empty() {
                    self.stations.push(Station { folder, name });
                }
            }
        }
    }

    fn turn(&mut self, target: &Path) {
        let mut ahead = steps(target);
        ahead.append(&mut self.ahead);
        self.ahead = ahead;
    }
}

fn steps(path: &Path) -> VecDeque<Step> {
    path.components()
        .filter_map(|component| match component {
            Component::RootDir => Some(Step::Root),
            Component::ParentDir => Some(Step::Up),
            Component::Normal(name) => Some(Step::To(name.to_owned())),
            Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<String> {
        stations(Path::new(path)).iter().map(|s| s.folder.join(&s.name).display().to_string()).collect()
    }

    #[test]
    fn a_path_without_links_has_its_last_station_only() {
        assert_eq!(names("/nowhere/./a/../b.yaml"), ["/nowhere/b.yaml"]);
        assert_eq!(names("/"), [""; 0]);
    }

    #[test]
    fn links_behind_links_are_stations() {
        let stations = names("/proc/self/exe");
        assert_eq!(stations.first().map(String::as_str), Some("/proc/self"));
        assert!(stations.iter().any(|station| station.ends_with("/exe")), "{stations:?}");
        assert!(stations.len() >= 3, "{stations:?}");
    }
}

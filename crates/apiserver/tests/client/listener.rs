//! The other end of the client: what it told, as a picture, and waiting for something to be in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use apiserver::{Access, KubeconfigFile, News, Pace, Settings, Trigger, Trouble, Watched};
use mockapi::MockApi;
use model::{Cluster, Config};

/// Whatever is waited for is there long before.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client, and what it told.
pub(crate) struct Listener {
    news: Receiver<News>,
    listens: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pub(crate) cluster: Cluster,
    pub(crate) complete: BTreeSet<Watched>,
    pub(crate) absent: BTreeSet<Watched>,
    pub(crate) troubles: Vec<Trouble>,
    pub(crate) unreadable: Vec<String>,
    pub(crate) heard: usize,
    /// How often the server took a watch, before it said anything on it.
    pub(crate) answered: BTreeMap<Watched, usize>,
    pub(crate) triggers: Vec<Trigger>,
    /// Changes of objects, counted.
    pub(crate) changes: usize,
    /// How often each kind was listed in full.
    pub(crate) lists: BTreeMap<Watched, usize>,
}

/// Waits of milliseconds where the real ones are seconds.
pub(crate) fn quick() -> Pace {
    Pace {
        wait_min: Duration::from_millis(5),
        wait_max: Duration::from_millis(50),
        answer: Duration::from_secs(10),
        silence: Duration::from_secs(10),
        at_once: Duration::from_millis(100),
        calm: Duration::from_secs(5),
        older: Duration::from_secs(600),
        lookup: Duration::from_millis(5),
    }
}

impl Listener {
    /// Of the server, as nobody in particular.
    pub(crate) fn of(server: &MockApi) -> Self {
        Self::start(Access::Master(server.url()), quick())
    }

    /// With another pace.
    pub(crate) fn paced(server: &MockApi, pace: Pace) -> Self {
        Self::start(Access::Master(server.url()), pace)
    }

    /// By a kubeconfig.
    pub(crate) fn with_kubeconfig(path: PathBuf) -> Self {
        Self::start(Access::Kubeconfig { file: KubeconfigFile::of_flag(path), master: None }, quick())
    }

    pub(crate) fn start(access: Access, pace: Pace) -> Self {
        Self::of_proxy(access, pace, None)
    }

    pub(crate) fn of_proxy(access: Access, pace: Pace, service_proxy_name: Option<String>) -> Self {
        let settings = Settings { access, node_name: "a".into(), service_proxy_name, pace };
        let (sender, news) = channel();
        let listens = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&listens);
        let thread = thread::spawn(move || {
            let mut tell = |news| flag.load(Ordering::Relaxed) && sender.send(news).is_ok();
            apiserver::watch(&settings, &mut tell).unwrap();
        });
        Self {
            news,
            listens,
            thread: Some(thread),
            cluster: Cluster::new(Config { node_name: "a".into(), ..Config::default() }),
            complete: BTreeSet::new(),
            absent: BTreeSet::new(),
            troubles: Vec::new(),
            unreadable: Vec::new(),
            heard: 0,
            answered: BTreeMap::new(),
            triggers: Vec::new(),
            changes: 0,
            lists: BTreeMap::new(),
        }
    }

    /// Takes in news until the condition holds.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.news.recv_timeout(left) {
                Ok(news) => self.take(news),
                Err(error) => panic!("never came: {what} ({error}). {}", self.state()),
            }
        }
    }

    /// Until Services and slices are complete.
    pub(crate) fn until_complete(&mut self) {
        self.until("Services and slices are complete", |seen| {
            seen.complete.contains(&Watched::Services) && seen.complete.contains(&Watched::EndpointSlices)
        });
    }

    /// Until the Services are these.
    pub(crate) fn until_services(&mut self, names: &[&str]) {
        let wanted: Vec<String> = names.iter().map(|name| format!("default/{name}")).collect();
        self.until(&format!("the Services {names:?}"), |seen| seen.services() == wanted);
    }

    /// Until there is trouble whose sentence has these words.
    pub(crate) fn until_trouble(&mut self, words: &str) -> Trouble {
        self.until(&format!("trouble with the words {words:?}"), |seen| {
            seen.troubles.iter().any(|trouble| trouble.reason.contains(words))
        });
        self.troubles.iter().find(|trouble| trouble.reason.contains(words)).cloned().unwrap()
    }

    /// All Services that were told and are not gone.
    pub(crate) fn services(&self) -> Vec<String> {
        self.cluster.services().map(|service| service.name.to_string()).collect()
    }

    fn take(&mut self, news: News) {
        match news {
            News::Changed { events, triggers, .. } => {
                self.triggers.extend(triggers);
                self.changes += events.len();
                for event in events {
                    self.cluster.apply(event);
                }
            }
            News::Complete { of, unreadable } => {
                self.complete.insert(of);
                *self.lists.entry(of).or_default() += 1;
                self.unreadable.extend(unreadable.iter().map(ToString::to_string));
            }
            News::Unreadable { report, .. } => self.unreadable.push(report.to_string()),
            News::Absent(of) => drop(self.absent.insert(of)),
            News::Answered(of) => *self.answered.entry(of).or_default() += 1,
            News::Heard(_) => self.heard += 1,
            News::Trouble(trouble) => self.troubles.push(trouble),
        }
    }

    fn state(&self) -> String {
        format!(
            "services {:?}, complete {:?}, absent {:?}, unreadable {:?}, troubles {:#?}",
            self.services(),
            self.complete,
            self.absent,
            self.unreadable,
            self.troubles
        )
    }
}

impl Drop for Listener {
    /// The client notices with its next word, or never: nothing waits for it.
    fn drop(&mut self) {
        self.listens.store(false, Ordering::Relaxed);
        drop(self.thread.take());
    }
}

/// A folder that is gone after the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("portway-apiserver-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

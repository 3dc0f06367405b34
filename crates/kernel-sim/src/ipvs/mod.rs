//! Virtual servers in memory, which answer as the kernel's do and let tests set what only traffic would.
//!
//! Clones share one kernel, as two sockets do: a test keeps one and gives the other away. [`Simulated::copy`] is another kernel
//! in the same state.

mod deliver;

pub use deliver::{Answer, Share};

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kernel::ipvs::{
    Counts, Error, Family, Flags, FoundServer, Ipvs, RealServer, Refused, Request, Result, Timeouts,
    VirtualServer, What,
};
use kernel::netlink::Errno;

use deliver::Remembered;

/// The schedulers of a kernel that has them all.
const SCHEDULERS: [&str; 13] =
    ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"];

/// A kernel with IPVS. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Simulated {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) servers: BTreeMap<What, Behind>,
    pub(super) remembered: Remembered,
    schedulers: BTreeSet<String>,
    timeouts: Timeouts,
    fault: Option<Error>,
    messages: u64,
    requests: Vec<Request>,
}

/// A virtual server and what is behind it.
#[derive(Debug, Clone)]
pub(super) struct Behind {
    pub(super) server: VirtualServer,
    pub(super) real: BTreeMap<SocketAddr, FoundServer>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            servers: BTreeMap::new(),
            remembered: Remembered::default(),
            schedulers: SCHEDULERS.map(str::to_owned).into(),
            timeouts: Timeouts { tcp_s: 900, tcp_fin_s: 120, udp_s: 300 },
            fault: None,
            messages: 0,
            requests: Vec::new(),
        }
    }
}

impl Simulated {
    /// Another kernel in the same state.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self { state: Arc::new(Mutex::new(self.state().clone())) }
    }

    /// Takes the module of a scheduler away. Virtual servers that use it stay.
    pub fn forget_scheduler(&self, name: &str) {
        self.state().schedulers.remove(name);
    }

    /// Says how many connections a real server has; false if there is no such server.
    pub fn set_connections(&self, of: &What, server: SocketAddr, active: u32, inactive: u32) -> bool {
        let mut state = self.state();
        let found = state.servers.get_mut(of).and_then(|behind| behind.real.get_mut(&server));
        found.map(|found| (found.active, found.inactive) = (active, inactive)).is_some()
    }

    /// From now on everything fails with this; with `None` nothing does.
    pub fn set_fault(&self, fault: Option<Error>) {
        self.state().fault = fault;
    }

    /// Takes the requests that were made since the last time, refused ones too.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state().requests)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One message to the kernel.
    fn ask(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.messages += 1;
        match &state.fault {
            Some(fault) => Err(fault.clone()),
            None => Ok(state),
        }
    }
}

impl Ipvs for Simulated {
    fn virtual_servers(&mut self) -> Result<Vec<VirtualServer>> {
        Ok(self.ask()?.servers.values().map(|behind| behind.server.clone()).collect())
    }

    fn real_servers(&mut self, of: &What) -> Result<Vec<FoundServer>> {
        let state = self.ask()?;
        Ok(state.servers.get(of).map(|behind| behind.real.values().copied().collect()).unwrap_or_default())
    }

    fn run(&mut self, requests: &[Request]) -> Result<Vec<Refused>> {
        let mut refused = Vec::new();
        for (at, request) in requests.iter().enumerate() {
            let mut state = self.ask()?;
            state.requests.push(request.clone());
            if let Err(errno) = state.carry_out(request) {
                refused.push(Refused { at, request: request.clone(), refusal: Errno(errno).into() });
            }
        }
        Ok(refused)
    }

    fn timeouts(&mut self) -> Result<Timeouts> {
        Ok(self.ask()?.timeouts)
    }

    fn messages(&self) -> u64 {
        self.state().messages
    }
}

/// The kernel keeps a signed number.
fn weight(server: &RealServer) -> Done {
    i32::try_from(server.weight).map(drop).map_err(|_| libc::ERANGE)
}

/// `Err` is the kernel's error number.
type Done = std::result::Result<(), i32>;

impl State {
    fn carry_out(&mut self, request: &Request) -> Done {
        match request {
            Request::Add(server) => self.add(server),
            Request::Change(server) => self.change(server),
            Request::Delete(what) => self.servers.remove(what).map(drop).ok_or(libc::ESRCH),
            Request::AddServer(what, server) => self.add_server(what, server),
            Request::ChangeServer(what, server) => {
                let real = &mut self.behind(what)?.real;
                weight(server)?;
                real.get_mut(&server.address).ok_or(libc::ENOENT)?.server = *server;
                Ok(())
            }
            Request::DeleteServer(what, address) => {
                self.behind(what)?.real.remove(address).map(drop).ok_or(libc::ENOENT)
            }
            Request::SetTimeouts(to) => {
                let set = |now: &mut u32, to: u32| *now = if to == 0 { *now } else { to };
                set(&mut self.timeouts.tcp_s, to.tcp_s);
                set(&mut self.timeouts.tcp_fin_s, to.tcp_fin_s);
                set(&mut self.timeouts.udp_s, to.udp_s);
                Ok(())
            }
        }
    }

    fn behind(&mut self, what: &What) -> std::result::Result<&mut Behind, i32> {
        self.servers.get_mut(what).ok_or(libc::ESRCH)
    }

    fn add(&mut self, server: &VirtualServer) -> Done {
        if self.servers.contains_key(&server.what) {
            return Err(libc::EEXIST);
        }
        let server = self.admitted(server)?;
        self.servers.insert(server.what, Behind { server, real: BTreeMap::new() });
        Ok(())
    }

    fn change(&mut self, server: &VirtualServer) -> Done {
        let admitted = self.admitted(server);
        self.behind(&server.what)?.server = admitted?;
        Ok(())
    }

    fn admitted(&self, server: &VirtualServer) -> std::result::Result<VirtualServer, i32> {
        if !self.schedulers.contains(&server.scheduler) {
            return Err(libc::ENOENT);
        }
        if server.what.family() == Family::V6 && !(1..=128).contains(&server.client_bits) {
            return Err(libc::EINVAL);
        }
        Ok(VirtualServer { flags: Flags(server.flags.0 & Flags::SETTABLE), ..server.clone() })
    }

    fn add_server(&mut self, what: &What, server: &RealServer) -> Done {
        let real = &mut self.behind(what)?.real;
        if Family::of(server.address.ip()) != what.family() {
            return Err(libc::EINVAL);
        }
        weight(server)?;
        if real.contains_key(&server.address) {
            return Err(libc::EEXIST);
        }
        let found =
            FoundServer { server: *server, active: 0, inactive: 0, persistent: 0, counts: Counts::default() };
        real.insert(server.address, found);
        Ok(())
    }
}

//! Stand-in for `leaderwatch_agent::runtime` until that is there: prints what it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use leaderwatch_agent::leadership::{SeatKey, SessionId};
use leaderwatch_agent::process::{JvmFacts, Role};

/// Flink's word on the ResourceManager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its heartbeat timed out.
    HeartbeatTimeout,
    /// It cannot be reached.
    TargetUnreachable,
}

/// What became of each hook.
#[derive(Debug, Default)]
pub struct HookStates(Mutex<BTreeMap<String, String>>);

impl HookStates {
    /// All of these classes not seen yet.
    pub fn new(classes: &[&str]) -> Self {
        Self(Mutex::new(classes.iter().map(|class| ((*class).to_owned(), "not seen yet".to_owned())).collect()))
    }

    /// The class is hooked.
    pub fn installed(&self, class: &str) {
        self.set(class, "installed".to_owned());
    }

    /// The class is not hooked, and why.
    pub fn refused(&self, class: &str, reason: String) {
        self.set(class, reason);
    }

    fn set(&self, class: &str, state: String) {
        println!("hook {class}: {state}");
        if let Ok(mut states) = self.0.lock() {
            states.insert(class.to_owned(), state);
        }
    }
}

/// The agent.
#[derive(Debug)]
pub struct Agent;

/// Starts the agent.
pub fn start(facts: JvmFacts, role: Role, options: String, _hooks: Arc<HookStates>) -> Agent {
    println!("agent.started {role:?} options={options} {facts:?}");
    Agent
}

impl Agent {
    /// A leader was announced.
    pub fn observe(&self, seat: SeatKey, leader: Option<(SessionId, Option<&str>)>) {
        let job = seat.job_id.map_or("-".to_owned(), |job| job.to_string());
        let leader = leader.map_or("none".to_owned(), |(id, address)| format!("{id} {address:?}"));
        println!("observed {} {job} {leader}", seat.component.name());
    }

    /// Flink holds the ResourceManager for dead.
    pub fn unreachable(&self, verdict: Verdict) {
        println!("unreachable {verdict:?}");
    }

    /// The JVM ends.
    pub fn stop(&self) {
        println!("agent.stopped");
    }
}

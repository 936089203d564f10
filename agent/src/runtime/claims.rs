//! Makes what agents share by the claim store: the gate of the sender, by which one sends for the cluster, and the memory
//! of leaders.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::claim::{Choice, ClaimGate, FileStore, GateSettings, Holder, Memory, Store, Surroundings, choose};
use crate::clock::Clock;
use crate::config::{Environment, Settings};
use crate::delivery::{Command, Problem, Progress, Report, Submission};
use crate::target::resolver::Resolver;

/// Name of the folder in which leaders are remembered that no store remembers, in the state folder.
const LEADERS_FOLDER: &str = "leaders";

/// The store of claims; none where every agent sends. Connects to nothing yet.
pub fn store(settings: &Settings, env: &dyn Environment, report: &Arc<dyn Report>) -> Option<Arc<dyn Store>> {
    let around = Surroundings {
        flink: &settings.flink,
        namespace: settings.namespace.as_deref(),
        cluster: &settings.cluster,
        env,
        resolver: Resolver::default(),
    };
    match choose(&settings.claim.store, &around) {
        Choice::Store(store) => Some(store),
        Choice::Nothing => None,
        Choice::Impossible(reason) => {
            let what = format!("claim store {}", settings.claim.store);
            let reason = format!("{reason}; every agent sends its own alerts");
            report.report(Progress::Problem(Problem::new(what, reason)));
            None
        }
    }
}

/// Where leaders are remembered: in the store that the agents share, else in this agent's own state folder.
pub fn memory(store: Option<Arc<dyn Store>>, settings: &Settings) -> Memory {
    let own = || Arc::new(FileStore::private(super::state_folder(settings).join(LEADERS_FOLDER)));
    Memory::new(store.unwrap_or_else(|| own()), settings.alert.remember_for)
}

/// The gate. Connects to nothing yet.
pub fn gate(store: Arc<dyn Store>, settings: &Settings, clock: &Arc<dyn Clock>, report: &Arc<dyn Report>) -> ClaimGate {
    let mut gate_settings = GateSettings::new(Holder::new(&settings.observer), settings.claim.lease);
    let takes = settings.targets.iter().map(|target| (target.name.clone(), target.connection.timeout));
    gate_settings.takes = takes.collect();
    ClaimGate::new(store, gate_settings, Arc::clone(clock), Arc::clone(report))
}

/// Submits what others claimed and never finished, to the targets that this agent knows.
pub async fn take_unfinished(gate: ClaimGate, targets: Vec<String>, sender: mpsc::Sender<Command>) {
    for (notice, target) in gate.unfinished().await {
        if !targets.contains(&target) {
            continue;
        }
        // A sender that has ended takes nothing more.
        let _ = sender.send(Command::Send(Submission::new(notice, vec![target], None))).await;
    }
}

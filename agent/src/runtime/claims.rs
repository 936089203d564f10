//! Makes the gate of the sender: who sends for the cluster, as the configuration says.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::claim::{Choice, ClaimGate, GateSettings, Holder, Surroundings, choose};
use crate::clock::Clock;
use crate::config::{Environment, Settings};
use crate::delivery::{Command, Problem, Progress, Report, Submission};
use crate::target::resolver::Resolver;

/// The gate; none where every agent sends. Connects to nothing yet.
pub fn gate(
    settings: &Settings,
    env: &dyn Environment,
    clock: &Arc<dyn Clock>,
    report: &Arc<dyn Report>,
) -> Option<ClaimGate> {
    let around = Surroundings {
        flink: &settings.flink,
        namespace: settings.namespace.as_deref(),
        cluster: &settings.cluster,
        env,
        resolver: Resolver::default(),
    };
    let store = match choose(&settings.claim.store, &around) {
        Choice::Store(store) => store,
        Choice::Nothing => return None,
        Choice::Impossible(reason) => {
            let what = format!("claim store {}", settings.claim.store);
            let reason = format!("{reason}; every agent sends its own alerts");
            report.report(Progress::Problem(Problem::new(what, reason)));
            return None;
        }
    };
    let mut gate_settings = GateSettings::new(Holder::new(&settings.observer), settings.claim.lease);
    let takes = settings.targets.iter().map(|target| (target.name.clone(), target.connection.timeout));
    gate_settings.takes = takes.collect();
    Some(ClaimGate::new(store, gate_settings, Arc::clone(clock), Arc::clone(report)))
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

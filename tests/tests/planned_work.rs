//! Planned work is no failover: a TaskManager that goes, a job that is stopped with a savepoint and started with another
//! parallelism, the whole cluster stopped and started under its id. And what is not planned still is one, though the only
//! TaskManager was not there to see it.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use leaderwatch_tests::alert_log;
use leaderwatch_tests::cluster::Cluster;
use leaderwatch_tests::installation::Installation;
use leaderwatch_tests::watched::LIMIT;
use leaderwatch_tests::webhook::WebhookReceiver;
use leaderwatch_tests::{agent, wait};
use serde_json::{Value, json};

/// Waits until a TaskManager that has just been started has been told by Flink who leads.
fn start_task_manager(cluster: &mut Cluster, index: usize) {
    let known = cluster.task_managers[index].alert_log().unwrap().len();
    cluster.task_managers[index].start().unwrap();
    wait::until("the TaskManager to be told who leads", LIMIT, || {
        let records = cluster.task_managers[index].alert_log()?.split_off(known);
        Ok((!alert_log::of(&records, "leader.elected").is_empty()).then_some(()))
    })
    .unwrap();
}

/// As `bin/stop-cluster.sh` and `bin/start-cluster.sh` do.
fn restart_all(cluster: &mut Cluster) {
    for server in
        cluster.task_managers.iter_mut().chain(&mut cluster.job_managers).filter(|server| server.pid().is_ok())
    {
        server.terminate(LIMIT).unwrap();
    }
    cluster.job_managers[0].start().unwrap();
    for index in 0..cluster.task_managers.len() {
        start_task_manager(cluster, index);
    }
}

/// Stops a job with a savepoint; returns where that is.
fn stop_with_savepoint(cluster: &mut Cluster, job: &str) -> String {
    let folder = format!("file://{}", cluster.folder.join("savepoints").display());
    let body = json!({"targetDirectory": folder, "drain": false}).to_string();
    let path = format!("/jobs/{job}/stop");
    let rest = cluster.rest().unwrap();
    let trigger = rest.post(&path, "application/json", body.as_bytes()).unwrap()["request-id"].clone();
    let path = format!("/jobs/{job}/savepoints/{}", trigger.as_str().unwrap());
    wait::until("the savepoint", LIMIT, || Ok(rest.get(&path)?["operation"]["location"].as_str().map(str::to_owned)))
        .unwrap()
}

/// Starts the job that was uploaded last from a savepoint, on two slots.
fn start_from(cluster: &mut Cluster, savepoint: &str) -> String {
    let rest = cluster.rest().unwrap();
    let job = wait::until("the job to be taken", LIMIT, || {
        let jars = rest.get("/jars")?;
        let Some(jar) = jars["files"][0]["id"].as_str() else { return Ok(None) };
        let body = json!({
            "programArgsList": ["orders-to-invoices", "100"], "parallelism": 2, "savepointPath": savepoint,
        });
        let started = rest.post(&format!("/jars/{jar}/run"), "application/json", body.to_string().as_bytes())?;
        Ok(started["jobid"].as_str().map(str::to_owned))
    })
    .unwrap();
    cluster.wait_for_job(&job, LIMIT).unwrap();
    job
}

#[test]
fn raises_no_failover_2_3() {
    let installation = Installation::fetch("2.3.0").unwrap();
    let webhook = WebhookReceiver::start().unwrap();
    let option = agent::java_option(&agent::library().unwrap(), &[("webhook", &webhook.url())]);
    let builder = Cluster::builder(&installation).task_managers(2);
    let mut cluster = builder.java_options(&option).job_manager_java_options(&option).start().unwrap();
    let job = cluster.submit("orders-to-invoices", 100).unwrap();

    cluster.task_managers[1].kill().unwrap();
    start_task_manager(&mut cluster, 1);
    cluster.wait_for_job(&job, LIMIT).unwrap();

    // The job runs on.
    restart_all(&mut cluster);
    cluster.wait_for_job(&job, LIMIT).unwrap();

    let savepoint = stop_with_savepoint(&mut cluster, &job);
    restart_all(&mut cluster);
    let job = start_from(&mut cluster, &savepoint);

    // What is no planned work is told, and is all that is.
    cluster.start_standby(1).unwrap();
    cluster.job_managers[0].kill().unwrap();
    let failovers =
        || -> Vec<Value> { webhook.delivered().into_iter().filter(|alert| alert["class"] == "failover").collect() };
    let told = wait::until("the failover", LIMIT, || Ok(Some(failovers()).filter(|told| !told.is_empty()))).unwrap();
    cluster.wait_for_job(&job, LIMIT).unwrap();
    for server in &mut cluster.task_managers {
        server.terminate(LIMIT).unwrap();
        let records = server.alert_log().unwrap();
        let raised = alert_log::of(&records, "alert.raised");
        let mut failovers = raised.iter().map(|record| &record["alert"]).filter(|alert| alert["class"] == "failover");
        assert!(failovers.all(|alert| alert["id"] == told[0]["id"]), "{}: {raised:#?}", server.name);
    }
    assert_eq!(failovers().len(), 1);
    // A leading JobManager that is stopped may see its seat empty at its end, and says so at once; nobody else has cause to.
    for alert in webhook.delivered().iter().filter(|alert| alert["class"] != "failover") {
        assert_eq!(alert["observer"]["role"], "jobmanager", "{alert:#}");
        assert!(["no_leader", "resolved"].iter().any(|class| alert["class"] == *class), "{alert:#}");
    }
    cluster.finish();
}

/// As an upgrade does that restarts one JobManager after the other.
#[test]
fn a_leader_that_is_stopped_in_order_says_so_2_3() {
    let installation = Installation::fetch("2.3.0").unwrap();
    let webhook = WebhookReceiver::start().unwrap();
    let option = agent::java_option(&agent::library().unwrap(), &[("webhook", &webhook.url())]);
    let builder = Cluster::builder(&installation).java_options(&option).job_manager_java_options(&option);
    let mut cluster = builder.start().unwrap();
    let job = cluster.submit("orders-to-invoices", 100).unwrap();
    cluster.start_standby(1).unwrap();
    cluster.job_managers[0].terminate(LIMIT).unwrap();
    let failovers =
        || -> Vec<Value> { webhook.delivered().into_iter().filter(|alert| alert["class"] == "failover").collect() };
    let told = wait::until("the failover", LIMIT, || Ok(failovers().into_iter().next())).unwrap();
    assert_eq!(told["cause"], "orderly_stop", "{told:#}");
    cluster.wait_for_job(&job, LIMIT).unwrap();
    assert_eq!(failovers().len(), 1);
    cluster.finish();
}

/// The only TaskManager dies, and before it is back, so does the leader. `store` says where that leader is remembered.
fn what_nobody_saw_is_told(store: &str) {
    let installation = Installation::fetch("2.3.0").unwrap();
    let webhook = WebhookReceiver::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leaderwatch.toml");
    let text = format!(
        "[claim]\nstore = \"{store}\"\n[[target]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{}\"\n",
        webhook.url()
    );
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().expect("the path is plain");
    let option = agent::java_option(&agent::library().unwrap(), &[("config", path)]);
    let mut cluster = Cluster::builder(&installation).java_options(&option).start().unwrap();
    let elected = |cluster: &Cluster| -> anyhow::Result<Vec<Value>> {
        let records = cluster.task_managers[0].alert_log()?;
        Ok(alert_log::of(&records, "leader.elected").into_iter().cloned().collect())
    };
    let old = wait::until("the TaskManager to be told who leads", LIMIT, || Ok(elected(&cluster)?.pop())).unwrap();
    // A first sight is written at once, within the time that the disk or ZooKeeper takes.
    std::thread::sleep(Duration::from_secs(3));
    cluster.task_managers[0].kill().unwrap();
    cluster.job_managers[0].kill().unwrap();
    cluster.start_standby(1).unwrap();
    cluster.task_managers[0].start().unwrap();
    let told = webhook.wait_for(1, LIMIT).unwrap();
    assert_eq!(told[0]["class"], "failover");
    assert_eq!(told[0]["old_leader"]["id"], old["leader_id"], "{:#}", told[0]);
    assert_ne!(told[0]["new_leader"]["id"], old["leader_id"], "{:#}", told[0]);
    cluster.finish();
}

#[test]
fn what_nobody_saw_is_told_from_the_store_2_3() {
    what_nobody_saw_is_told("auto");
}

#[test]
fn what_nobody_saw_is_told_from_the_state_folder_2_3() {
    what_nobody_saw_is_told("none");
}

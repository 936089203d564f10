//! `leaderwatch check --flink-conf` on the configuration that Flink ships, and on the one under which a TaskManager of 2.3.0
//! was seen to end 51 seconds after ZooKeeper went away.
#![allow(clippy::unwrap_used)]

use std::fs;

use leaderwatch_agent::config::{Report, SystemEnvironment, check_flink_conf};
use leaderwatch_tests::installation::Installation;

/// The report on a configuration as shipped, with these lines behind it.
fn report(version: &str, more: &str) -> Report {
    let shipped = Installation::fetch(version).unwrap().flink_home.join("conf");
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(&shipped).unwrap().flatten() {
        fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let name = if version.starts_with("1.14") { "flink-conf.yaml" } else { "config.yaml" };
    let file = folder.path().join(name);
    fs::write(&file, fs::read_to_string(&file).unwrap() + "\n" + more).unwrap();
    check_flink_conf(folder.path(), Some(version), None, &SystemEnvironment)
        .unwrap()
        .expect("Flink's configuration is there")
}

#[test]
fn a_shipped_flink_is_not_ready_and_nothing_else_is_wrong_with_it() {
    for version in ["1.14.6", "2.3.0"] {
        let report = report(version, "");
        assert!(report.text.contains("no high availability"), "{version}: {}", report.text);
        assert!(report.text.contains("for ever: there is one leader for good"), "{version}: {}", report.text);
        assert_eq!(report.errors, 1, "{version}: {}", report.text);
    }
}

#[test]
fn a_taskmanager_that_ends_before_it_can_alert_is_told() {
    let conf = "high-availability.type: zookeeper\nhigh-availability.zookeeper.quorum: zk:2181\n\
                high-availability.storageDir: s3://bucket/ha\nhigh-availability.cluster-id: /orders\n";
    let report = report("2.3.0", conf);
    assert!(report.text.contains("31s typically, 55s at most; TaskManagers end then"), "{}", report.text);
    assert!(report.text.contains("high-availability.zookeeper.client.max-retry-attempts"), "{}", report.text);
    assert!(report.errors >= 1, "{}", report.text);
}

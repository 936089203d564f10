//! Alerts about nothing: for `leaderwatch test`, for previews, and for trying templates.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::id::alert_id;
use super::model::{Alert, Cause, Class, Member, Severity};
use super::text::Texts;
use crate::leadership::{Component, JobId, Leader, SessionId};
use crate::process::{Observer, Role};

/// What a drill takes from the cluster that it is for.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// Name of the Flink cluster.
    pub cluster: String,
    /// Kubernetes namespace, where there is one.
    pub namespace: Option<String>,
    /// The user's own labels.
    pub labels: BTreeMap<String, String>,
    /// Who sends.
    pub observer: Observer,
    /// When.
    pub at: Timestamp,
    /// Another one for each drill, so that no receiver takes a second drill for a repeat of the first.
    pub number: u128,
}

/// The drill that is sent: people read what an alert of the class `asked` says, below the remark that it is a drill;
/// machines see the class `test`.
pub fn sent(asked: Class, circumstances: Circumstances, texts: &Texts) -> Alert {
    let Circumstances { cluster, namespace, labels, observer, at, number } = circumstances;
    let id = alert_id("drill", namespace.as_deref(), &cluster, SessionId(number));
    let mut alert = Alert { id, namespace, occurred_at: at, observer, labels, ..alert(asked, &cluster) };
    texts.write(&mut alert);
    let remark = Alert {
        class: Class::Test,
        members: Vec::new(),
        old_leader: None,
        new_leader: None,
        leaderless_ms: None,
        labels: BTreeMap::new(),
        ..alert.clone()
    };
    let (mark, remark) = (texts.drill_mark(&remark), texts.built_in_text(&remark));
    if !alert.title.starts_with(&mark) {
        alert.title = format!("{mark} {}", alert.title);
    }
    if !alert.text.contains(&remark) {
        alert.text = format!("{remark}\n\n{}", alert.text);
    }
    Alert { class: Class::Test, severity: Severity::Info, ..alert }
}

/// An alert of that class as it would be, marked as a drill. Its texts are still to be written.
pub fn alert(class: Class, cluster: &str) -> Alert {
    let leader = |id: u128, host: &str, component: &str| {
        let address = format!("pekko.tcp://flink@{host}:6123/user/rpc/{component}_0");
        Some(Leader { id: SessionId(id), address: Some(address.into()) })
    };
    let (old_id, new_id) = (0x3a62_5335_787d_424d_a8d3_f4aa_6dfb_28d8, 0x1200_ef14_3ecc_45b5_b44b_3d52_4a60_8327);
    let has_leader = class != Class::NoLeader;
    let member = |component: Component, job_id: Option<JobId>, job_name: Option<&str>, path: &str| Member {
        component,
        job_id,
        job_name: job_name.map(str::to_owned),
        old_leader: leader(old_id, "jobmanager-1.example.org", path),
        new_leader: leader(new_id, "jobmanager-2.example.org", path).filter(|_| has_leader),
        joined: false,
    };
    let job = JobId(0xd08a_6840_506c_f237_38c9_826f_b52c_a78d);
    let members = vec![
        member(Component::ResourceManager, None, None, "resourcemanager"),
        member(Component::JobManager, Some(job), Some("example-job"), "jobmanager"),
    ];
    Alert {
        schema: 1,
        id: alert_id("drill", None, cluster, SessionId(new_id)),
        class,
        resolves: (class == Class::Resolved).then_some(Class::Failover),
        drill: true,
        severity: if class == Class::Failover { Severity::Critical } else { Severity::Info },
        cluster: cluster.to_owned(),
        namespace: None,
        occurred_at: Timestamp::UNIX_EPOCH,
        title: String::new(),
        text: String::new(),
        leaderless_ms: has_leader.then_some(585),
        same_address: has_leader.then_some(false),
        cause: Some(Cause::Revoked),
        old_leader: members[0].old_leader.clone(),
        new_leader: members[0].new_leader.clone(),
        members,
        members_left_out: 0,
        elections: (class == Class::Flapping).then_some(3),
        observer: Observer {
            host: "drill".to_owned(),
            pid: std::process::id(),
            pod: None,
            role: Role::TaskManager,
            flink_version: None,
        },
        labels: BTreeMap::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::alert::OwnTexts;
    use crate::config::Language;

    fn circumstances(number: u128) -> Circumstances {
        let observer = alert(Class::Test, "").observer;
        let labels = [("env".to_owned(), "prod".to_owned())].into();
        Circumstances { cluster: "orders".into(), namespace: None, labels, observer, at: Timestamp::UNIX_EPOCH, number }
    }

    #[test]
    fn people_read_the_asked_class_as_a_drill_and_machines_see_a_test() {
        let drill = sent(Class::Failover, circumstances(1), &Texts::default());
        assert_eq!((drill.class, drill.severity, drill.drill), (Class::Test, Severity::Info, true));
        assert_eq!(
            drill.title,
            "[DRILL] Flink orders: JobManager leadership moved to jobmanager-2.example.org:6123, 1 job"
        );
        assert!(drill.text.starts_with("This is a drill of Leaderwatch for Flink cluster orders."), "{}", drill.text);
        assert!(drill.text.contains("was replaced at") && drill.text.contains("env: prod"), "{}", drill.text);
        assert_ne!(drill.id, sent(Class::Failover, circumstances(2), &Texts::default()).id);
    }

    #[test]
    fn a_drill_of_a_test_says_it_once() {
        let drill = sent(Class::Test, circumstances(1), &Texts::default());
        assert_eq!(drill.text.matches("This is a drill").count(), 1, "{}", drill.text);
    }

    #[test]
    fn it_is_marked_in_every_language_and_whatever_the_user_writes() {
        let own = || OwnTexts { title: Some("moved".into()), text: Some("moved".into()), link: None };
        let languages = [
            (Language::English, "[DRILL] moved"),
            (Language::SimplifiedChinese, "[演练] moved"),
            (Language::TraditionalChinese, "[演練] moved"),
            (Language::Korean, "[훈련] moved"),
        ];
        for (language, title) in languages {
            let (texts, _) = Texts::new(language, TimeZone::UTC, own());
            let drill = sent(Class::NoLeader, circumstances(1), &texts);
            assert_eq!(drill.title, title);
            assert!(drill.text.ends_with("\n\nmoved\n") && drill.text.len() > 20, "{}", drill.text);
        }
    }
}

//! The outbox on a real file system.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use super::*;
use crate::alert::{Alert, Class, Severity};
use crate::process::{Observer, Role};
use crate::target::{Action, Notice};

/// A notice for tests, whose alert occurred at the epoch.
pub(crate) fn notice(message_id: &str, text: &str) -> Notice {
    Notice {
        message_id: message_id.into(),
        action: Action::Raise,
        alert: Alert {
            schema: 1,
            id: message_id.into(),
            class: Class::Failover,
            resolves: None,
            drill: false,
            severity: Severity::Critical,
            cluster: "orders".into(),
            namespace: None,
            occurred_at: Timestamp::UNIX_EPOCH,
            title: "leader moved".into(),
            text: text.into(),
            leaderless_ms: None,
            same_address: None,
            cause: None,
            old_leader: None,
            new_leader: None,
            members: Vec::new(),
            members_left_out: 0,
            elections: None,
            observer: Observer { host: "host".into(), pid: 1, pod: None, role: Role::TaskManager, flink_version: None },
            labels: BTreeMap::new(),
        },
    }
}

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn due(message_id: &str, targets: &[&str]) -> Entry {
    Entry::Due {
        notice: Arc::new(notice(message_id, "")),
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        queued_at: NOW,
    }
}

fn done(message_id: &str, target: &str) -> Entry {
    Entry::Done { message_id: message_id.into(), target: target.into(), instead: None }
}

fn open(root: &Path) -> Outbox {
    let (outbox, problems) = Outbox::open(root, Bounds::default());
    assert_eq!(problems, []);
    outbox
}

fn append(outbox: &mut Outbox, entries: &[Entry]) {
    assert_eq!(outbox.append(entries, NOW), (true, vec![]));
}

fn ids(pending: &[Pending]) -> Vec<&str> {
    pending.iter().map(|pending| pending.notice.message_id.as_str()).collect()
}

/// The folders of processes under `root`.
fn folders(root: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<_> = fs::read_dir(root).unwrap().map(|folder| folder.unwrap().path()).collect();
    folders.retain(|path| path.file_name().unwrap() != CORRUPT_FOLDER);
    folders
}

fn segment(outbox: &mut Outbox) -> PathBuf {
    let path = outbox.log.folder().path().to_owned();
    let name = outbox.log.folder().names().unwrap().into_iter().find(|name| name.ends_with(".segment")).unwrap();
    path.join(name)
}

#[test]
fn what_a_dead_process_left_goes_to_one_survivor_and_is_then_cleared_away() {
    let root = tempfile::tempdir().unwrap();
    let mut dead = open(root.path());
    append(&mut dead, &[Entry::OpenElection { key: "e".into(), body: serde_json::json!({"members": 2}) }]);
    append(&mut dead, &[due("1", &["mail", "chat"]), due("2", &["mail"])]);
    append(&mut dead, &[done("1", "mail"), done("2", "mail")]);
    drop(dead);

    let (mut first, mut second) = (open(root.path()), open(root.path()));
    let adopted = first.take_orphans(NOW);
    assert_eq!(ids(&adopted.notices), ["1"]);
    assert_eq!(adopted.notices[0].targets, BTreeSet::from(["chat".to_owned()]));
    assert_eq!(adopted.elections, [("e".to_owned(), serde_json::json!({"members": 2}))]);
    assert_eq!(adopted.problems, []);
    assert!(second.take_orphans(NOW).notices.is_empty());
    assert_eq!(folders(root.path()).len(), 2);

    // The survivor dies, too, without having delivered it.
    drop(first);
    assert_eq!(ids(&second.take_orphans(NOW).notices), ["1"]);
}

#[test]
fn a_living_process_keeps_what_it_has() {
    let root = tempfile::tempdir().unwrap();
    let mut living = open(root.path());
    append(&mut living, &[due("1", &["mail"])]);
    assert!(open(root.path()).take_orphans(NOW).notices.is_empty());
    assert_eq!(living.pending().count(), 1);
}

#[test]
fn many_survivors_at_once_take_each_notice_once() {
    let root = tempfile::tempdir().unwrap();
    for process in 0..20 {
        let mut dead = open(root.path());
        append(&mut dead, &[due(&format!("{process:x}"), &["mail"])]);
    }
    let survivors: Vec<_> = (0..8).map(|_| open(root.path())).collect();
    let taken: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = survivors
            .into_iter()
            .map(|mut survivor| {
                scope.spawn(move || {
                    let adopted = survivor.take_orphans(NOW);
                    assert_eq!(adopted.problems, []);
                    let ids = ids(&adopted.notices).into_iter().map(str::to_owned).collect::<Vec<_>>();
                    // The survivor lives on, so that nobody takes it over.
                    (survivor, ids)
                })
            })
            .collect();
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        ended.iter().flat_map(|(_, ids)| ids.clone()).collect()
    });
    let mut sorted = taken.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((taken.len(), sorted.len()), (20, 20));
}

#[test]
fn a_torn_tail_is_cut_and_a_broken_record_is_set_aside_and_reported() {
    let root = tempfile::tempdir().unwrap();
    let mut dead = open(root.path());
    append(&mut dead, &[due("1", &["mail"])]);
    append(&mut dead, &[due("2", &["mail"])]);
    append(&mut dead, &[due("3", &["mail"])]);
    let segment = segment(&mut dead);
    drop(dead);
    let mut content = fs::read(&segment).unwrap();
    let second = content.iter().position(|byte| *byte == b'\n').unwrap() + 30;
    content[second] ^= 1;
    content.extend_from_slice(b"0123abcd [{\"entry\":\"due\"");
    fs::write(&segment, content).unwrap();

    let adopted = open(root.path()).take_orphans(NOW);
    assert_eq!(ids(&adopted.notices), ["1", "3"]);
    assert_eq!(adopted.problems.len(), 1);
    assert!(adopted.problems[0].reason.starts_with("1 records are no good, the first because its checksum is wrong"));
    let set_aside: Vec<_> = fs::read_dir(root.path().join(CORRUPT_FOLDER)).unwrap().collect();
    assert_eq!(set_aside.len(), 1);
    let corrupt = fs::metadata(root.path().join(CORRUPT_FOLDER)).unwrap();
    assert_eq!(corrupt.permissions().mode() & 0o777, 0o700);
}

/// Fault: whoever could write into the root could have an agent read, send and delete what a link led to.
#[test]
fn what_others_lay_into_the_root_is_left_alone_and_reported_once() {
    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut dead = open(&elsewhere.path().join("outbox"));
    append(&mut dead, &[due("1", &["mail"])]);
    let left = dead.log.folder().path().to_owned();
    drop(dead);
    std::os::unix::fs::symlink(&left, root.path().join("linked")).unwrap();
    fs::write(root.path().join("a-file"), "").unwrap();

    let mut outbox = open(root.path());
    let adopted = outbox.take_orphans(NOW);
    assert_eq!(ids(&adopted.notices), Vec::<&str>::new());
    let reasons: Vec<&str> = adopted.problems.iter().map(|problem| problem.reason.as_str()).collect();
    assert_eq!(reasons, ["it is no folder; it is left alone", "it is a symbolic link; it is left alone"]);
    assert!(left.exists() && root.path().join("a-file").exists());
    assert_eq!(outbox.take_orphans(NOW).problems, []);
}

#[test]
fn the_folder_of_another_user_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let mut dead = open(root.path());
    append(&mut dead, &[due("1", &["mail"])]);
    let left = dead.log.folder().path().to_owned();
    drop(dead);
    let another = fs::metadata(&left).unwrap().uid() + 1;
    if std::os::unix::fs::chown(&left, Some(another), None).is_err() {
        eprintln!("left out: only root may give a folder to another user");
        return;
    }
    let adopted = open(root.path()).take_orphans(NOW);
    assert!(adopted.notices.is_empty());
    assert!(adopted.problems[0].reason.starts_with(&format!("it belongs to the user {another}")));
    assert!(left.exists());
}

#[test]
fn folders_are_for_their_owner_only() {
    let root = tempfile::tempdir().unwrap();
    let mut outbox = open(&root.path().join("new"));
    append(&mut outbox, &[due("1", &["mail"])]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&root.path().join("new")), 0o700);
    assert_eq!(mode(outbox.log.folder().path()), 0o700);
    assert_eq!(mode(&segment(&mut outbox)), 0o600);
}

#[test]
fn without_a_disk_it_works_in_memory_and_writes_all_down_when_the_disk_is_back() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("outbox");
    fs::write(&root, "a file where the folder should be").unwrap();
    let (mut outbox, problems) = Outbox::open(&root, Bounds::default());
    assert_eq!(problems.len(), 1);
    assert_eq!(outbox.append(&[due("1", &["mail"])], NOW), (false, vec![]));
    assert_eq!(outbox.pending().count(), 1);

    fs::remove_file(&root).unwrap();
    let problems = outbox.heal();
    assert!(problems[0].reason.starts_with("can be written again"), "{problems:?}");
    drop(outbox);
    assert_eq!(ids(&open(&root).take_orphans(NOW).notices), ["1"]);
}

#[test]
fn a_cleaner_of_temporary_folders_does_no_harm() {
    let root = tempfile::tempdir().unwrap();
    let mut outbox = open(root.path());
    append(&mut outbox, &[due("1", &["mail"])]);
    fs::remove_dir_all(outbox.log.folder().path()).unwrap();
    let (durable, problems) = outbox.append(&[due("2", &["mail"])], NOW);
    assert!(!durable && problems.len() == 1);
    let (durable, problems) = outbox.append(&[due("3", &["mail"])], NOW);
    assert!(durable && problems.len() == 1);
    drop(outbox);
    assert_eq!(ids(&open(root.path()).take_orphans(NOW).notices), ["1", "2", "3"]);
}

#[test]
fn the_oldest_goes_first_when_there_is_too_much_and_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let bytes = line_bytes(&due("1", &["mail"])) * 2;
    let (mut outbox, _) = Outbox::open(root.path(), Bounds { bytes, ..Bounds::default() });
    append(&mut outbox, &[due("1", &["mail"])]);
    append(&mut outbox, &[due("2", &["mail"])]);
    let (durable, problems) = outbox.append(&[due("3", &["mail"])], NOW);
    assert!(durable);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].what, "outbox: alert 1 for mail was dropped");
    let left: Vec<_> = outbox.pending().map(|pending| pending.notice.message_id.clone()).collect();
    assert_eq!(left, ["2", "3"]);
}

#[test]
fn a_notice_that_is_too_old_goes_and_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let mut outbox = open(root.path());
    append(&mut outbox, &[due("1", &["mail", "chat"])]);
    let later = NOW.checked_add(Bounds::default().age + Duration::from_secs(1)).unwrap();
    let (_, problems) = outbox.append(&[done("none", "mail")], later);
    assert_eq!(problems[0].what, "outbox: alert 1 for chat, mail was dropped");
    assert_eq!(outbox.pending().count(), 0);
}

#[test]
fn segments_do_not_grow_for_ever() {
    let root = tempfile::tempdir().unwrap();
    let mut outbox = open(root.path());
    for round in 0..60 {
        let id = format!("{round:x}");
        let notice = Arc::new(notice(&id, &"x".repeat(10_000)));
        append(&mut outbox, &[Entry::Due { notice, targets: vec!["mail".into()], queued_at: NOW }]);
        append(&mut outbox, &[done(&id, "mail")]);
    }
    let bytes = fs::metadata(segment(&mut outbox)).unwrap().len();
    assert!(bytes <= log::SEGMENT_BYTES + 12_000, "{bytes}");
    assert_eq!(outbox.log.folder().names().unwrap().len(), 2);
}

/// Holds a fault: with more open elections than a segment may hold, each record wrote all of them anew.
#[test]
fn open_elections_are_not_written_anew_with_each_record() {
    let root = tempfile::tempdir().unwrap();
    let mut outbox = open(root.path());
    let body = Value::String("x".repeat(1024));
    for number in 0..2048 {
        append(&mut outbox, &[Entry::OpenElection { key: number.to_string(), body: body.clone() }]);
    }
    let segment = segment(&mut outbox);
    let number: u32 = segment.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    // 2 MiB in segments of 256 KiB, each twice as long as the one before.
    assert!(number <= 8, "{number} segments");
    assert_eq!(outbox.elections().count(), 2048);
}

#[test]
fn an_outbox_that_is_done_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let mut outbox = open(root.path());
    append(&mut outbox, &[due("1", &["mail"])]);
    append(&mut outbox, &[done("1", "mail")]);
    outbox.close();
    assert!(folders(root.path()).is_empty());

    let mut outbox = open(root.path());
    append(&mut outbox, &[due("2", &["mail"])]);
    outbox.close();
    assert_eq!(folders(root.path()).len(), 1);
}

#[test]
fn a_notice_that_goes_to_another_target_waits_for_that_one() {
    let root = tempfile::tempdir().unwrap();
    let mut outbox = open(root.path());
    append(&mut outbox, &[due("1", &["chat"])]);
    append(&mut outbox, &[Entry::Done { message_id: "1".into(), target: "chat".into(), instead: Some("mail".into()) }]);
    drop(outbox);
    let adopted = open(root.path()).take_orphans(NOW);
    assert_eq!(adopted.notices[0].targets, BTreeSet::from(["mail".to_owned()]));
}

#[test]
fn an_empty_folder_without_a_lock_is_cleared_away_and_one_with_content_is_not() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("1-empty")).unwrap();
    fs::create_dir(root.path().join("2-other")).unwrap();
    fs::write(root.path().join("2-other/file"), "somebody's").unwrap();
    let mut outbox = open(root.path());
    assert_eq!(outbox.take_orphans(NOW).problems, []);
    assert!(!root.path().join("1-empty").exists());
    assert!(root.path().join("2-other/file").exists());
}

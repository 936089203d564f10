//! A model of the log over a disk that loses, tears and garbles whatever was not synced.
//!
//! The promise under test: after any crash the log reads back as it was after some append, no earlier than the last one
//! that was answered `Ok`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;

use super::entry::Entry;
use super::folder::Folder;
use super::live::Live;
use super::log::{self, Log};
use super::tests::notice;

/// A file's content: what is certain to be on disk, and what processes see.
#[derive(Debug, Clone, Default)]
struct Inode {
    synced: Vec<u8>,
    seen: Vec<u8>,
    /// An fsync failed: the kernel dropped the pages, and a later fsync says `Ok` without having written them.
    poisoned: bool,
}

/// What goes wrong with the write that comes next.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// So many bytes are written, then the disk is full.
    Short(u8),
    /// All is written, and the sync fails.
    Sync,
}

#[derive(Debug, Default)]
struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    /// The names as they were after each change since the folder was synced last; a crash may go back to any of them.
    past_names: Vec<BTreeMap<String, usize>>,
    fault: Option<Fault>,
    /// Operations that still work before the process dies.
    operations_left: Option<u8>,
}

impl Disk {
    fn step(&mut self) -> io::Result<()> {
        match &mut self.operations_left {
            Some(0) => Err(io::Error::other("killed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn changed_names(&mut self, change: impl FnOnce(&mut BTreeMap<String, usize>)) {
        self.past_names.push(self.names.clone());
        change(&mut self.names);
    }

    fn write(&mut self, inode: usize, content: &[u8]) -> io::Result<()> {
        let killed = self.step();
        let inode = &mut self.inodes[inode];
        match self.fault.take() {
            Some(Fault::Short(bytes)) => {
                inode.seen.extend_from_slice(&content[..content.len().min(bytes.into())]);
                return Err(io::ErrorKind::StorageFull.into());
            }
            Some(Fault::Sync) => {
                inode.seen.extend_from_slice(content);
                inode.poisoned = true;
                return Err(io::Error::other("sync"));
            }
            None => inode.seen.extend_from_slice(content),
        }
        killed?;
        if !inode.poisoned {
            inode.synced.clone_from(&inode.seen);
        }
        Ok(())
    }

    fn crash(&mut self, luck: Luck) {
        if !self.past_names.is_empty() && luck.names_lost {
            self.names = self.past_names[usize::from(luck.names) % self.past_names.len()].clone();
        }
        self.past_names.clear();
        (self.operations_left, self.fault) = (None, None);
        for inode in &mut self.inodes {
            let mut kept = inode.synced.clone();
            let unsynced = &inode.seen[inode.synced.len()..];
            let survivors = unsynced.len() * usize::from(luck.kept) / 255;
            kept.extend_from_slice(&unsynced[..survivors]);
            if luck.garbled {
                for byte in kept.iter_mut().skip(inode.synced.len()).step_by(7) {
                    *byte = luck.garbage;
                }
            }
            *inode = Inode { synced: kept.clone(), seen: kept, poisoned: false };
        }
    }
}

/// What a crash does to what was not synced.
#[derive(Debug, Clone, Copy)]
struct Luck {
    kept: u8,
    garbled: bool,
    garbage: u8,
    names_lost: bool,
    names: u8,
}

#[derive(Debug, Clone, Default)]
struct MemoryFolder(Rc<RefCell<Disk>>);

impl Folder for MemoryFolder {
    fn prepare(&mut self) -> io::Result<()> {
        self.0.borrow_mut().step()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.borrow().names.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let disk = self.0.borrow();
        let inode = disk.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(disk.inodes[*inode].seen.clone())
    }

    fn create(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        disk.step()?;
        let inode = disk.inodes.len();
        disk.inodes.push(Inode::default());
        disk.changed_names(|names| {
            names.insert(name.to_owned(), inode);
        });
        disk.write(inode, content)
    }

    fn append(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        let inode = *disk.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        disk.write(inode, content)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        disk.step()?;
        disk.changed_names(|names| {
            if let Some(inode) = names.remove(from) {
                names.insert(to.to_owned(), inode);
            }
        });
        // Between the renaming and the sync of the folder.
        disk.step()?;
        disk.past_names.clear();
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        disk.step()?;
        disk.changed_names(|names| {
            names.remove(name);
        });
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Action {
    Append(Vec<Entry>),
    Heal,
    Fail(Fault),
    /// The process dies after so many more operations, at the latest when this action is met.
    Crash {
        operations_left: u8,
        last: Vec<Entry>,
        luck: Luck,
    },
}

fn entry() -> impl Strategy<Value = Entry> {
    let key = (0..3u8).prop_map(|key| format!("election-{key}"));
    let target = prop_oneof![Just("mail".to_owned()), Just("chat".to_owned())];
    prop_oneof![
        (key.clone(), any::<u8>()).prop_map(|(key, body)| Entry::OpenElection { key, body: body.into() }),
        key.prop_map(|key| Entry::CloseElection { key }),
        (0..6u8, 0..200usize).prop_map(|(id, padding)| Entry::Due {
            notice: Arc::new(notice(&format!("{id:x}"), &"x".repeat(padding))),
            targets: vec!["mail".into(), "chat".into()],
            queued_at: Timestamp::UNIX_EPOCH,
        }),
        (0..6u8, target.clone(), prop::option::of(target)).prop_map(|(id, target, instead)| Entry::Done {
            message_id: format!("{id:x}"),
            target,
            instead
        }),
    ]
}

fn luck() -> impl Strategy<Value = Luck> {
    (any::<u8>(), any::<bool>(), any::<u8>(), any::<bool>(), any::<u8>())
        .prop_map(|(kept, garbled, garbage, names_lost, names)| Luck { kept, garbled, garbage, names_lost, names })
}

fn action() -> impl Strategy<Value = Action> {
    let entries = || prop::collection::vec(entry(), 1..4);
    prop_oneof![
        12 => entries().prop_map(Action::Append),
        1 => prop::collection::vec(entry(), 17..20).prop_map(Action::Append),
        1 => Just(Action::Heal),
        2 => any::<u8>().prop_map(|bytes| Action::Fail(Fault::Short(bytes))),
        1 => Just(Action::Fail(Fault::Sync)),
        3 => (0..8u8, entries(), luck())
            .prop_map(|(operations_left, last, luck)| Action::Crash { operations_left, last, luck }),
    ]
}

fn run(actions: Vec<Action>) {
    let folder = MemoryFolder::default();
    let mut log = Log::with_segment_limit(folder.clone(), 2048);
    // What the log amounts to after each append, the last one that is certain to be on disk first.
    let mut states = vec![Live::default()];
    for action in actions {
        match action {
            Action::Append(entries) => append(&mut log, &entries, &mut states),
            Action::Heal => {
                if log.heal().is_ok() {
                    states.drain(..states.len() - 1);
                }
            }
            Action::Fail(fault) => folder.0.borrow_mut().fault = Some(fault),
            Action::Crash { operations_left, last, luck } => {
                folder.0.borrow_mut().operations_left = Some(operations_left);
                append(&mut log, &last, &mut states);
                folder.0.borrow_mut().crash(luck);
                let found = log::read(&folder).unwrap();
                let read_back = found.live.entries();
                assert!(
                    states.iter().any(|state| state.entries() == read_back),
                    "read back {read_back:#?}\nwhich is none of {states:#?}"
                );
                // The survivor writes down all that it found before it goes on.
                log = Log::with_segment_limit(folder.clone(), 2048);
                log.append(&read_back).unwrap();
                states = vec![log.live().clone()];
            }
        }
    }
}

fn append(log: &mut Log<MemoryFolder>, entries: &[Entry], states: &mut Vec<Live>) {
    let written = log.append(entries);
    states.push(log.live().clone());
    if written.is_ok() {
        states.drain(..states.len() - 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn after_any_crash_the_log_is_that_of_some_append_not_before_the_last_ok(
        actions in prop::collection::vec(action(), 1..40)
    ) {
        run(actions);
    }
}

/// Regression: a later fsync says `Ok` for pages that an earlier, failed one dropped.
#[test]
fn a_segment_whose_sync_failed_is_never_appended_to() {
    let due = |id: &str| Entry::Due {
        notice: Arc::new(notice(id, "")),
        targets: vec!["mail".into()],
        queued_at: Timestamp::UNIX_EPOCH,
    };
    let luck = Luck { kept: 0, garbled: false, garbage: 0, names_lost: false, names: 0 };
    run(vec![
        Action::Append(vec![due("1")]),
        Action::Fail(Fault::Sync),
        Action::Append(vec![due("2")]),
        Action::Append(vec![due("3")]),
        Action::Crash { operations_left: 0, last: vec![due("4")], luck },
    ]);
}

//! Waits for more: logs that grow, that are closed and begun anew, and new ones.

use std::collections::HashSet;
use std::path::PathBuf;

use leaderwatch_agent::journal::merge::{Merge, Opened};
use leaderwatch_agent::journal::reader::{Skipped, Stamp};
use leaderwatch_agent::journal::sources::{self, Inode, Source};

/// Logs that are watched.
pub struct Follow {
    paths: Vec<PathBuf>,
    open: Vec<Opened>,
    known: HashSet<Inode>,
    /// What was passed over.
    pub skipped: Skipped,
}

impl Follow {
    /// Goes on where a merge of `paths` has ended.
    pub fn after(merge: Merge, paths: Vec<PathBuf>) -> Self {
        let skipped = merge.skipped();
        let open: Vec<Opened> = merge.into_opened().into_iter().filter(|opened| opened.inode.is_some()).collect();
        let known = open.iter().filter_map(|opened| opened.inode).collect();
        Self { paths, open, known, skipped }
    }

    /// The lines that came since, sorted by time.
    pub fn more(&mut self) -> Vec<(Stamp, Vec<u8>)> {
        self.look_for_new_files();
        let mut found = Vec::new();
        for opened in &mut self.open {
            // A file that cannot be read now is tried again at the next look.
            while let Ok(Some(stamp)) = opened.advance(&mut self.skipped) {
                found.push((stamp, opened.line().to_vec()));
            }
        }
        self.open.retain(is_still_there);
        found.sort_by_key(|(stamp, _)| *stamp);
        found
    }

    /// A log that is closed leaves its path to a new file; the old one is read to its end under its new name, by the
    /// handle that is open. So what counts is the file, not the name.
    fn look_for_new_files(&mut self) {
        // A folder that is away for a moment holds nothing new.
        let Ok(found) = sources::find(&self.paths) else { return };
        for source in found.sources {
            let Source::File(path) = &source else { continue };
            let Some(inode) = Inode::of_file(path) else { continue };
            if self.known.contains(&inode) {
                continue;
            }
            if let Ok(opened) = Opened::open(source, true) {
                self.known.extend(opened.inode);
                self.open.push(opened);
            }
        }
    }
}

/// False for a file that was closed or removed: nobody writes to it any more. It was just read to its end.
fn is_still_there(opened: &Opened) -> bool {
    match &opened.source {
        Source::File(path) => Inode::of_file(path) == opened.inode,
        Source::StandardInput => false,
    }
}

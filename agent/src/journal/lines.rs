//! Whole lines or nothing: each line is one `write`, and what a failed write left behind is cut off again.

use std::fs::File;
use std::io::{self, Write};

/// What lines are appended to. A file opened for appending, or a stand-in that fails as a test wishes.
pub(super) trait Medium {
    /// Length in bytes.
    fn length_bytes(&self) -> io::Result<u64>;
    /// One `write(2)`: may take only a part.
    fn write_once(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Cuts the end off.
    fn cut_to(&mut self, length_bytes: u64) -> io::Result<()>;
}

impl Medium for File {
    fn length_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn write_once(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => return result,
            }
        }
    }

    fn cut_to(&mut self, length_bytes: u64) -> io::Result<()> {
        self.set_len(length_bytes)
    }
}

/// Appends lines to a medium that nobody else writes to.
pub(super) struct Lines<M> {
    medium: M,
    /// True where the medium may end within a line: the next one then begins with a line end.
    mid_line: bool,
    buffer: Vec<u8>,
}

impl<M: Medium> Lines<M> {
    /// `mid_line`: whether the medium ends within a line, left by a process that was killed.
    pub(super) fn new(medium: M, mid_line: bool) -> Self {
        Self { medium, mid_line, buffer: Vec::with_capacity(1024) }
    }

    /// Length in bytes.
    pub(super) fn length_bytes(&self) -> io::Result<u64> {
        self.medium.length_bytes()
    }

    /// Appends `line` and a line end. After an error nothing of it stays, as far as the medium can be cut; where it
    /// cannot, the rest stands on a line of its own.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let before = self.medium.length_bytes()?;
        self.buffer.clear();
        if self.mid_line {
            self.buffer.push(b'\n');
        }
        self.buffer.extend_from_slice(line);
        self.buffer.push(b'\n');

        match self.medium.write_once(&self.buffer) {
            Ok(written) if written == self.buffer.len() => {
                self.mid_line = false;
                Ok(())
            }
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {
                // The line end that came first may be all that stays, so a medium that cannot be cut counts as torn.
                self.mid_line |= self.medium.cut_to(before).is_err();
                // Linux takes a part of a write only where the rest found no room (write(2)).
                Err(io::ErrorKind::StorageFull.into())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the medium does with the next write.
    #[derive(Debug, Clone)]
    enum Fault {
        None,
        Refuse,
        Short { part: usize, cut_works: bool },
    }

    #[derive(Default)]
    struct Faulty {
        bytes: Vec<u8>,
        next: Option<Fault>,
        cut_works: bool,
    }

    impl Medium for Faulty {
        fn length_bytes(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn write_once(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = match self.next.take().unwrap_or(Fault::None) {
                Fault::None => bytes.len(),
                Fault::Refuse => return Err(io::ErrorKind::StorageFull.into()),
                Fault::Short { part, cut_works } => {
                    self.cut_works = cut_works;
                    part % bytes.len()
                }
            };
            self.bytes.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn cut_to(&mut self, length_bytes: u64) -> io::Result<()> {
            if !self.cut_works {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            self.bytes.truncate(usize::try_from(length_bytes).unwrap());
            Ok(())
        }
    }

    fn fault() -> impl Strategy<Value = Fault> {
        prop_oneof![
            3 => Just(Fault::None),
            1 => Just(Fault::Refuse),
            2 => (0usize..64, any::<bool>()).prop_map(|(part, cut_works)| Fault::Short { part, cut_works }),
        ]
    }

    proptest! {
        /// Whatever writes fail, every line that was acknowledged stands whole on a line of its own, in order, and
        /// where cutting works there is nothing else.
        #[test]
        fn acknowledged_lines_stay_whole(faults in proptest::collection::vec(fault(), 0..40), torn in any::<bool>()) {
            let start = if torn { b"{\"torn".to_vec() } else { Vec::new() };
            let mut lines = Lines::new(Faulty { bytes: start, ..Faulty::default() }, torn);
            let mut acknowledged = Vec::new();
            let mut all_cuts_worked = !torn;
            for (number, fault) in faults.into_iter().enumerate() {
                all_cuts_worked &= !matches!(fault, Fault::Short { cut_works: false, .. });
                lines.medium.next = Some(fault);
                let line = format!("{{\"line\":{number}}}");
                if lines.append(line.as_bytes()).is_ok() {
                    acknowledged.push(line);
                }
            }
            let text = String::from_utf8(lines.medium.bytes).unwrap();
            let found: Vec<&str> = text.lines().filter(|line| acknowledged.iter().any(|one| one == line)).collect();
            prop_assert_eq!(&found, &acknowledged);
            if all_cuts_worked {
                prop_assert_eq!(text.lines().count(), acknowledged.len());
                prop_assert!(text.is_empty() || text.ends_with('\n'));
            }
        }
    }
}

//! Finds the alert logs that a user names, and opens them: files, folders, gzipped ones, standard input.

use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

/// U+FEFF in UTF-8.
const UTF_8_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// How deep folders in folders are searched.
const MAX_DEPTH: usize = 8;

/// Where lines come from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A file, gzipped or not.
    File(PathBuf),
    /// Standard input, gzipped or not.
    StandardInput,
}

impl Source {
    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::StandardInput => "standard input".to_owned(),
        }
    }

    /// Opens it from the beginning; with the file that is behind the name now.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(&self) -> io::Result<(Box<dyn Read + Send>, Option<Inode>)> {
        match self {
            Source::File(path) => {
                let file = File::open(path)?;
                let inode = Inode::of(&file.metadata()?);
                Ok((unzip(file)?, Some(inode)))
            }
            Source::StandardInput => Ok((unzip(io::stdin())?, None)),
        }
    }
}

/// Identity of a file, whatever its name: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inode(u64, u64);

impl Inode {
    /// Of an open file or of one that was looked at.
    pub fn of(metadata: &fs::Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }

    /// Of what stands at a path now, links not followed.
    pub fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().as_ref().map(Self::of)
    }

    /// Of the file that a path leads to now.
    pub fn of_file(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().as_ref().map(Self::of)
    }
}

/// Tells by the first two bytes, not by the name, whether it is gzipped. Leaves out the mark of UTF-8 that editors of
/// Windows put first, which would cost the first record.
fn unzip(mut input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut first = Vec::with_capacity(UTF_8_MARK.len());
    input.by_ref().take(2).read_to_end(&mut first)?;
    let is_gzip = first == [0x1f, 0x8b];
    if first == UTF_8_MARK[..2] {
        input.by_ref().take(1).read_to_end(&mut first)?;
        first.drain(..if first == UTF_8_MARK { first.len() } else { 0 });
    }
    let whole = io::Cursor::new(first).chain(input);
    Ok(if is_gzip { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
}

/// What is under the paths that a user names.
#[derive(Debug, Default)]
pub struct Found {
    /// The logs, each once, sorted.
    pub sources: Vec<Source>,
    /// Folders in those that were named which cannot be searched.
    pub unreadable: Vec<Unreadable>,
}

/// A path that cannot be looked at.
#[derive(Debug)]
pub struct Unreadable {
    /// The path.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path.display(), self.error)
    }
}

/// The logs under `paths`: a file as it is named, `-` for standard input, and of a folder and the folders in it every
/// file of an alert log's name: `.jsonl`, closed by size, renamed by Flink's script, gzipped. A file that is reached by
/// several names counts once.
///
/// # Errors
/// The first of `paths` that cannot be looked at.
pub fn find(paths: &[PathBuf]) -> Result<Found, Unreadable> {
    let mut found = Found::default();
    for path in paths {
        let wrap = |error| Unreadable { path: path.clone(), error };
        if path == Path::new("-") {
            found.sources.push(Source::StandardInput);
        } else if fs::metadata(path).map_err(wrap)?.is_dir() {
            search(path, 0, &mut found).map_err(wrap)?;
        } else {
            found.sources.push(Source::File(path.clone()));
        }
    }
    found.sources.sort();
    let mut known = HashSet::new();
    found.sources.retain(|source| match source {
        Source::File(path) => Inode::of_file(path).is_none_or(|inode| known.insert(Some(inode))),
        Source::StandardInput => known.insert(None),
    });
    Ok(found)
}

fn search(folder: &Path, depth: usize, found: &mut Found) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && depth < MAX_DEPTH {
            if let Err(error) = search(&entry.path(), depth + 1, found) {
                found.unreadable.push(Unreadable { path: entry.path(), error });
            }
        } else if kind.is_file() && entry.file_name().to_str().is_some_and(is_log_name) {
            found.sources.push(Source::File(entry.path()));
        }
    }
    Ok(())
}

/// Whether a file's name is that of an alert log: `X.jsonl`, `X.jsonl.3`, and either with `.gz`.
pub fn is_log_name(file_name: &str) -> bool {
    let plain = file_name.strip_suffix(".gz").unwrap_or(file_name);
    let unnumbered = plain.trim_end_matches(|c: char| c.is_ascii_digit());
    let unnumbered = if unnumbered.len() == plain.len() { plain } else { unnumbered.trim_end_matches('.') };
    unnumbered.ends_with(".jsonl")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_folder_is_searched_for_alert_logs() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["a.jsonl", "a.jsonl.1", "a.20261130T101949.123Z.jsonl.gz", "deep/b.jsonl", "a.log", "jsonl.txt"];
        fs::create_dir(folder.path().join("deep")).unwrap();
        for name in names {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = find(&[folder.path().to_path_buf(), folder.path().join("a.jsonl"), PathBuf::from("-")]).unwrap();
        let found = found.sources;
        let expected = ["a.20261130T101949.123Z.jsonl.gz", "a.jsonl", "a.jsonl.1", "deep/b.jsonl"];
        let mut expected: Vec<Source> = expected.iter().map(|name| Source::File(folder.path().join(name))).collect();
        expected.push(Source::StandardInput);
        assert_eq!(found, expected);
        assert_eq!(find(&[folder.path().join("none")]).unwrap_err().path, folder.path().join("none"));
    }

    /// Regression: a log named by two paths was counted twice.
    #[test]
    fn a_file_of_several_names_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.jsonl"), folder.path().join("link.jsonl"));
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let other_spelling =
            folder.path().join(".").join("..").join(folder.path().file_name().unwrap()).join("a.jsonl");
        let found = find(&[folder.path().to_path_buf(), other_spelling, link]).unwrap();
        assert_eq!(found.sources.len(), 1, "{found:?}");
    }

    #[test]
    fn gzipped_files_are_told_by_their_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"one\n").unwrap();
        fs::write(&path, packed.finish().unwrap()).unwrap();
        let mut text = String::new();
        Source::File(path).open().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\n");
    }

    #[test]
    fn what_is_not_gzipped_is_read_as_it_is_without_the_mark_of_utf_8() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let cases: [(&[u8], &[u8]); 5] = [
            (b"x", b"x"),
            (b"\xef\xbb\xbfone\n", b"one\n"),
            (b"\xef\xbb\xbf", b""),
            (b"\xef\xbbx", b"\xef\xbbx"),
            (b"\xef", b"\xef"),
        ];
        for (bytes, expected) in cases {
            fs::write(&path, bytes).unwrap();
            let mut read = Vec::new();
            Source::File(path.clone()).open().unwrap().0.read_to_end(&mut read).unwrap();
            assert_eq!(read, expected);
        }
    }
}

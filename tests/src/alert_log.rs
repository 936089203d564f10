//! Reads alert logs as a user's script would: JSON, one object a line, by the names of the contract.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// A line of an alert log.
pub type Record = Value;

/// What the agent names its log beside Flink's.
const SUFFIX: &str = ".leaderwatch.jsonl";

/// The alert logs in a folder, rotated ones too, oldest first.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    files_of(folder, SUFFIX)
}

/// [`files`] for logs of another name.
pub fn files_of(folder: &Path, name_part: &str) -> Vec<PathBuf> {
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(name_part)))
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Every record of the alert logs in a folder.
///
/// # Errors
/// Where a whole line is no JSON object. A last line without its end is left out: it is being written.
pub fn read_folder(folder: &Path) -> Result<Vec<Record>> {
    read_folder_of(folder, SUFFIX)
}

/// [`read_folder`] for logs of another name.
///
/// # Errors
/// As [`read_folder`].
pub fn read_folder_of(folder: &Path, name_part: &str) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for file in files_of(folder, name_part) {
        let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            records.push(serde_json::from_str(line).with_context(|| format!("{}: {line}", file.display()))?);
        }
    }
    Ok(records)
}

/// Those records that are of one event, such as `leader.moved`.
pub fn of<'a>(records: &'a [Record], event: &str) -> Vec<&'a Record> {
    records.iter().filter(|record| record["event"] == event).collect()
}

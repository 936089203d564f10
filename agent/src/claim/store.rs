//! What a place to keep claims must be able to do: small named documents with versions, and compare-and-set.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use jiff::Timestamp;

/// A version of a document: changes with every write, and means nothing but that.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(pub String);

/// A document as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its version.
    pub version: Version,
    /// Its content.
    pub body: Vec<u8>,
}

/// How a conditional write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// Written; this is the version now.
    Done(Version),
    /// Not written: the document is there already, or has another version, or is gone.
    Refused,
}

/// A store that did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// It cannot be reached, or does not answer. May be different later.
    Unreachable(String),
    /// It is there and does not let us.
    Forbidden(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unreachable(reason) => write!(out, "cannot be reached: {reason}"),
            StoreError::Forbidden(reason) => write!(out, "refuses: {reason}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// The future of an answer.
pub type Answering<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps documents. Names are of `a-z`, `0-9` and `-`, at most 48 long. A write is whole or not at all, and who reads
/// after it was answered finds it or a later one. Callers limit the time of each call.
pub trait Store: Send + Sync {
    /// What it is and where, for people.
    fn describe(&self) -> String;
    /// Writes a document that is not there yet.
    fn create<'a>(&'a self, name: &'a str, body: &'a [u8]) -> Answering<'a, Written>;
    /// Reads a document; none where there is none.
    fn read<'a>(&'a self, name: &'a str) -> Answering<'a, Option<Entry>>;
    /// Writes a document anew if it still has that version.
    fn swap<'a>(&'a self, name: &'a str, version: &'a Version, body: &'a [u8]) -> Answering<'a, Written>;
    /// Deletes a document if it still has that version; whether it did.
    fn delete<'a>(&'a self, name: &'a str, version: &'a Version) -> Answering<'a, bool>;
    /// The names of all documents.
    fn list(&self) -> Answering<'_, Vec<String>>;
    /// The time by the store's own clock, the same for every agent.
    fn time(&self) -> Answering<'_, Timestamp>;
}

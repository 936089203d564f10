//! The agent in real JVMs, under `-Xverify:all` and `-Xcheck:jni`, with classes shaped like Flink's.
#![allow(missing_docs, clippy::unwrap_used)]

mod attach;
mod changes;
mod claims;
mod corpus;
mod flink;
mod fuzz;
mod load;
mod neighbours;
mod no_locks;
mod observe;
mod oracle;
mod support;

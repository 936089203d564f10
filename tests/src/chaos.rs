//! Chaos: random faults on a real Flink cluster, and the question whether everybody was told just what happened.
//!
//! [`ground`] is the cluster with its receivers, [`fault`] what can befall it, [`verdict`] holds what was told against
//! Flink's own logs.

pub mod fault;
pub mod ground;
pub mod verdict;

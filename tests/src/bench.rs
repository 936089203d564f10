//! The benches: Leaderwatch beside what a user would pick instead, on one machine and in one run. See `scripts/bench`.
//!
//! [`jvm`] compiles and starts the Java programs; [`hook`], [`start`], [`latency`], [`storm`] and [`board`] measure;
//! [`figures`] holds what they found and [`page`] writes it down. [`soak`] looks at
//! what grows in an hour.

pub mod board;
pub mod figures;
pub mod hook;
pub mod jvm;
pub mod latency;
pub mod page;
pub mod soak;
pub mod start;
pub mod storm;

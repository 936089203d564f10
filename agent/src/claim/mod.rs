//! Who sends for the cluster: many agents see one election, and exactly one of them tells each target.
//!
//! # How agents agree
//! For each message and target there is one [`Claim`] in a [`Store`] that all agents of the cluster reach. Whoever
//! creates it sends, and keeps it alive by rewriting it; the others wait. What an agent may conclude from what it saw is
//! in [`Claimer`], a state machine without input or output. [`ClaimGate`] drives it, as the [`Gate`] of the delivery.
//!
//! - **Lease.** An observer holds a claim for abandoned once its **own** monotonic clock saw the claim's version unchanged
//!   for the lease that stands in the claim; it takes it over by compare-and-set. A holder counts its lease from the
//!   moment *before* it began the write, so that its lease ends before any observer's, and sends only while more of it is
//!   left than the send may take. Clocks of different hosts are never compared.
//! - **An agent that fails stops renewing.** While a holder waits longer than a lease for its next attempt, others get
//!   their turn: it may be the only one that cannot reach the receiver.
//! - **Forgetting.** Others drop their own copy only when the claim says `delivered` (or that several agents were refused).
//!   Until then the claim holds the whole notice, so that any living or later agent can finish it.
//! - **An unreachable store stops nobody.** Who knows of no living holder sends at once, who knows of one waits until its
//!   lease has lapsed, and then sends. So one election is never no message, at the price of more than one.
//! - **Clearing away.** Whoever has dealt with a message looks, at most once an hour, for old claims.
//!
//! Two messages instead of one remain possible: the holder dies between the receiver's answer and its note in the claim,
//! or the store is cut off from some agents and not from others.
//!
//! What is written is meant for agents of the same cluster: it holds what the message tells, never a secret.

mod body;
mod choice;
mod claimer;
#[cfg(test)]
mod claimer_tests;
mod file;
mod gate;
#[cfg(test)]
mod gate_tests;
mod kubernetes;
#[cfg(test)]
mod kubernetes_tests;
#[cfg(test)]
pub(crate) mod memory;
mod remembered;
mod store;
#[cfg(test)]
mod store_tests;
mod zookeeper;

pub use self::body::{Claim, Holder, State, claim_name};
pub use self::choice::{Choice, Surroundings, choose};
pub use self::claimer::{Answer, Claimer, Question, Step};
pub use self::file::FileStore;
pub use self::gate::{ClaimGate, GateSettings};
pub use self::kubernetes::KubernetesStore;
pub use self::remembered::{FirstSight, Memory, Recalled, Remembered, Sight, judge};
pub use self::store::{Answering, Entry, Store, StoreError, Version, Written};
pub use self::zookeeper::ZooKeeperStore;

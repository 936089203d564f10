//! What stands in a claim.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::process::Observer;
use crate::target::Notice;

/// What the names of claims begin with.
pub(super) const CLAIM_PREFIX: &str = "claim-";
/// What the names of claims on saying that the agents live begin with.
const BEAT_PREFIX: &str = "beat-";
/// Hexadecimal digits of a claim's name.
const NAME_DIGITS: usize = 32;
/// Bounds of a lease that another agent wrote.
const LEASES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));

/// An agent, as others know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// Drawn at random when the process started, since host and process id come again.
    pub token: String,
}

impl Holder {
    /// This process.
    pub fn new(observer: &Observer) -> Holder {
        let host = observer.pod.as_ref().unwrap_or(&observer.host).clone();
        Holder { host, pid: observer.pid, token: format!("{:016x}", fastrand::u64(..)) }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (process {})", self.host, self.pid)
    }
}

/// How far the message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The holder is on it.
    Sending,
    /// The holder has left it to others.
    Free,
    /// The target has it.
    Delivered,
    /// As many agents as may try were refused.
    Refused,
}

/// A claim: one message to one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Version of this form: 1.
    pub schema: u32,
    /// How far the message is.
    pub state: State,
    /// Who wrote this.
    pub holder: Holder,
    /// Counts the holder's writes, so that each is another content.
    pub beat: u64,
    /// How long it may stay as it is before others take over.
    pub lease_ms: u64,
    /// Name of the target.
    pub target: String,
    /// Agents that the target refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refusals: u32,
    /// When it was written, by the writer's clock: for clearing away, with a wide margin, and for people.
    pub written_at: Timestamp,
    /// What is to be delivered; absent once that is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Arc<Notice>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references over")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Claim {
    /// Reads a claim; none where it is no claim of a form that this version knows.
    pub fn parse(body: &[u8]) -> Option<Claim> {
        serde_json::from_slice(body).ok().filter(|claim: &Claim| claim.schema == 1)
    }

    /// The claim as it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a claim holds nothing that JSON cannot: no map with keys other than text")
    }

    /// How long it may stay as it is, within bounds: no writer can hold a message up for ever.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms).clamp(LEASES.0, LEASES.1)
    }
}

/// Name of the claim on a message to a target: the same in every agent.
pub fn claim_name(message_id: &str, target: &str) -> String {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    hash.update(message_id.as_bytes());
    // A separator that no message id holds.
    hash.update(&[0]);
    hash.update(target.as_bytes());
    format!("{CLAIM_PREFIX}{}", digits(hash))
}

/// Name of the claim on saying to a target that the agents live: the same in every agent.
pub fn beat_name(target: &str) -> String {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    hash.update(target.as_bytes());
    format!("{BEAT_PREFIX}{}", digits(hash))
}

fn digits(hash: ring::digest::Context) -> String {
    let mut digits: String = hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate(NAME_DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::test_notice;

    fn claim() -> Claim {
        Claim {
            schema: 1,
            state: State::Sending,
            holder: Holder { host: "tm-1".into(), pid: 7, token: "a".into() },
            beat: 1,
            lease_ms: 30_000,
            target: "ops".into(),
            refusals: 0,
            written_at: Timestamp::UNIX_EPOCH,
            notice: Some(Arc::new(test_notice("1", "text"))),
        }
    }

    #[test]
    fn a_claim_reads_as_it_was_written_and_nothing_else_is_one() {
        assert_eq!(Claim::parse(&claim().to_bytes()), Some(claim()));
        let later = Claim { schema: 2, ..claim() };
        assert_eq!(Claim::parse(&later.to_bytes()), None);
        assert_eq!(Claim::parse(b"{\"schema\":1,\"sta"), None);
    }

    #[test]
    fn a_lease_of_another_agent_is_bounded() {
        let lease = |lease_ms| Claim { lease_ms, ..claim() }.lease();
        assert_eq!(lease(0), Duration::from_secs(1));
        assert_eq!(lease(5000), Duration::from_secs(5));
        assert_eq!(lease(u64::MAX), Duration::from_secs(3600));
    }

    #[test]
    fn each_message_and_target_has_a_name_of_its_own() {
        let name = claim_name("ab", "ops");
        assert_eq!(name, claim_name("ab", "ops"));
        assert_eq!(name.len(), CLAIM_PREFIX.len() + NAME_DIGITS);
        assert_ne!(name, claim_name("abo", "ps"));
        assert_ne!(name, claim_name("ab", "mail"));
    }
}

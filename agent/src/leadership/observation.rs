//! What a hook hands over: one announcement, exactly as Flink made it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::{SeatKey, SessionId};
use crate::clock::Moment;

/// A leader: who it is and where it can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Its leader session id.
    pub id: SessionId,
    /// Its RPC address as Flink writes it (`akka.tcp://` or `pekko.tcp://`, or an HTTP address for the REST endpoint),
    /// cut at 256 characters; absent where Flink gave none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<Arc<str>>,
}

impl Leader {
    /// Host and port of the address: `10.0.0.1:6123` of `akka.tcp://flink@10.0.0.1:6123/user/rpc/jobmanager_2`. The
    /// path is left out, since its number rises with each election; absent where the address is unknown.
    pub fn host_and_port(&self) -> Option<&str> {
        let address = self.address.as_deref()?;
        let authority = address.split_once("://").map_or(address, |(_scheme, rest)| rest);
        let authority = authority.split('/').next().unwrap_or(authority);
        let host_and_port = authority.rsplit('@').next().unwrap_or(authority);
        (!host_and_port.is_empty()).then_some(host_and_port)
    }
}

/// Flink's own verdict that the ResourceManager, and so the JobManager process, is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// `notifyHeartbeatTimeout`: no heartbeat for `heartbeat.timeout`.
    HeartbeatTimeout,
    /// `notifyTargetUnreachable`, from Flink 1.14: its connection is refused or lost.
    TargetUnreachable,
}

impl Verdict {
    /// The name in the alert log.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::HeartbeatTimeout => "heartbeat_timeout",
            Verdict::TargetUnreachable => "target_unreachable",
        }
    }
}

/// What Flink said of a seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announcement {
    /// `notifyLeaderAddress`: this is the leader now; none where the id was null, with or without an address.
    Leader(Option<Leader>),
    /// The leader does not answer Flink.
    Unreachable(Verdict),
    /// The leader answers Flink: a TaskManager registered with the ResourceManager.
    Reachable,
    /// `grantLeadership`, in a JobManager: elected, not yet confirmed.
    Granted(SessionId),
    /// `revokeLeadership`, in a JobManager.
    Revoked,
}

/// One call of a hooked method.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Whose leadership it is about.
    pub seat: SeatKey,
    /// What was said.
    pub announcement: Announcement,
    /// When the call was made.
    pub at: Moment,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_leave_scheme_user_and_path_out() {
        let of = |address: &str| {
            let leader = Leader { id: SessionId(1), address: Some(address.into()) };
            leader.host_and_port().map(str::to_owned)
        };
        assert_eq!(of("akka.tcp://flink@10.0.0.1:6123/user/rpc/jobmanager_2").as_deref(), Some("10.0.0.1:6123"));
        assert_eq!(of("pekko.tcp://flink@jm-0.jm:6123/user/rpc/resourcemanager_0").as_deref(), Some("jm-0.jm:6123"));
        assert_eq!(of("http://[::1]:8081").as_deref(), Some("[::1]:8081"));
        assert_eq!(of("localhost/127.0.0.1").as_deref(), Some("localhost"));
        assert_eq!(of(""), None);
    }
}

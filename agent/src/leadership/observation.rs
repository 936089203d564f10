//! What the hook hands over: one announcement of a leader, exactly as Flink made it.

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

/// One call of `notifyLeaderAddress`.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Whose leader it is.
    pub seat: SeatKey,
    /// The leader announced; none where the id was null, with or without an address.
    pub leader: Option<Leader>,
    /// When the call was made.
    pub at: Moment,
}

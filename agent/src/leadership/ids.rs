//! The names of what is followed: leader session ids, job ids, components, seats.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A leader session id: the UUID that Flink draws at random for each election and never grants twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u128);

impl SessionId {
    /// The id that Flink uses without high availability (`HighAvailabilityServices.DEFAULT_LEADER_ID`): one leader for
    /// good.
    pub const NO_HIGH_AVAILABILITY: SessionId = SessionId(0);

    /// From the two halves of a `java.util.UUID`.
    pub fn from_uuid_halves(most_significant: u64, least_significant: u64) -> Self {
        Self(u128::from(most_significant) << 64 | u128::from(least_significant))
    }
}

/// Prints as `java.util.UUID` does.
impl fmt::Display for SessionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        write!(out, "{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

/// A job id. The number's hexadecimal digits are the ones that Flink prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u128);

impl JobId {
    /// From the two fields of Flink's `AbstractID`, which prints its **lower** part first.
    pub fn from_abstract_id(lower_part: u64, upper_part: u64) -> Self {
        Self(u128::from(lower_part) << 64 | u128::from(upper_part))
    }
}

/// Prints as Flink's `JobID` does: 32 hexadecimal digits.
impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

/// A text that is not an id: not 32 hexadecimal digits (dashes aside).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnId(pub String);

impl fmt::Display for NotAnId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}` is not an id: 32 hexadecimal digits are", self.0)
    }
}

impl std::error::Error for NotAnId {}

fn parse_hex(text: &str) -> Result<u128, NotAnId> {
    let digits = text.chars().filter(|c| *c != '-').map(|c| c.to_digit(16));
    let (count, number) = digits.fold((0, Some(0_u128)), |(count, number), digit| {
        (count + 1, number.zip(digit).map(|(number, digit)| number << 4 | u128::from(digit)))
    });
    number.filter(|_| count == 32).ok_or_else(|| NotAnId(text.to_owned()))
}

macro_rules! id_text {
    ($id:ident) => {
        impl FromStr for $id {
            type Err = NotAnId;
            fn from_str(text: &str) -> Result<Self, NotAnId> {
                parse_hex(text).map($id)
            }
        }
        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                out.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                String::deserialize(input)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
id_text!(SessionId);
id_text!(JobId);

/// A part of a Flink cluster that has a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// The JobMaster of one job; announced to people as the JobManager.
    #[serde(rename = "jobmanager")]
    JobManager,
    /// The ResourceManager: one a cluster.
    #[serde(rename = "resourcemanager")]
    ResourceManager,
    /// The Dispatcher: one a cluster.
    Dispatcher,
    /// The REST endpoint: one a cluster.
    RestServer,
}

impl Component {
    /// The name in alerts and in the alert log.
    pub fn name(self) -> &'static str {
        match self {
            Component::JobManager => "jobmanager",
            Component::ResourceManager => "resourcemanager",
            Component::Dispatcher => "dispatcher",
            Component::RestServer => "rest_server",
        }
    }

    /// The component of that name.
    pub fn of_name(name: &str) -> Option<Component> {
        let all = [Component::JobManager, Component::ResourceManager, Component::Dispatcher, Component::RestServer];
        all.into_iter().find(|component| component.name() == name)
    }
}

/// What a leader leads: a component and, for a JobMaster, its job. Never an object: Flink makes a new listener object
/// whenever a job returns to a TaskManager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeatKey {
    /// The component.
    pub component: Component,
    /// The job, where the component is one a job.
    pub job_id: Option<JobId>,
}

impl SeatKey {
    /// The seat of a job's JobMaster.
    pub fn job(job_id: JobId) -> Self {
        Self { component: Component::JobManager, job_id: Some(job_id) }
    }

    /// The seat of a component of which a cluster has one.
    pub fn cluster(component: Component) -> Self {
        Self { component, job_id: None }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Vector from Flink 1.9.3 and 2.3.0: a JobID prints its lower part first.
    #[test]
    fn a_job_id_prints_lower_then_upper() {
        let id = JobId::from_abstract_id(0x0011_2233_4455_6677, 0x8899_aabb_ccdd_eeff);
        assert_eq!(id.to_string(), "00112233445566778899aabbccddeeff");
        assert_eq!("00112233445566778899aabbccddeeff".parse::<JobId>().unwrap(), id);
    }

    #[test]
    fn a_session_id_prints_as_a_uuid_and_reads_back() {
        let id = SessionId::from_uuid_halves(0x0011_2233_4455_6677, 0x8899_aabb_ccdd_eeff);
        assert_eq!(id.to_string(), "00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(id.to_string().parse::<SessionId>().unwrap(), id);
        assert!("0011".parse::<SessionId>().is_err());
        assert!("zz112233-4455-6677-8899-aabbccddeeff".parse::<SessionId>().is_err());
    }
}

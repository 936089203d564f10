//! A pause of alerts, as `leaderwatch pause` writes it and the agents read it: `pause.json` in the state folder of a user,
//! namespace and cluster.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Name of the file.
pub const FILE_NAME: &str = "pause.json";
/// Longest pause: whoever forgets it misses no more than a day.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Most bytes of the file.
const MOST_BYTES: u64 = 64 * 1024;

/// A pause. It always ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Version of this form: 1.
    pub schema: u32,
    /// When it began.
    #[serde(serialize_with = "crate::event::with_milliseconds")]
    pub from: Timestamp,
    /// When it ends.
    #[serde(serialize_with = "crate::event::with_milliseconds")]
    pub until: Timestamp,
    /// What for, as people are told.
    pub reason: String,
}

impl Pause {
    /// How long it still lasts; never longer than [`LONGEST`], whatever the file says.
    pub fn remaining(&self, now: Timestamp) -> Duration {
        Duration::try_from(self.until.duration_since(now)).unwrap_or_default().min(LONGEST)
    }

    /// Replaces the file in `folder` in one step.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let new = folder.join(format!("{FILE_NAME}.new"));
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        fs::rename(new, folder.join(FILE_NAME))
    }

    /// Takes away what stands in `folder`, where it is no pause.
    ///
    /// # Errors
    /// Those of the system.
    pub fn remove(folder: &Path) -> io::Result<()> {
        fs::remove_file(folder.join(FILE_NAME))
    }

    /// What stands in `folder`, over or not; none: there never was a pause.
    ///
    /// # Errors
    /// Those of the system, and `InvalidData` where the file is something else.
    pub fn read(folder: &Path) -> io::Result<Option<Pause>> {
        let file = match File::open(folder.join(FILE_NAME)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut text)?;
        let pause = serde_json::from_slice(&text)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{FILE_NAME} is no pause: {error}")))?;
        Ok(Some(pause))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_lasts_longer_than_a_day() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Pause::read(folder.path()).unwrap(), None);
        let (from, until) = (Timestamp::from_second(0).unwrap(), Timestamp::from_second(1_000_000).unwrap());
        let pause = Pause { schema: 1, from, until, reason: "upgrade".into() };
        pause.write(folder.path()).unwrap();
        assert_eq!(Pause::read(folder.path()).unwrap(), Some(pause.clone()));
        assert_eq!(pause.remaining(from), LONGEST);
        assert_eq!(pause.remaining(until), Duration::ZERO);
        fs::write(folder.path().join(FILE_NAME), "{").unwrap();
        assert_eq!(Pause::read(folder.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

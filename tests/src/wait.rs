//! Waiting for a thing to be so, with a limit; never for a time to pass.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often a condition is looked at.
const PAUSE: Duration = Duration::from_millis(25);

/// What `probe` finds, as soon as it finds something.
///
/// # Errors
/// Where it found nothing within `limit`: names `what` was waited for, and the last error of `probe`, if it had one.
pub fn until<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + limit;
    loop {
        let found = probe();
        if let Ok(Some(found)) = found {
            return Ok(found);
        }
        if Instant::now() >= end {
            found.with_context(|| format!("waited {limit:?} for {what}"))?;
            bail!("waited {limit:?} for {what}, and it did not come");
        }
        std::thread::sleep(PAUSE);
    }
}

//! The agent under test, as JVM options.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::installation::source_root;
use crate::mail::MailReceiver;
use crate::webhook::WebhookReceiver;

/// The built agent: `$LEADERWATCH_AGENT`, else that of the development profile in the tree, which checks its arithmetic.
///
/// # Errors
/// Where it is not there.
pub fn library() -> Result<PathBuf> {
    let told = std::env::var_os("LEADERWATCH_AGENT").map(PathBuf::from);
    let path = told.unwrap_or_else(|| source_root().join("target/debug/libleaderwatch.so"));
    if !path.is_file() {
        bail!("{} is not there; build it by: cargo build -p leaderwatch-native", path.display());
    }
    Ok(path.canonicalize()?)
}

/// The command `leaderwatch`, which is built beside the library.
///
/// # Errors
/// Where it is not there.
pub fn command() -> Result<PathBuf> {
    let path = library()?.with_file_name("leaderwatch");
    if !path.is_file() {
        bail!("{} is not there; build it by: cargo build -p leaderwatch-agent", path.display());
    }
    Ok(path)
}

/// `-agentpath:LIBRARY=KEY=VALUE,...`
pub fn java_option(library: &Path, options: &[(&str, &str)]) -> String {
    let options: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("-agentpath:{}={}", library.display(), options.join(","))
}

/// [`java_option`] for the built agent, which tells both receivers; `more` options may follow.
///
/// # Errors
/// Where the agent is not built.
pub fn telling(webhook: &WebhookReceiver, mail: &MailReceiver, more: &[(&str, &str)]) -> Result<String> {
    let (url, smtp) = (webhook.url(), format!("smtp://127.0.0.1:{}", mail.port()));
    let mut options = vec![("webhook", url.as_str()), ("email", "ops@example.org"), ("smtp", smtp.as_str())];
    options.extend_from_slice(more);
    Ok(java_option(&library()?, &options))
}

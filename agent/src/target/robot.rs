//! Replies of chat robots that answer HTTP 200 whatever happened, with a code in the body.

use std::time::Duration;

use super::Outcome;
use super::http::Reply;

/// What a code other than zero means.
pub(super) enum Verdict {
    /// Later it may be different.
    Later,
    /// Too many messages: the receiver does not say how long to wait, and its spans are minutes.
    TooMany,
    /// It will never be different.
    Never,
    /// Signature or time stamp: never, unless the clock is set right.
    Signature,
}

/// Shortest wait after "too many".
const SPAN: Duration = Duration::from_secs(60);

/// Judges a reply by the first of `code_fields` that it has; zero is delivered.
pub(super) fn judge(
    reply: &Reply,
    code_fields: &[&str],
    message_fields: &[&str],
    verdict: impl Fn(i64, &str) -> Verdict,
) -> Outcome {
    let Some(json) = reply.json() else { return reply.unclear() };
    let Some(code) = code_fields.iter().find_map(|field| json[field].as_i64()) else { return reply.unclear() };
    if code == 0 {
        return reply.failure().unwrap_or_else(Outcome::delivered);
    }
    let message = message_fields.iter().find_map(|field| json[field].as_str()).unwrap_or_default();
    let reason = format!("answered {} with code {code}: {}", reply.status, super::text::one_line(message));
    match verdict(code, message) {
        Verdict::Later => Outcome::Retry { after: reply.retry_after(), reason },
        Verdict::TooMany => Outcome::Retry { after: Some(reply.retry_after().unwrap_or_default().max(SPAN)), reason },
        Verdict::Never => Outcome::Reject { reason },
        Verdict::Signature => match reply.clock_ahead_seconds() {
            Some(ahead) if ahead.abs() > 60 => Outcome::reject(format!(
                "{reason}; this host's clock is {ahead} s ahead of the receiver's: set it right"
            )),
            _ => Outcome::reject(format!("{reason}; check the signing secret")),
        },
    }
}

//! Texts and addresses that must never be seen: they print as dots.

use std::fmt;

use reqwest::Url;

/// A text that must never be seen.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for the receiver only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("…")
    }
}

/// An HTTP address. For most chat services whoever knows it can post, so that only scheme and host may be seen.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(Url);

/// A text that is not an HTTP address. Does not hold the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadUrl {
    /// Not an address at all.
    Syntax(String),
    /// Another scheme than `http` or `https`.
    Scheme(String),
}

impl fmt::Display for BadUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadUrl::Syntax(why) => write!(out, "is not a URL ({why}); give the whole address, beginning with https://"),
            BadUrl::Scheme(scheme) => write!(out, "begins with `{scheme}://`; http:// and https:// are allowed"),
        }
    }
}

impl std::error::Error for BadUrl {}

impl SecretUrl {
    /// Reads an address; blanks around it are dropped, as files end with a line feed.
    pub fn parse(text: &str) -> Result<SecretUrl, BadUrl> {
        let url = Url::parse(text.trim()).map_err(|error| BadUrl::Syntax(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadUrl::Scheme(url.scheme().to_owned()));
        }
        Ok(SecretUrl(url))
    }

    /// The address, for the receiver only.
    pub fn expose(&self) -> &Url {
        &self.0
    }

    /// The address with more in its query.
    pub fn with_query(&self, pairs: &[(&str, &str)]) -> SecretUrl {
        let mut url = self.0.clone();
        url.query_pairs_mut().extend_pairs(pairs);
        SecretUrl(url)
    }

    /// The address with another path below its own.
    pub fn join(&self, path: &str) -> SecretUrl {
        let mut url = self.0.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{}", path.trim_start_matches('/')));
        SecretUrl(url)
    }

    /// The address with its last segment replaced by this path.
    pub fn with_last_segment(&self, path: &str) -> SecretUrl {
        let mut url = self.0.clone();
        let folder = url.path().rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        url.set_path(&format!("{folder}/{path}"));
        SecretUrl(url)
    }

    /// What of the address nobody else is to read: path, query, user and password.
    pub fn hidden(&self) -> impl Iterator<Item = &str> {
        [Some(self.0.path()), self.0.query(), Some(self.0.username()), self.0.password()].into_iter().flatten()
    }

    /// Host, and port where it is not the scheme's own: as much of the address as is no secret.
    pub fn place(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// `text` without any part of the address beyond scheme, host and port.
    pub fn scrub(&self, text: &str) -> String {
        let whole = text.replace(self.0.as_str(), "…");
        self.hidden().filter(|part| part.len() > 1).fold(whole, |text, part| text.replace(part, "…"))
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}/…", self.0.scheme(), self.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scheme_and_host_are_seen() {
        let url = SecretUrl::parse("https://user:pass@hooks.example.com/T0/B0/token?key=abc\n").unwrap();
        assert_eq!(format!("{url:?}"), "https://hooks.example.com/…");
        assert_eq!(format!("{:?}", Secret::new("abc")), "…");
        let error = "POST https://user:pass@hooks.example.com/T0/B0/token?key=abc failed: /T0/B0/token?key=abc, pass";
        assert_eq!(url.scrub(error), "POST … failed: …?…, …");
    }

    #[test]
    fn an_error_does_not_repeat_the_text() {
        let error = SecretUrl::parse("hooks.example.com/secret").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(SecretUrl::parse("ftp://host/secret"), Err(BadUrl::Scheme("ftp".into())));
    }

    #[test]
    fn queries_and_paths_are_added_to_what_is_there() {
        let url = SecretUrl::parse("https://host/robot/send?access_token=T").unwrap();
        let signed = url.with_query(&[("timestamp", "1"), ("sign", "a+b/c=")]);
        assert_eq!(signed.expose().as_str(), "https://host/robot/send?access_token=T&timestamp=1&sign=a%2Bb%2Fc%3D");
        let base = SecretUrl::parse("http://host/prefix/").unwrap();
        assert_eq!(base.join("api/v2/alerts").expose().as_str(), "http://host/prefix/api/v2/alerts");
    }
}

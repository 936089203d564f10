//! A target with secrets in files: it is made anew when their content has changed, so that a rotated secret counts at the
//! next attempt, without a restart.
//!
//! The files are read before each attempt, on the sender's thread; secrets are small files on local or memory file systems.

use std::sync::Arc;

use parking_lot::Mutex;

use super::build::{Builder, NotBuilt};
use super::{Manner, Notice, Sending, Target};
use crate::config::{KindSettings, SecretSource, TargetSettings};

/// The target.
pub(super) struct Fresh {
    settings: TargetSettings,
    builder: Builder,
    made: Mutex<Made>,
}

struct Made {
    of: Contents,
    target: Arc<dyn Target>,
}

/// What the files held; none for one that could not be read.
type Contents = Vec<Option<crate::config::Secret>>;

impl Fresh {
    /// Makes the target, for the first time.
    pub(super) fn new(settings: &TargetSettings, builder: Builder) -> Result<Fresh, NotBuilt> {
        let of = contents(settings);
        let target = builder.build_once(settings)?;
        Ok(Fresh { settings: settings.clone(), builder, made: Mutex::new(Made { of, target }) })
    }

    fn target(&self) -> Arc<dyn Target> {
        let mut made = self.made.lock();
        let now = contents(&self.settings);
        // A file that is gone for the moment says nothing new: secrets are replaced by renaming, or in two steps.
        if now != made.of && now.iter().all(Option::is_some) {
            match self.builder.build_once(&self.settings) {
                Ok(target) => made.target = target,
                Err(error) => log::warn!("target `{}` goes on with its old secrets: {error}", self.settings.name),
            }
            made.of = now;
        }
        Arc::clone(&made.target)
    }
}

impl Target for Fresh {
    fn name(&self) -> &str {
        &self.settings.name
    }
    fn kind(&self) -> &'static str {
        self.settings.kind.name()
    }
    fn manner(&self) -> Manner {
        self.made.lock().target.manner()
    }
    fn takes_alerts(&self) -> bool {
        self.made.lock().target.takes_alerts()
    }
    fn beat(&self) -> Sending<'_> {
        let target = self.target();
        Box::pin(async move { target.beat().await })
    }
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a> {
        let target = self.target();
        Box::pin(async move { target.send(notice).await })
    }
}

/// Whether any secret of the target is in a file.
pub(super) fn has_files(settings: &TargetSettings) -> bool {
    secrets(settings).iter().any(|source| matches!(source, SecretSource::File(_)))
}

fn contents(settings: &TargetSettings) -> Contents {
    let files = secrets(settings).into_iter().filter(|source| matches!(source, SecretSource::File(_)));
    files.map(|source| source.current().ok()).collect()
}

fn secrets(settings: &TargetSettings) -> Vec<&SecretSource> {
    let mut secrets: Vec<&SecretSource> = settings.connection.proxy.iter().collect();
    match &settings.kind {
        KindSettings::Webhook(config) => {
            secrets.push(&config.url);
            secrets.extend(&config.secrets);
            secrets.extend(&config.token);
            secrets.extend(config.login.iter().map(|login| &login.password));
            secrets.extend(config.headers.iter().map(|(_, value)| value));
        }
        KindSettings::Email(config) => secrets.extend(config.login.iter().map(|login| &login.password)),
        KindSettings::Slack(config)
        | KindSettings::Teams(config)
        | KindSettings::Discord(config)
        | KindSettings::WeCom(config) => secrets.push(&config.url),
        KindSettings::DingTalk(config) => {
            secrets.push(&config.url);
            secrets.extend(&config.secret);
        }
        KindSettings::Feishu(config) => {
            secrets.push(&config.url);
            secrets.extend(&config.secret);
        }
        KindSettings::Telegram(config) => secrets.extend([&config.url, &config.token]),
        KindSettings::PagerDuty(config) => secrets.extend([&config.url, &config.routing_key]),
        KindSettings::Alertmanager(config) => {
            secrets.extend(&config.urls);
            secrets.extend(&config.token);
            secrets.extend(config.login.iter().map(|login| &login.password));
        }
        KindSettings::KubernetesEvent(config) => {
            secrets.extend(&config.url);
            secrets.extend(&config.token);
        }
        KindSettings::Heartbeat(config) => secrets.push(&config.url),
    }
    secrets
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Outcome;
    use super::super::fake::{Behaviour, FakeHttp};
    use super::*;
    use crate::clock::ManualClock;
    use crate::config::{ConnectionConfig, UrlConfig};
    use crate::delivery::test_notice;

    #[tokio::test]
    async fn a_rotated_secret_counts_at_the_next_attempt_and_a_lost_one_is_the_last_known() {
        let (old, new) = (
            FakeHttp::start(vec![Behaviour::reply(403, "revoked")]).await,
            FakeHttp::start(vec![Behaviour::reply(200, "ok")]).await,
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        std::fs::write(&file, old.url("/a").expose().as_str()).unwrap();
        let settings = TargetSettings {
            name: "chat".into(),
            classes: Vec::new(),
            fallback: None,
            connection: ConnectionConfig {
                proxy: None,
                ca_file: None,
                client_certificate: None,
                server_name: None,
                timeout: Duration::from_secs(2),
            },
            kind: KindSettings::Slack(UrlConfig { url: SecretSource::File(file.clone()) }),
        };
        let target = Builder::new(Arc::new(ManualClock::default())).build(&settings).unwrap();
        let notice = test_notice("1", "text");
        assert_eq!(target.send(&notice).await, Outcome::reject("answered 403: revoked"));
        std::fs::write(&file, format!("{}\n", new.url("/b").expose())).unwrap();
        assert_eq!(target.send(&notice).await, Outcome::delivered());
        std::fs::remove_file(&file).unwrap();
        assert_eq!(target.send(&notice).await, Outcome::delivered());
        std::fs::write(&file, "not a url").unwrap();
        assert_eq!(target.send(&notice).await, Outcome::delivered());
        assert_eq!((old.requests().len(), new.requests().len()), (1, 3));
    }
}

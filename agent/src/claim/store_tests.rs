//! Every store does what claims need of one: in a folder, in a real ZooKeeper, and over an API of Kubernetes made for the
//! test. And two hundred agents, each on a thread of its own, agree over each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::mpsc;

use super::body::Holder;
use super::file::FileStore;
use super::gate::{ClaimGate, GateSettings};
use super::store::{Store, Version, Written};
use crate::clock::{Clock, SystemClock};
use crate::delivery::sender::{CHANNEL_COMMANDS, SenderSettings, run};
use crate::delivery::{Command, Progress, Route, Submission, test_notice};
use crate::target::{Notice, Outcome, Sending, Target};

/// Enough for a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn done(written: Written) -> Version {
    match written {
        Written::Done(version) => version,
        Written::Refused => panic!("it was refused"),
    }
}

/// What every store must do.
pub(super) async fn conforms(store: &dyn Store) {
    assert_eq!(store.list().await.unwrap(), Vec::<String>::new());
    assert_eq!(store.read("claim-1").await.unwrap(), None);
    let wrong = Version("7.7".into());
    assert_eq!(store.swap("claim-1", &wrong, b"x").await.unwrap(), Written::Refused);
    assert!(!store.delete("claim-1", &wrong).await.unwrap());

    let first = done(store.create("claim-1", b"one").await.unwrap());
    assert_eq!(store.create("claim-1", b"two").await.unwrap(), Written::Refused);
    let entry = store.read("claim-1").await.unwrap().unwrap();
    assert_eq!((entry.version, entry.body.as_slice()), (first.clone(), &b"one"[..]));

    let long = "a line of text\n".repeat(15_000);
    let second = done(store.swap("claim-1", &first, long.as_bytes()).await.unwrap());
    assert_ne!(first, second);
    assert_eq!(store.swap("claim-1", &first, b"three").await.unwrap(), Written::Refused);
    let entry = store.read("claim-1").await.unwrap().unwrap();
    assert_eq!((&entry.version, entry.body.as_slice()), (&second, long.as_bytes()));
    // The same content is another version all the same.
    let third = done(store.swap("claim-1", &second, long.as_bytes()).await.unwrap());
    assert_ne!(second, third);

    done(store.create("claim-2", b"other").await.unwrap());
    let mut names = store.list().await.unwrap();
    names.sort();
    assert_eq!(names, ["claim-1", "claim-2"]);

    assert!(!store.delete("claim-1", &second).await.unwrap());
    assert!(store.delete("claim-1", &third).await.unwrap());
    assert_eq!(store.read("claim-1").await.unwrap(), None);
    let anew = done(store.create("claim-1", b"anew").await.unwrap());
    assert_ne!(anew, first);
    assert_eq!(store.read("claim-1").await.unwrap().unwrap().body, b"anew");

    let (earlier, later) = (store.time().await.unwrap(), store.time().await.unwrap());
    assert!(earlier <= later);
    assert!(later.duration_since(earlier) < SignedDuration::from_secs(60));
    let mut names = store.list().await.unwrap();
    names.sort();
    assert_eq!(names, ["claim-1", "claim-2"]);
}

fn on_own_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build();
    runtime.unwrap().block_on(work)
}

/// Threads that count up in one document: no write is lost, and none counts twice.
pub(super) fn counts(open: impl Fn() -> Arc<dyn Store> + Sync) {
    const THREADS: usize = 8;
    const EACH: usize = 10;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let store = open();
                on_own_runtime(async {
                    let mut counted = 0;
                    while counted < EACH {
                        let written = match store.read("counter").await.unwrap() {
                            None => store.create("counter", b"1").await.unwrap(),
                            Some(entry) => {
                                let count: usize = String::from_utf8(entry.body).unwrap().parse().unwrap();
                                let next = (count + 1).to_string();
                                store.swap("counter", &entry.version, next.as_bytes()).await.unwrap()
                            }
                        };
                        counted += usize::from(written != Written::Refused);
                    }
                });
            });
        }
    });
    let body = on_own_runtime(async { open().read("counter").await.unwrap().unwrap().body });
    assert_eq!(String::from_utf8(body).unwrap(), (THREADS * EACH).to_string());
}

struct Receiver {
    sends: Arc<AtomicUsize>,
}

impl Target for Receiver {
    fn name(&self) -> &'static str {
        "ops"
    }
    fn kind(&self) -> &'static str {
        "fake"
    }
    fn send<'a>(&'a self, _notice: &'a Notice) -> Sending<'a> {
        Box::pin(async move {
            self.sends.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
            Outcome::delivered()
        })
    }
}

/// An agent with everything of its own sees an election, and has dealt with it when this returns.
async fn see_one_election(number: usize, store: Arc<dyn Store>, sends: Arc<AtomicUsize>) -> Vec<&'static str> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (told, mut heard) = mpsc::unbounded_channel();
    let report = Arc::new(move |step: Progress| {
        let word = match step {
            Progress::Delivered { .. } => "delivered",
            Progress::Suppressed { .. } => "suppressed",
            Progress::Problem(problem) => {
                eprintln!("{problem:?}");
                "problem"
            }
            _ => "something else",
        };
        told.send(word).unwrap();
    });
    let mut settings = GateSettings::new(
        Holder { host: format!("tm-{number}"), pid: 1, token: number.to_string() },
        Duration::from_secs(300),
    );
    settings.patience = PATIENCE;
    let gate = ClaimGate::new(store, settings, Arc::clone(&clock), report.clone());
    let mut settings = SenderSettings::new(clock);
    settings.gate = Arc::new(gate);
    let (commands, receiver) = mpsc::channel(CHANNEL_COMMANDS);
    let route = Route::new(Arc::new(Receiver { sends }), None);
    let sender = tokio::spawn(run(vec![route], settings, report, receiver));
    let submission = Submission::new(Arc::new(test_notice("a1", "text")), vec!["ops".to_owned()], None);
    commands.send(Command::Send(submission)).await.unwrap();
    let mut words = vec![heard.recv().await.unwrap()];
    commands.send(Command::Stop { within: PATIENCE }).await.unwrap();
    assert_eq!(sender.await.unwrap(), 0);
    while let Ok(word) = heard.try_recv() {
        words.push(word);
    }
    words
}

/// Two hundred agents, each on a thread of its own.
pub(super) fn one_of_two_hundred_sends(open: impl Fn() -> Arc<dyn Store> + Sync) {
    const AGENTS: usize = 200;
    let sends = Arc::new(AtomicUsize::new(0));
    let start = std::sync::Barrier::new(AGENTS);
    let words: Vec<&str> = std::thread::scope(|scope| {
        let agents: Vec<_> = (0..AGENTS)
            .map(|number| {
                let (open, start, sends) = (&open, &start, Arc::clone(&sends));
                scope.spawn(move || {
                    let store = open();
                    start.wait();
                    on_own_runtime(see_one_election(number, store, sends))
                })
            })
            .collect();
        agents.into_iter().flat_map(|agent| agent.join().unwrap()).collect()
    });
    assert_eq!(sends.load(Ordering::SeqCst), 1);
    assert_eq!(words.iter().filter(|word| **word == "delivered").count(), 1);
    assert_eq!(words.iter().filter(|word| **word == "suppressed").count(), AGENTS - 1);
    assert_eq!(words.len(), AGENTS);
}

mod file {
    use super::*;

    #[tokio::test]
    async fn a_folder_conforms() {
        let folder = tempfile::tempdir().unwrap();
        conforms(&FileStore::new(folder.path().join("not/there/yet"))).await;
    }

    #[test]
    fn no_write_is_lost_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        counts(|| Arc::new(FileStore::new(folder.path())));
    }

    #[test]
    fn one_of_two_hundred_sends_over_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        one_of_two_hundred_sends(|| Arc::new(FileStore::new(folder.path())));
        // What is left is one claim with the generations that are kept.
        let claims: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(claims.len(), 1);
        let generations = std::fs::read_dir(claims[0].as_ref().unwrap().path()).unwrap().count();
        assert!(generations <= 64, "{generations}");
    }

    /// What is remembered of ten thousand jobs takes megabytes, each time it is written.
    #[tokio::test]
    async fn a_private_folder_keeps_few_generations() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::private(folder.path());
        let Ok(Written::Done(mut version)) = store.create("seats", b"0").await else { panic!("not created") };
        for number in 1..100 {
            let written = store.swap("seats", &version, number.to_string().as_bytes()).await;
            let Ok(Written::Done(next)) = written else { panic!("{number}: {written:?}") };
            version = next;
        }
        assert_eq!(std::fs::read_dir(folder.path().join("seats")).unwrap().count(), 8);
        assert_eq!(store.read("seats").await.unwrap().unwrap().body, b"99");
    }

    #[tokio::test]
    async fn what_is_private_is_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::private(folder.path().join("leaders"));
        done(store.create("seats", b"x").await.unwrap());
        let mode = |path: &str| {
            let metadata = std::fs::metadata(folder.path().join(path)).unwrap();
            std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777
        };
        assert_eq!([mode("leaders"), mode("leaders/seats"), mode("leaders/seats/000000000001")], [0o700, 0o700, 0o600]);
    }

    #[tokio::test]
    async fn a_writer_that_is_far_behind_is_refused_and_takes_its_trace_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path());
        let mut versions = vec![done(store.create("claim-1", b"0").await.unwrap())];
        for generation in 1..=100 {
            let last = versions.last().unwrap();
            versions.push(done(store.swap("claim-1", last, generation.to_string().as_bytes()).await.unwrap()));
        }
        for old in &versions[..100] {
            assert_eq!(store.swap("claim-1", old, b"late").await.unwrap(), Written::Refused);
        }
        assert_eq!(store.read("claim-1").await.unwrap().unwrap().body, b"100");
        let names = std::fs::read_dir(folder.path().join("claim-1")).unwrap().count();
        assert_eq!(names, 64);
    }

    #[tokio::test]
    async fn what_a_crash_leaves_half_written_is_not_seen() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path());
        std::fs::create_dir(folder.path().join("claim-1")).unwrap();
        std::fs::write(folder.path().join("claim-1/.1-0123456789abcdef"), b"ha").unwrap();
        assert_eq!(store.read("claim-1").await.unwrap(), None);
        let version = done(store.create("claim-1", b"whole").await.unwrap());
        assert_eq!(store.read("claim-1").await.unwrap().unwrap().body, b"whole");
        assert!(store.delete("claim-1", &version).await.unwrap());
        assert_eq!(store.list().await.unwrap(), Vec::<String>::new(), "it is cleared away with the claim");
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_made_is_an_error_of_the_store() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), b"").unwrap();
        let store = FileStore::new(folder.path().join("file/below"));
        assert!(store.create("claim-1", b"x").await.is_err());
        assert!(store.list().await.is_err());
    }
}

mod zookeeper {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    use super::super::store::StoreError;
    use super::super::zookeeper::ZooKeeperStore;
    use super::*;
    use crate::target::resolver::Resolver;

    fn jars() -> PathBuf {
        let cache = std::env::var_os("LEADERWATCH_CACHE").map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        cache.unwrap_or_else(|| home().join(".cache/leaderwatch")).join("flink-2.3.0/lib")
    }

    fn run_server(settings: &std::path::Path) -> std::io::Result<Child> {
        Command::new("java")
            .args([
                "-Xmx96m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Dzookeeper.jmx.log4j.disable=true",
                "-cp",
            ])
            .arg(jars().join("*"))
            .arg("org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServerMain")
            .arg(settings)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }

    /// A real ZooKeeper, of the classes in Flink's own jar.
    struct Server {
        process: Child,
        port: u16,
        file: PathBuf,
        _folder: tempfile::TempDir,
    }

    impl Server {
        /// None where there is no Java or no Flink, which is said.
        fn start(more: &str) -> Option<Server> {
            let jars = jars();
            if !jars.join("flink-dist-2.3.0.jar").exists() {
                eprintln!("SKIPPED: no flink-dist-2.3.0.jar in {}; `scripts/flink` fetches it", jars.display());
                return None;
            }
            let folder = tempfile::tempdir().unwrap();
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let settings = format!(
                "tickTime=200\nclientPort={port}\nclientPortAddress=127.0.0.1\ndataDir={}\nadmin.enableServer=false\n\
                 maxClientCnxns=0\n4lw.commands.whitelist=srvr,cons\n{more}\n",
                folder.path().display()
            );
            let file = folder.path().join("zoo.cfg");
            std::fs::write(&file, settings).unwrap();
            let process = match run_server(&file) {
                Ok(process) => process,
                Err(error) => {
                    eprintln!("SKIPPED: java cannot be started: {error}");
                    return None;
                }
            };
            let server = Server { process, port, file, _folder: folder };
            server.wait_until_it_serves();
            Some(server)
        }

        fn wait_until_it_serves(&self) {
            for _ in 0..600 {
                if self.tell("srvr").is_some_and(|answer| answer.contains("Mode: standalone")) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            panic!("ZooKeeper does not serve after 60 s");
        }

        fn tell(&self, word: &str) -> Option<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            // A server that is not up yet may take the word and never answer it.
            stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
            stream.write_all(word.as_bytes()).ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            Some(answer)
        }

        fn store(&self) -> ZooKeeperStore {
            let servers = vec![("127.0.0.1".to_owned(), self.port)];
            ZooKeeperStore::with_patience(servers, "/leaderwatch/flink.orders", Resolver::default(), PATIENCE)
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            self.process.kill().unwrap();
            self.process.wait().unwrap();
        }
    }

    #[test]
    fn a_real_zookeeper_conforms_and_loses_no_write() {
        let Some(server) = Server::start("") else { return };
        on_own_runtime(conforms(&server.store()));
        on_own_runtime(async {
            let other = ZooKeeperStore::new(
                vec![("127.0.0.1".to_owned(), server.port)],
                "/leaderwatch/flink.other",
                Resolver::default(),
            );
            assert_eq!(other.list().await.unwrap(), Vec::<String>::new(), "clusters are kept apart");
        });
        counts(|| Arc::new(server.store()));
    }

    #[test]
    fn one_of_two_hundred_sends_over_a_real_zookeeper() {
        let Some(server) = Server::start("") else { return };
        one_of_two_hundred_sends(|| Arc::new(server.store()));
    }

    #[test]
    fn a_connection_that_nobody_uses_is_left() {
        let Some(server) = Server::start("") else { return };
        on_own_runtime(async {
            let store = server.store();
            store.list().await.unwrap();
            let clients = || server.tell("cons").unwrap().lines().filter(|line| line.contains("sid=")).count();
            assert_eq!(clients(), 1);
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                if clients() == 0 {
                    return;
                }
            }
            panic!("an idle connection stays");
        });
    }

    #[test]
    fn a_zookeeper_that_went_and_came_back_is_found_again_and_a_dead_server_is_passed_over() {
        let Some(mut server) = Server::start("") else { return };
        on_own_runtime(async {
            let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let servers = vec![("127.0.0.1".to_owned(), dead), ("127.0.0.1".to_owned(), server.port)];
            let store = ZooKeeperStore::new(servers, "/leaderwatch/x", Resolver::default());
            for _ in 0..3 {
                store.list().await.unwrap();
            }
            let version = done(store.create("claim-1", b"one").await.unwrap());
            server.process.kill().unwrap();
            server.process.wait().unwrap();
            let error = store.read("claim-1").await.unwrap_err();
            assert!(matches!(&error, StoreError::Unreachable(why) if why.contains("127.0.0.1:")), "{error}");
            server.process = run_server(&server.file).unwrap();
            server.wait_until_it_serves();
            assert_eq!(store.read("claim-1").await.unwrap().unwrap().version, version);
        });
    }

    #[tokio::test]
    async fn what_is_no_zookeeper_is_an_error_and_nothing_worse() {
        for answer in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x04\0\0\0\0", b"\xff\xff\xff\xff"] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await;
                }
            });
            let store = ZooKeeperStore::new(vec![("127.0.0.1".to_owned(), port)], "/x", Resolver::default());
            let error = store.list().await.unwrap_err();
            assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
        }
    }

    #[test]
    fn a_zookeeper_that_wants_a_login_says_so() {
        let more = "authProvider.sasl=org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.auth.\
                    SASLAuthenticationProvider\nenforce.auth.enabled=true\nenforce.auth.schemes=sasl";
        let Some(server) = Server::start(more) else { return };
        let error = on_own_runtime(async { server.store().create("claim-1", b"x").await.unwrap_err() });
        assert!(matches!(&error, StoreError::Forbidden(why) if why.contains("SASL (Kerberos)")), "{error}");
    }
}

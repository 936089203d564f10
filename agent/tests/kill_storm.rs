//! A storm of alerts against a receiver that fails at random, by processes that are killed with SIGKILL at random moments:
//! every alert that was ever in the outbox is delivered at least once.
//!
//! `LEADERWATCH_KILLS` sets the number of kills (100 if unset). The number of repeats is printed: a process that dies
//! between the receiver's answer and its record of it leaves a repeat behind, which `webhook-id` lets the receiver drop.
//!
//! Regression: a survivor that took over more than a thousand alerts gave up the oldest, as its lane was full.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use leaderwatch_agent::clock::{Clock, SystemClock};
use leaderwatch_agent::delivery::sender::{self, CHANNEL_COMMANDS};
use leaderwatch_agent::delivery::{
    Bounds, Command as Order, Entry, Outbox, Progress, Route, SenderSettings, Submission,
};
use leaderwatch_agent::target::http::{HttpClient, HttpSettings, Proxy};
use leaderwatch_agent::target::resolver::Resolver;
use leaderwatch_agent::target::secret::SecretUrl;
use leaderwatch_agent::target::webhook::{Format, Webhook, WebhookSettings};
use leaderwatch_agent::target::{Action, Notice};

/// What the child is told: folder of the outbox, port of the receiver, and `storm` or `drain`.
const CHILD: &str = "LEADERWATCH_STORM_CHILD";

#[test]
fn every_alert_survives_random_kills() {
    let kills: usize = std::env::var("LEADERWATCH_KILLS").map_or(100, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start();
    let raised: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    leave_old_alerts(folder.path(), &mut raised.lock().unwrap());
    let mut random = Random(0x5EED_1EAD);
    // Two processes at a time, so that survivors compete for what the dead left.
    for _ in 0..kills.div_ceil(2) {
        let storm = [(); 2].map(|()| start(folder.path(), receiver.port, "storm", &raised));
        let threads = storm.map(|process| {
            // Most die in the midst of the storm, some while they start.
            let (waits_for_storm, moment) = (random.below(4) > 0, Duration::from_millis(random.below(80)));
            thread::spawn(move || process.kill(waits_for_storm, moment))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // Processes that die young raise more than they send, and an outbox drops what is beyond its bytes, and says so.
        if backlog(&raised, &receiver) > MOST_BACKLOG {
            drain(folder.path(), &receiver, &raised);
        }
    }
    // Before the last process starts, nobody sends: what is missing now is what it must find.
    let backlog = backlog(&raised, &receiver);
    drain(folder.path(), &receiver, &raised);

    let (raised, acknowledged) = (raised.lock().unwrap(), receiver.acknowledged.lock().unwrap());
    let lost: Vec<_> = raised.iter().filter(|id| !acknowledged.contains_key(*id)).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), raised.len());
    let repeats: usize = acknowledged.values().map(|times| times - 1).sum();
    println!("{kills} kills, {} alerts, {backlog} left to the last process, {repeats} repeats", raised.len());
    assert!(raised.len() > OLD_ALERTS + kills, "the storm was a calm: {} alerts", raised.len());
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

fn backlog(raised: &Mutex<BTreeSet<String>>, receiver: &Receiver) -> usize {
    raised.lock().unwrap().len().saturating_sub(receiver.acknowledged.lock().unwrap().len())
}

/// Lets one process live until all is delivered, to a receiver that is sound meanwhile: it fails enough in the storm.
fn drain(folder: &Path, receiver: &Receiver, raised: &Arc<Mutex<BTreeSet<String>>>) {
    receiver.is_sound.store(true, Ordering::Relaxed);
    let mut process = start(folder, receiver.port, "drain", raised);
    assert!(process.child.wait().unwrap().success());
    receiver.is_sound.store(false, Ordering::Relaxed);
}

fn leave_old_alerts(folder: &Path, raised: &mut BTreeSet<String>) {
    let (mut dead, problems) = Outbox::open(folder, Bounds::default());
    assert_eq!(problems, []);
    let ids = (0..OLD_ALERTS).map(|number| format!("0ld-{number:x}"));
    let queued_at = Timestamp::now();
    let entries: Vec<Entry> = ids
        .inspect(|id| assert!(raised.insert(id.clone())))
        .map(|id| Entry::Due { notice: Arc::new(notice(&id)), targets: vec!["hook".into()], queued_at })
        .collect();
    assert_eq!(dead.append(&entries, queued_at), (true, vec![]));
}

struct Process {
    child: Child,
    /// Ends with the process's output.
    reader: thread::JoinHandle<()>,
    /// Told of the first alert.
    has_begun: mpsc::Receiver<()>,
}

impl Process {
    fn kill(mut self, waits_for_storm: bool, moment: Duration) {
        if waits_for_storm {
            self.has_begun.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        thread::sleep(moment);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.reader.join().unwrap();
    }
}

fn start(folder: &Path, port: u16, mode: &str, raised: &Arc<Mutex<BTreeSet<String>>>) -> Process {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(CHILD, format!("{},{port},{mode}", folder.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (output, raised) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(raised));
    let (begins, has_begun) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in output.split(b'\n').map_while(Result::ok) {
            // The last line of a killed process may be cut short.
            let line = String::from_utf8_lossy(&line).into_owned();
            if let Some((_, id)) = line.rsplit_once("raised ")
                && let Some(id) = id.strip_suffix(';')
            {
                raised.lock().unwrap().insert(id.to_owned());
                // Nobody listens where the process is killed at its start.
                let _ = begins.send(());
            }
        }
    });
    Process { child, reader, has_begun }
}

/// Alerts that are raised at once.
const BURST: usize = 5;
/// Alerts that may wait: at some 1,000 bytes each, well within the 32 MiB of an outbox.
const MOST_BACKLOG: usize = 2000;
/// Alerts of a process that died before the storm.
const OLD_ALERTS: usize = 1100;

/// The process that is killed.
#[test]
#[ignore = "started by the other test"]
fn child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let [folder, port, mode] = told.split(',').collect::<Vec<_>>().try_into().unwrap();
    let (mut outbox, problems) = Outbox::open(Path::new(folder), Bounds::default());
    assert_eq!(problems, []);
    let (orders, progress) = start_sender(port);
    let submit = |notice, targets| {
        orders.blocking_send(Order::Send(Submission::new(notice, targets, None))).unwrap();
    };
    let mut number = 0;
    let mut looked_for_orphans = None;
    loop {
        if looked_for_orphans.is_none_or(|at: Instant| at.elapsed() > Duration::from_millis(20)) {
            let adopted = outbox.take_orphans(Timestamp::now());
            assert_eq!(adopted.problems, []);
            for pending in adopted.notices {
                submit(pending.notice, pending.targets.into_iter().collect());
            }
            looked_for_orphans = Some(Instant::now());
        }
        if mode == "storm" {
            for _ in 0..BURST {
                let notice = Arc::new(notice(&format!("{:x}-{number:x}", std::process::id())));
                let (targets, queued_at) = (vec!["hook".to_owned()], Timestamp::now());
                let due = Entry::Due { notice: Arc::clone(&notice), targets: targets.clone(), queued_at };
                assert_eq!(outbox.append(&[due], queued_at), (true, vec![]));
                writeln!(std::io::stdout(), "raised {};", notice.message_id).unwrap();
                std::io::stdout().flush().unwrap();
                submit(notice, targets);
                number += 1;
            }
        } else if outbox.pending().next().is_none() {
            return outbox.close();
        }
        loop {
            match progress.recv_timeout(Duration::from_millis(1)) {
                Ok(step) => {
                    let done: Vec<Entry> = step.to_entry().into_iter().collect();
                    assert_eq!(outbox.append(&done, Timestamp::now()), (true, vec![]));
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => panic!("the sender ended"),
            }
        }
    }
}

fn start_sender(port: &str) -> (tokio::sync::mpsc::Sender<Order>, mpsc::Receiver<Progress>) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let http = HttpSettings { proxy: Proxy::None, ..HttpSettings::default() };
    let hook = WebhookSettings {
        name: "hook".into(),
        url: SecretUrl::parse(&format!("http://127.0.0.1:{port}/")).unwrap(),
        keys: Vec::new(),
        authorization: None,
        headers: Vec::new(),
        format: Format::Plain,
    };
    let http = HttpClient::new(&http, &Resolver::default()).unwrap();
    let hook = Webhook::new(hook, http, Arc::clone(&clock)).unwrap();
    let mut settings = SenderSettings::new(clock);
    settings.backoff.start = Duration::from_millis(5);
    settings.backoff.ceiling = Duration::from_millis(20);
    let (steps, progress) = mpsc::channel();
    let report = Arc::new(move |step: Progress| steps.send(step).unwrap());
    let (orders, received) = tokio::sync::mpsc::channel(CHANNEL_COMMANDS);
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let routes = vec![Route::new(Arc::new(hook), None)];
        runtime.block_on(sender::run(routes, settings, report, received))
    });
    (orders, progress)
}

fn notice(id: &str) -> Notice {
    let alert = serde_json::json!({
        "schema": 1, "id": id, "class": "failover", "severity": "critical", "cluster": "storm",
        "occurred_at": Timestamp::now(), "title": "leader moved", "text": "x".repeat(500), "members": [],
        "observer": {"host": "host", "pid": std::process::id(), "role": "taskmanager"},
    });
    Notice { message_id: id.into(), action: Action::Raise, alert: serde_json::from_value(alert).unwrap() }
}

/// A receiver that acknowledges some requests, answers 500 to some, and hangs up on some that it has taken.
struct Receiver {
    port: u16,
    /// How often each message was acknowledged.
    acknowledged: Arc<Mutex<BTreeMap<String, usize>>>,
    is_sound: Arc<AtomicBool>,
}

impl Receiver {
    fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let acknowledged: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let is_sound: Arc<AtomicBool> = Arc::default();
        let (counted, sound) = (Arc::clone(&acknowledged), Arc::clone(&is_sound));
        thread::spawn(move || {
            let mut random = Random(0xFA11_0000);
            for stream in listener.incoming().map_while(Result::ok) {
                let fate = if sound.load(Ordering::Relaxed) { 0 } else { random.below(8) };
                let counted = Arc::clone(&counted);
                thread::spawn(move || serve(stream, fate, &counted));
            }
        });
        Receiver { port, acknowledged, is_sound }
    }
}

/// Returns early where the client has been killed.
fn serve(stream: TcpStream, fate: u64, acknowledged: &Mutex<BTreeMap<String, usize>>) -> Option<()> {
    let mut request = BufReader::new(stream);
    let (mut id, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if request.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some(("webhook-id", value)) => value.clone_into(&mut id),
            Some(("content-length", value)) => length = value.parse().ok()?,
            Some(_) => {}
            None if line == "\r\n" => break,
            None => {}
        }
    }
    request.read_exact(&mut vec![0; length]).ok()?;
    let reply = match fate {
        0..=4 => {
            // Counted before the answer: a client that is killed in between has been served.
            *acknowledged.lock().unwrap().entry(id).or_default() += 1;
            "HTTP/1.1 204 No Content\r\n\r\n"
        }
        5 | 6 => "HTTP/1.1 500 Trouble\r\ncontent-length: 0\r\n\r\n",
        _ => return None,
    };
    request.get_mut().write_all(reply.as_bytes()).ok()
}

/// SplitMix64: the same moments and fates in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}

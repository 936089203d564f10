//! From the entry of `notifyLeaderAddress` to the receiver having read the whole request.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::figures::{Figure, Row, Table};
use super::jvm::{Carried, Ground, Talk};
use crate::webhook::WebhookReceiver;

const MOVES: usize = 300;
const PAUSE_MS: &str = "30";

/// p50, p99 and the greatest, beside the bare round trip of the same client and one fsync of the same disk.
///
/// # Errors
/// Where an alert does not come.
pub fn measure(ground: &Ground, options: &[(&str, &str)], webhook: &WebhookReceiver) -> Result<Table> {
    let mut rows = Vec::new();
    for jdk in &ground.jdks {
        let before = webhook.received().len();
        // Instant and System.nanoTime are both CLOCK_MONOTONIC on Linux.
        let (instant, nanos) = (Instant::now(), monotonic_ns());
        let mut java = ground.java(jdk, Carried::Leaderwatch, options, &[])?;
        java.args(["moves", &MOVES.to_string(), PAUSE_MS]);
        let mut talk = Talk::start(java)?;
        let told = talk.until("ready")?;
        let all = crate::wait::until("all alerts", Duration::from_secs(60), || {
            let received = webhook.received().split_off(before);
            Ok((received.len() >= MOVES).then_some(received))
        })?;
        talk.end()?;
        let read_at: BTreeMap<String, f64> = all
            .iter()
            .filter_map(|received| {
                let id = received.json()["new_leader"]["id"].as_str()?.to_owned();
                Some((id, nanos + received.at.duration_since(instant).as_nanos() as f64))
            })
            .collect();
        let mut took_ms = Vec::new();
        for line in told.iter().filter_map(|line| line.strip_prefix("moved ")) {
            let (id, entered) = line.split_once(' ').context("no time")?;
            let read = read_at.get(id).with_context(|| format!("no alert tells of {id}"))?;
            took_ms.push((read - entered.parse::<f64>()?) / 1e6);
        }
        ensure!(took_ms.len() == MOVES, "{} moves were told of", took_ms.len());
        rows.push(Row { what: format!("JDK {}, move to request read", jdk.release), figures: percentiles(took_ms) });
    }
    rows.push(Row {
        what: "bare round trip of the same client".to_owned(),
        figures: percentiles(round_trips(webhook)?),
    });
    rows.push(Row { what: "one fsync of the same disk".to_owned(), figures: percentiles(fsyncs(ground)?) });
    Ok(Table {
        title: "From a move to the receiver".to_owned(),
        note: format!(
            "{MOVES} moves, one each {PAUSE_MS} ms, `group_wait=0s`, over loopback. The alert is on disk before it is sent."
        ),
        unit: "ms",
        columns: ["p50", "p99", "greatest"].map(str::to_owned).to_vec(),
        rows,
    })
}

fn percentiles(mut values: Vec<f64>) -> Vec<Option<Figure>> {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len() - 1) as f64 * share) as usize).map(|it| Figure::of(vec![*it]));
    vec![at(0.5), at(0.99), at(1.0)]
}

fn round_trips(webhook: &WebhookReceiver) -> Result<Vec<f64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The client needs a provider though nothing here is encrypted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let body = webhook.received().last().context("nothing was received")?.body.clone();
    let mut took_ms = Vec::new();
    for _ in 0..MOVES {
        std::thread::sleep(Duration::from_millis(10));
        let begin = Instant::now();
        let request = client.post(webhook.url()).body(body.clone()).send();
        let status = runtime.block_on(async { anyhow::Ok(request.await?.status()) })?;
        took_ms.push(begin.elapsed().as_secs_f64() * 1000.0);
        ensure!(status.is_success(), "the receiver answered {status}");
    }
    Ok(took_ms)
}

fn fsyncs(ground: &Ground) -> Result<Vec<f64>> {
    let mut file = File::create(ground.path("fsync"))?;
    let mut took_ms = Vec::new();
    for _ in 0..MOVES {
        file.write_all(&[0; 1200])?;
        let begin = Instant::now();
        file.sync_data()?;
        took_ms.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(took_ms)
}

fn monotonic_ns() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

//! The lock-free board beside a map behind a mutex.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use leaderwatch_agent::clock::{Clock, Moment, SystemClock};
use leaderwatch_agent::leadership::{Announcement, Board, JobId, Leader, Observation, Seat, SeatKey, SessionId};
use parking_lot::Mutex;

use super::figures::{Figure, Row, Table};
use super::jvm::Footprint;

const OBSERVATIONS: u128 = 200_000;
/// Seats of each thread.
const SEATS: u128 = 64;
/// For the bytes that each takes.
const MANY_SEATS: u32 = 100_000;

/// Observations a second, in millions, by 1, 2 and 8 threads; then the bytes of a seat at rest.
///
/// # Errors
/// Where the memory of this process cannot be read.
pub fn measure(rounds: usize) -> Result<Vec<Table>> {
    let mut rows = Vec::new();
    for threads in [1, 2, 8] {
        let (mut lock_free, mut guarded) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            lock_free.push(board_rate(threads));
            guarded.push(mutex_rate(threads));
        }
        let figures = vec![Some(Figure::of(lock_free)), Some(Figure::of(guarded))];
        rows.push(Row { what: format!("{threads} threads"), figures });
    }
    let throughput = Table {
        title: "The board".to_owned(),
        note: "Each thread lets its own 64 seats move in turn, with one consumer. The mutex-guarded map does the same work \
               for each observation and sends through the same kind of channel, all under its lock."
            .to_owned(),
        unit: "million observations a second",
        columns: vec!["lock-free board".to_owned(), "mutex-guarded map".to_owned()],
        rows,
    };
    let bytes = Table {
        title: "A seat at rest".to_owned(),
        note: "Resident memory that 100,000 seats add to this process, each with a leader, divided by their number."
            .to_owned(),
        unit: "bytes",
        columns: vec!["bytes a seat".to_owned()],
        rows: vec![Row { what: "100,000 seats".to_owned(), figures: vec![Some(Figure::of(vec![bytes_a_seat()?]))] }],
    };
    Ok(vec![throughput, bytes])
}

fn observation(seat: u128, id: u128, at: Moment) -> Observation {
    let leader =
        Leader { id: SessionId(id), address: Some(Arc::from("pekko.tcp://flink@10.0.0.1:6123/user/rpc/jobmanager_2")) };
    Observation { seat: SeatKey::job(JobId(seat)), announcement: Announcement::Leader(Some(leader)), at }
}

fn rate(threads: u128, observe: impl Fn(&Observation) + Sync) -> f64 {
    let at = SystemClock::new().now();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let observe = &observe;
            scope.spawn(move || {
                for number in 0..OBSERVATIONS / threads {
                    observe(&observation(thread * SEATS + number % SEATS, 1 + number / SEATS, at));
                }
            });
        }
    });
    OBSERVATIONS as f64 / begin.elapsed().as_secs_f64() / 1e6
}

fn board_rate(threads: u128) -> f64 {
    let (board, changes) = Board::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if let Ok(seat) = changes.waiting().recv_timeout(Duration::from_millis(10)) {
                    seat.handle(|change| {
                        std::hint::black_box(&change);
                    });
                }
                board.handle_overflow(|change| {
                    std::hint::black_box(&change);
                });
            }
        });
        let rate = rate(threads, |observation| board.observe(observation));
        done.store(true, Ordering::Relaxed);
        rate
    })
}

fn mutex_rate(threads: u128) -> f64 {
    let (sender, receiver) = crossbeam_channel::bounded::<Arc<Seat>>(1024);
    let seats: Mutex<HashMap<SeatKey, Arc<Seat>>> = Mutex::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if let Ok(seat) = receiver.recv_timeout(Duration::from_millis(10)) {
                    let _seats = seats.lock();
                    seat.handle(|change| {
                        std::hint::black_box(&change);
                    });
                }
            }
        });
        let rate = rate(threads, |observation| {
            let mut seats = seats.lock();
            let seat = seats.entry(observation.seat).or_insert_with(|| Arc::new(Seat::new(observation.seat)));
            if seat.record(&observation.announcement, observation.at) {
                let _ = sender.try_send(Arc::clone(seat));
            }
        });
        done.store(true, Ordering::Relaxed);
        rate
    })
}

fn bytes_a_seat() -> Result<f64> {
    let at = SystemClock::new().now();
    let pid = std::process::id();
    let before = Footprint::of(pid)?.resident_mb;
    let (board, changes) = Board::new();
    for seat in 0..MANY_SEATS {
        board.observe(&observation(u128::from(seat), 1, at));
        while let Ok(seat) = changes.waiting().try_recv() {
            seat.handle(drop);
        }
    }
    let added = (Footprint::of(pid)?.resident_mb - before) * 1024.0 * 1024.0;
    drop(board);
    Ok(added / f64::from(MANY_SEATS))
}

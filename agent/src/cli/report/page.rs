//! The report as one HTML page: nothing is fetched, and it can be read without scripts but for the list of records.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write;
use std::ops::Range;

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use leaderwatch_agent::journal::reader::{Entry, Head, Stamp};
use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use serde::Serialize;

use super::model::{ClusterReport, Leaderless, Report, SeatReport, Span};
use crate::cli::people::{duration, host_port, short};
use crate::cli::when;
use crate::cli::words::{Mood, words};

/// A timeline has so many columns; what falls into the same column is drawn once, so that a page opens as fast with
/// 100,000 records as with ten.
const COLUMNS: i64 = 1000;
const BAR_HEIGHT: i64 = 24;
const MARK_HEIGHT: i64 = 9;

/// From so many days on they are drawn as weeks.
const MAX_DAYS: usize = 93;
/// From so many days on they are drawn as longer times.
const MAX_WEEKS_IN_DAYS: usize = 3700;
/// More changes of the zone than this are left out: those of two thousand years.
const MAX_OFFSETS: usize = 4096;

/// The latest records, as the page lists them.
pub struct Events {
    max: usize,
    kept: VecDeque<Row>,
    left_out: u64,
    names: Names,
}

/// A record: milliseconds since the epoch, and the numbers of cluster, process, event and seat among the names.
#[derive(Serialize)]
struct Row(i64, usize, usize, usize, usize, u8, String);

/// Texts that occur again and again, by number.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, usize>,
    texts: Vec<String>,
}

impl Names {
    fn number(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.numbers.insert(text.to_owned(), self.texts.len());
        self.texts.push(text.to_owned());
        self.texts.len() - 1
    }
}

impl Events {
    /// Keeps the last `max`.
    pub fn new(max: usize) -> Self {
        Self { max, kept: VecDeque::new(), left_out: 0, names: Names::default() }
    }

    /// Takes in a record.
    pub fn add(&mut self, stamp: Stamp, head: &Head<'_>, entry: &Entry) {
        let Some(at) = stamp.timestamp().filter(|_| self.max > 0) else { return };
        if self.kept.len() == self.max {
            self.kept.pop_front();
            self.left_out += 1;
        }
        let told = words(entry);
        let mood = match told.mood {
            Mood::Plain => 0,
            Mood::Good => 1,
            Mood::Notable => 2,
            Mood::Bad => 3,
        };
        let names = &mut self.names;
        let cluster = names.number(&head.cluster);
        let process = names.number(&format!("{}:{}", &*head.host, head.pid));
        let event = names.number(&head.event);
        let seat = names.number(&told.seat);
        self.kept.push_back(Row(at.as_millisecond(), cluster, process, event, seat, mood, told.text));
    }
}

/// Writes the page.
///
/// # Errors
/// None that data can bring about.
pub fn render(report: &Report, events: &Events, zone: &TimeZone, now: Timestamp) -> Result<String, String> {
    let mut environment = Environment::new();
    // The name's ending makes every value escaped.
    environment
        .add_template("report.html", include_str!("report.html"))
        .map_err(|error| format!("report.html: {error}"))?;
    environment.add_filter("duration", |milliseconds: u64| duration(milliseconds));
    environment.add_filter("short", |id: &str| short(id).to_owned());
    let for_zone = zone.clone();
    environment.add_filter("shown", move |at: &str| shown(at, &for_zone));

    let chart = Chart { from: report.from, to: report.to.max(report.from), zone };
    let mut number = 0;
    let clusters: Vec<ClusterView<'_>> =
        report.clusters.iter().map(|cluster| chart.cluster(cluster, &mut number)).collect();
    let spans: Vec<Vec<SpanView>> =
        report.clusters.iter().flat_map(|cluster| &cluster.seats).map(|seat| chart.spans(seat)).collect();
    let data = Data { names: &events.names.texts, rows: &events.kept, spans, offsets: offsets(report, zone) };
    let page = context! {
        time_zone => report.time_zone.as_str(),
        records => report.records,
        seen_alike => report.seen_alike,
        skipped_lines => report.skipped_lines,
        targets => Value::from(Serde(&report.targets)),
        open => Value::from(Serde(&report.unresolved)),
        clusters => Value::from(Serde(&clusters)),
        ticks => chart.ticks(),
        bars => Value::from(Serde(chart.bars(report))),
        made_at => when::shown(now, zone),
        from => when::shown(report.from, zone),
        to => when::shown(report.to, zone),
        listed => events.kept.len(),
        left_out => events.left_out,
        style => include_str!("report.css"),
        script => include_str!("report.js"),
        data => script_safe(&serde_json::to_string(&data).map_err(|error| error.to_string())?),
    };
    let template = environment.get_template("report.html").map_err(|error| error.to_string())?;
    template.render(page).map_err(|error| format!("report.html: {error}"))
}

/// JSON that cannot end the element that it stands in.
fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn shown(at: &str, zone: &TimeZone) -> String {
    at.parse().map_or_else(|_| at.to_owned(), |at| when::shown(at, zone))
}

/// What the script needs.
#[derive(Serialize)]
struct Data<'a> {
    names: &'a [String],
    rows: &'a VecDeque<Row>,
    spans: Vec<Vec<SpanView>>,
    offsets: Vec<(i64, i64)>,
}

/// From when on (milliseconds since the epoch) the zone is how far from UTC (milliseconds), so that the script needs no
/// zone database.
fn offsets(report: &Report, zone: &TimeZone) -> Vec<(i64, i64)> {
    let offset_ms = |at: Timestamp| i64::from(zone.to_offset(at).seconds()) * 1000;
    let mut all = vec![(i64::MIN / 1_000_000, offset_ms(report.from))];
    let changes = zone.following(report.from).take_while(|change| change.timestamp() <= report.to).take(MAX_OFFSETS);
    all.extend(changes.map(|change| (change.timestamp().as_millisecond(), offset_ms(change.timestamp()))));
    all
}

/// A time under one leader: from, to, leader, address; both empty where nobody led.
#[derive(Serialize)]
struct SpanView(i64, i64, String, String);

#[derive(Serialize)]
struct ClusterView<'a> {
    name: &'a str,
    failovers: u64,
    leaderless: &'a Leaderless,
    seats: Vec<SeatView<'a>>,
}

#[derive(Serialize)]
struct SeatView<'a> {
    number: usize,
    component: &'static str,
    job_id: Option<String>,
    job_name: Option<&'a str>,
    leader: Option<String>,
    address: Option<String>,
    summary: String,
    /// Paths of a drawing [`COLUMNS`] wide: two colours of leaders in turn, moves, times without leader.
    odd: String,
    even: String,
    moves: String,
    gaps: String,
}

#[derive(Serialize)]
struct Bar {
    label: String,
    count: u64,
    height: u64,
    marked: bool,
}

/// The period that is drawn.
struct Chart<'a> {
    from: Timestamp,
    to: Timestamp,
    zone: &'a TimeZone,
}

impl Chart<'_> {
    fn cluster<'a>(&self, cluster: &'a ClusterReport, number: &mut usize) -> ClusterView<'a> {
        let seats = cluster.seats.iter().map(|seat| {
            *number += 1;
            self.seat(seat, *number - 1)
        });
        ClusterView {
            name: &cluster.cluster,
            failovers: cluster.failovers,
            leaderless: &cluster.leaderless,
            seats: seats.collect(),
        }
    }

    fn seat<'a>(&self, seat: &'a SeatReport, number: usize) -> SeatView<'a> {
        let last = seat.spans.last();
        let leader = last.and_then(|span| span.leader_id).map(|id| id.to_string());
        let mut parts = vec![crate::cli::people::count(seat.moves, "move")];
        parts.push(crate::cli::people::count(seat.gaps, "gap"));
        parts.extend(seat.longest_gap_ms.map(|longest| format!("longest {}", duration(longest))));
        if leader.is_none() {
            parts.push("no leader at the end".to_owned());
        }
        let drawn = self.draw(&seat.spans);
        SeatView {
            number,
            component: seat.component.name(),
            job_id: seat.job_id.map(|id| id.to_string()),
            job_name: seat.job_name.as_deref(),
            leader,
            address: last.and_then(|span| span.address.as_deref()).map(|address| host_port(address).to_owned()),
            summary: parts.join(", "),
            odd: drawn.odd,
            even: drawn.even,
            moves: drawn.moves,
            gaps: drawn.gaps,
        }
    }

    fn column(&self, at: Timestamp) -> i64 {
        let whole = (self.to.as_millisecond() - self.from.as_millisecond()).max(1);
        let part = at.as_millisecond() - self.from.as_millisecond();
        // What began before the period is drawn from its begin.
        let column = i128::from(part) * i128::from(COLUMNS) / i128::from(whole);
        column.clamp(0, i128::from(COLUMNS)).try_into().unwrap_or(COLUMNS)
    }

    fn draw(&self, spans: &[Span]) -> Drawn {
        let mut drawn = Drawn::default();
        let (mut last_move, mut last_gap, mut drawn_to) = (-1, -1, 0);
        let mut leaders = 0_u64;
        for (index, span) in spans.iter().enumerate() {
            let from = self.column(span.from);
            let to = spans.get(index + 1).map_or(COLUMNS, |next| self.column(next.from));
            if span.leader_id.is_none() {
                if from > last_gap {
                    drawn.gap(from, to);
                    last_gap = from.max(to - 1);
                }
                continue;
            }
            leaders += 1;
            if leaders > 1 && from > last_move {
                drawn.moved(from);
                last_move = from;
            }
            if to > drawn_to {
                drawn.led(leaders.is_multiple_of(2), from.max(drawn_to), to);
                drawn_to = to;
            }
        }
        drawn
    }

    fn spans(&self, seat: &SeatReport) -> Vec<SpanView> {
        let to = |index: usize| seat.spans.get(index + 1).map_or(self.to, |next| next.from).as_millisecond();
        seat.spans
            .iter()
            .enumerate()
            .map(|(index, span)| {
                let leader = span.leader_id.map(|id| id.to_string()).unwrap_or_default();
                let address = span.address.clone().unwrap_or_default();
                SpanView(span.from.as_millisecond(), to(index), leader, address)
            })
            .collect()
    }

    /// Five times along the axis.
    fn ticks(&self) -> Vec<String> {
        let whole = self.to.as_millisecond() - self.from.as_millisecond();
        let form = match whole {
            0..=172_800_000 => "%m-%d %H:%M",
            _ => "%Y-%m-%d",
        };
        let at = |part: i64| Timestamp::from_millisecond(self.from.as_millisecond() + whole * part / 4).ok();
        (0..=4).filter_map(at).map(|at| self.zone.to_datetime(at).strftime(form).to_string()).collect()
    }

    /// Failovers of all clusters by day, or by week where days would be too many to tell apart.
    fn bars(&self, report: &Report) -> Vec<Bar> {
        let mut per_day: BTreeMap<civil::Date, u64> = BTreeMap::new();
        for (day, count) in report.clusters.iter().flat_map(|cluster| &cluster.failovers_per_day) {
            if let Ok(day) = day.parse() {
                *per_day.entry(day).or_default() += count;
            }
        }
        let (first, last) = (self.zone.to_datetime(self.from).date(), self.zone.to_datetime(self.to).date());
        let days: Vec<civil::Date> = first.series(jiff::Span::new().days(1)).take_while(|day| *day <= last).collect();
        let step = match days.len() {
            0..MAX_DAYS => 1,
            MAX_DAYS..MAX_WEEKS_IN_DAYS => 7,
            // A host whose clock was years off, perhaps.
            many => many.div_ceil(MAX_DAYS),
        };
        let counts = days.chunks(step).map(|days| {
            let count: u64 = days.iter().filter_map(|day| per_day.get(day)).sum();
            let label = match step {
                1 => days[0].to_string(),
                7 => format!("week of {}", days[0]),
                _ => format!("{step} days from {}", days[0]),
            };
            (label, count)
        });
        let counts: Vec<(String, u64)> = counts.collect();
        let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
        let every = counts.len().div_ceil(6).max(1);
        counts
            .into_iter()
            .enumerate()
            .map(|(index, (label, count))| Bar { label, count, height: count * 100 / most, marked: index % every == 0 })
            .collect()
    }
}

#[derive(Default)]
struct Drawn {
    odd: String,
    even: String,
    moves: String,
    gaps: String,
}

impl Drawn {
    fn led(&mut self, even: bool, from: i64, to: i64) {
        let path = if even { &mut self.even } else { &mut self.odd };
        block(path, from, to, 0..BAR_HEIGHT);
    }

    /// A time without leader as high as the bar; one that is narrower than a column as a mark in its lower part.
    fn gap(&mut self, from: i64, to: i64) {
        if to > from {
            block(&mut self.gaps, from, to, 0..BAR_HEIGHT);
        } else {
            block(&mut self.gaps, from, from + 2, BAR_HEIGHT - MARK_HEIGHT..BAR_HEIGHT);
        }
    }

    /// A mark in the upper part of the bar.
    fn moved(&mut self, at: i64) {
        block(&mut self.moves, at, at + 2, 0..MARK_HEIGHT);
    }
}

fn block(path: &mut String, from: i64, to: i64, rows: Range<i64>) {
    let (top, width, height) = (rows.start, to - from, rows.end - rows.start);
    // Writing to a text cannot fail.
    let _ = write!(path, "M{from},{top}h{width}v{height}h-{width}z");
}

//! What the demo shows: aligned, with colour only on a terminal and only where `NO_COLOR` is not set.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use serde_json::Value;

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A heading.
    Title,
    /// As it should be.
    Good,
    /// A loss.
    Bad,
    /// By the way.
    Faint,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Tone::Title => "1",
            Tone::Good => "1;32",
            Tone::Bad => "1;31",
            Tone::Faint => "2",
        }
    }
}

/// Standard output.
pub struct Screen {
    begin: Instant,
    colored: bool,
}

impl Default for Screen {
    fn default() -> Self {
        Self::new()
    }
}

impl Screen {
    /// Times count from here.
    pub fn new() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { begin: Instant::now(), colored: wanted && std::io::stdout().is_terminal() }
    }

    /// What is being done now, and how long it may take.
    pub fn step(&self, what: &str, how_long: &str) {
        let clock = self.paint(Tone::Faint, &format!("{:6.1} s", self.begin.elapsed().as_secs_f64()));
        self.print(&format!("{clock}  {what} {}", self.paint(Tone::Faint, &format!("({how_long})"))));
    }

    /// A detail of the step.
    pub fn fact(&self, name: &str, value: &str) {
        self.print(&format!("{:10}{}  {value}", "", self.paint(Tone::Faint, &format!("{name:<8}"))));
    }

    /// An event.
    pub fn line(&self, tone: Tone, what: &str, detail: &str) {
        let clock = self.paint(Tone::Faint, &format!("{:6.1} s", self.begin.elapsed().as_secs_f64()));
        self.print(&format!("{clock}  {}  {detail}", self.paint(tone, &format!("{what:<18}"))));
    }

    /// Text as it is, indented.
    pub fn plain(&self, text: &str) {
        for line in text.lines() {
            self.print(format!("{:10}{line}", "").trim_end());
        }
    }

    /// A record of the alert log: time, event and what tells the most.
    pub fn record(&self, record: &Value) {
        let event = record["event"].as_str().unwrap_or("?");
        let time = record["ts"].as_str().and_then(|ts| ts.get(11..23)).unwrap_or("?");
        let mut details = Vec::new();
        for key in [
            "component",
            "leader_id",
            "old_leader_id",
            "leaderless_ms",
            "target",
            "attempts",
            "latency_ms",
            "what",
            "reason",
        ] {
            match &record[key] {
                Value::Null => {}
                Value::String(value) => details.push(format!("{key}={value}")),
                value => details.push(format!("{key}={value}")),
            }
        }
        if let Some(id) = record["alert"]["id"].as_str() {
            details.push(format!("id={id}"));
        }
        let tone = match event {
            "leader.lost" | "alert.failed" | "agent.problem" => Tone::Bad,
            "leader.moved" | "alert.delivered" => Tone::Good,
            _ => Tone::Title,
        };
        self.print(&format!("{:10}{time}  {}  {}", "", self.paint(tone, &format!("{event:<16}")), details.join("  ")));
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        if self.colored { format!("\x1b[{}m{text}\x1b[0m", tone.code()) } else { text.to_owned() }
    }

    fn print(&self, line: &str) {
        let mut out = std::io::stdout().lock();
        // A closed standard output is no reason to leave the cluster running.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

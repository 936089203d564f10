//! Writes the figures down: `docs/performance.md` with plots, and the same as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::figures::{Figure, Table};

/// One goal: what, how much, what was measured, what a peer needs, and whether it is met.
#[derive(Debug, Clone)]
pub struct Goal {
    /// What is measured.
    pub what: String,
    /// The goal in words.
    pub goal: String,
    /// What was measured, in words.
    pub measured: String,
    /// The same of what a user would pick instead; empty where there is none.
    pub peer: String,
    /// Whether it is met.
    pub met: bool,
}

/// Writes `performance.md`, `performance.json` and one plot a table into `docs`.
///
/// # Errors
/// Where a file cannot be written.
pub fn write(docs: &Path, machine: &str, goals: &[Goal], tables: &[Table]) -> Result<()> {
    let plots = docs.join("performance");
    fs::create_dir_all(&plots).with_context(|| format!("{}", plots.display()))?;
    let mut text = format!(
        "# Performance\n\nWritten by `scripts/bench`; anyone can run it again. {machine}\n\nEach figure is the median of the \
         rounds, with the least and the greatest behind it. All columns of a table were measured in one run, in turn.\n\n"
    );
    text.push_str("## Goals\n\n| what | goal | measured | peer | met |\n|---|---|---|---|---|\n");
    for goal in goals {
        let met = if goal.met { "yes" } else { "**no**" };
        let _ = writeln!(text, "| {} | {} | {} | {} | {met} |", goal.what, goal.goal, goal.measured, goal.peer);
    }
    for table in tables {
        let name = format!("{}.svg", file_name(&table.title));
        let _ = write!(text, "\n## {}\n\n{}\n\n", table.title, table.note);
        if table.columns.len() > 1 && !table.unit.is_empty() {
            fs::write(plots.join(&name), plot(table))?;
            let _ = write!(text, "![{}](performance/{name})\n\n", table.title);
        }
        text.push_str(&markdown(table));
    }
    fs::write(docs.join("performance.md"), text)?;
    let goals: Vec<_> = goals
        .iter()
        .map(|goal| json!({"what": goal.what, "goal": goal.goal, "measured": goal.measured, "peer": goal.peer, "met": goal.met}))
        .collect();
    let all = json!({"machine": machine, "goals": goals, "tables": tables.iter().map(Table::json).collect::<Vec<_>>()});
    fs::write(docs.join("performance.json"), serde_json::to_string_pretty(&all)? + "\n")?;
    Ok(())
}

/// A figure as people read it: three digits that count.
pub fn number(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i64).clamp(0, 3) };
    format!("{value:.*}", usize::try_from(digits).unwrap_or(0))
}

fn cell(figure: Option<&Figure>) -> String {
    match figure {
        None => String::new(),
        Some(figure) if figure.least == figure.greatest => number(figure.median),
        Some(figure) => format!("{} ({}–{})", number(figure.median), number(figure.least), number(figure.greatest)),
    }
}

fn markdown(table: &Table) -> String {
    let unit = if table.unit.is_empty() { String::new() } else { format!("{} in ", table.unit) };
    let mut text = format!("| {unit}| {} |\n|---|{}\n", table.columns.join(" | "), "---|".repeat(table.columns.len()));
    for row in &table.rows {
        let cells: Vec<String> = row.figures.iter().map(|figure| cell(figure.as_ref())).collect();
        let _ = writeln!(text, "| {} | {} |", row.what, cells.join(" | "));
    }
    text.replace(" in |", " |")
}

fn file_name(title: &str) -> String {
    title
        .to_lowercase()
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

const COLORS: [&str; 4] = ["#8a8f98", "#1f6feb", "#d29922", "#a371f7"];
const BAR: usize = 14;
const LABELS: usize = 330;
const BARS: usize = 420;

/// Bars, row by row, each row on a scale of its own.
fn plot(table: &Table) -> String {
    let mut bars = String::new();
    let mut y = 34;
    for row in &table.rows {
        let longest = row.figures.iter().flatten().map(|figure| figure.median).fold(f64::MIN_POSITIVE, f64::max);
        let _ = writeln!(bars, "<text x=\"0\" y=\"{}\">{}</text>", y + BAR, escaped(&row.what));
        for (index, figure) in row.figures.iter().enumerate() {
            let Some(figure) = figure else { continue };
            let width = (figure.median.max(0.0) / longest * BARS as f64).max(1.0);
            let _ = writeln!(
                bars,
                "<rect x=\"{LABELS}\" y=\"{y}\" width=\"{width:.0}\" height=\"{}\" fill=\"{}\"/>\
                 <text x=\"{:.0}\" y=\"{}\">{}</text>",
                BAR - 2,
                COLORS[index % COLORS.len()],
                LABELS as f64 + width + 6.0,
                y + BAR - 3,
                number(figure.median)
            );
            y += BAR;
        }
        y += 10;
    }
    let mut legend = String::new();
    for (index, column) in table.columns.iter().enumerate() {
        let x = index * 190;
        let _ = writeln!(
            legend,
            "<rect x=\"{x}\" y=\"8\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"18\">{}</text>",
            COLORS[index % COLORS.len()],
            x + 18,
            escaped(column)
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {y}\" font-family=\"sans-serif\" font-size=\"12\" \
         fill=\"#57606a\" role=\"img\" aria-label=\"{}, {}\">\n{legend}{bars}</svg>\n",
        LABELS + BARS + 80,
        escaped(&table.title),
        escaped(table.unit)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        assert_eq!(
            [0.0, 0.1234, 1.234, 12.34, 123.4, 12345.6].map(number),
            ["0", "0.123", "1.23", "12.3", "123", "12346"].map(str::to_owned)
        );
    }

    #[test]
    fn a_title_makes_a_file_name() {
        assert_eq!(file_name("The hook, one call a millisecond"), "the-hook-one-call-a-millisecond");
    }
}

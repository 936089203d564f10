//! What was measured: medians and spread, by table, row and column.

use serde_json::{Value, json};

/// A median with its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The median of all rounds.
    pub median: f64,
    /// The least of all rounds.
    pub least: f64,
    /// The greatest of all rounds.
    pub greatest: f64,
}

impl Figure {
    /// Of these rounds, of which there must be one at least.
    pub fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let (least, greatest) = (rounds.first(), rounds.last());
        let middle = rounds.get(rounds.len() / 2);
        let read = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
        Self { median: read(middle), least: read(least), greatest: read(greatest) }
    }

    /// The same in another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self { median: self.median * factor, least: self.least * factor, greatest: self.greatest * factor }
    }
}

/// One row of a table: what was measured, and a figure for each column.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// A figure for each column of the table; None where there is none.
    pub figures: Vec<Option<Figure>>,
}

/// A table of figures of one unit.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// What the figures mean, for people.
    pub note: String,
    /// Of all figures, such as `µs`.
    pub unit: &'static str,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// The figure of a row and a column.
    pub fn figure(&self, what: &str, column: &str) -> Option<Figure> {
        let column = self.columns.iter().position(|name| name == column)?;
        self.rows.iter().find(|row| row.what == what)?.figures.get(column).copied().flatten()
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let figures: serde_json::Map<String, Value> = self
                    .columns
                    .iter()
                    .zip(&row.figures)
                    .filter_map(|(column, figure)| Some((column.clone(), figure.as_ref().map(spread)?)))
                    .collect();
                json!({"what": row.what, "figures": figures})
            })
            .collect();
        json!({"title": self.title, "unit": self.unit, "rows": rows})
    }
}

fn spread(figure: &Figure) -> Value {
    json!({"median": figure.median, "least": figure.least, "greatest": figure.greatest})
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_by_its_names() {
        let figure = Figure::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((figure.median, figure.least, figure.greatest), (2.0, 1.0, 3.0));
        let table = Table {
            title: "Hook".into(),
            note: String::new(),
            unit: "µs",
            columns: vec!["none".into(), "Leaderwatch".into()],
            rows: vec![Row { what: "paced".into(), figures: vec![None, Some(figure)] }],
        };
        assert_eq!(table.figure("paced", "Leaderwatch").unwrap().median, 2.0);
        assert_eq!(table.figure("paced", "none"), None);
        assert_eq!(table.json()["rows"][0]["figures"]["Leaderwatch"]["greatest"], 3.0);
    }
}

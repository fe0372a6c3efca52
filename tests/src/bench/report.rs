//! What the benchmarks say: figures, budgets and verdicts, as a table or as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

/// Which side of the limit a figure has to be on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

/// A budget: a ratio to a peer or a bound in itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Budget {
    /// What it says, for people.
    pub text: String,
    /// What is held against the limit: the figure, divided by the peer's where there is one.
    pub ratio: f64,
    /// The limit.
    pub limit: Limit,
}

impl Budget {
    fn met(&self) -> bool {
        match self.limit {
            Limit::AtMost(most) => self.ratio <= most,
            Limit::AtLeast(least) => self.ratio >= least,
        }
    }
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What else there is to say: percentiles, number of samples.
    pub note: String,
    /// The budgets that it is held against; none for a peer's figure.
    pub budgets: Vec<Budget>,
}

impl Row {
    /// A figure without a budget.
    pub fn new(what: &str, value: f64, unit: &'static str, note: impl Into<String>) -> Self {
        Self { what: what.to_owned(), value, unit, note: note.into(), budgets: Vec::new() }
    }

    /// Holds the figure, divided by `peer`, against a limit.
    pub fn budget(self, text: &str, peer: f64, limit: Limit) -> Self {
        let ratio = if peer > 0.0 { self.value / peer } else { f64::NAN };
        self.ratio(text, ratio, limit)
    }

    /// Holds a ratio that was worked out from pairs of samples against a limit.
    pub fn ratio(mut self, text: &str, ratio: f64, limit: Limit) -> Self {
        self.budgets.push(Budget { text: text.to_owned(), ratio, limit });
        self
    }

    /// Holds the figure itself against a limit.
    pub fn bound(self, text: &str, limit: Limit) -> Self {
        self.budget(text, 1.0, limit)
    }

    /// Whether a budget of it is missed; a ratio that could not be computed is a miss.
    pub fn missed(&self) -> bool {
        self.budgets.iter().any(|budget| !budget.met())
    }
}

/// The rows as a table.
pub fn text(rows: &[Row], took: Duration) -> String {
    let width = rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
    let mut out = format!("{:<width$}  {:>14}  {:<44} {:>7}  verdict\n", "what", "figure", "budget", "ratio");
    for row in rows {
        let figure = format!("{} {}", number(row.value), row.unit);
        let mut budgets = row.budgets.iter();
        let first = budgets.next().map(judged).unwrap_or_default();
        let line = format!("{:<width$}  {figure:>14}  {first}", row.what);
        let _ = writeln!(out, "{}", line.trim_end());
        for budget in budgets {
            let _ = writeln!(out, "{:<width$}  {:>14}  {}", "", "", judged(budget));
        }
        if !row.note.is_empty() {
            let _ = writeln!(out, "    {}", row.note);
        }
    }
    let missed: usize = rows.iter().flat_map(|row| &row.budgets).filter(|budget| !budget.met()).count();
    let all = rows.iter().flat_map(|row| &row.budgets).count();
    let _ = writeln!(out, "\n{} of {all} budgets met; took {:.0} s.", all - missed, took.as_secs_f64());
    out
}

fn judged(budget: &Budget) -> String {
    let verdict = if budget.met() { "met" } else { "MISSED" };
    format!("{:<44} {:>7}  {verdict}", budget.text, number(budget.ratio))
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e5 => format!("{:.0} k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The rows as JSON, each budget with its verdict.
pub fn json(rows: &[Row]) -> String {
    let rows: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            let mut value = serde_json::json!(row);
            let verdicts = row.budgets.iter().map(|b| if b.met() { "met" } else { "missed" });
            value["verdicts"] = verdicts.collect();
            value
        })
        .collect();
    format!("{:#}", serde_json::Value::from(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row::new("ADD", 8.0, "ms", "50 samples").budget("≤ 2 × bridge", 5.0, Limit::AtMost(2.0)).budget(
            "≤ 1 × bridge",
            5.0,
            Limit::AtMost(1.0),
        )
    }

    #[test]
    fn a_verdict_follows_from_the_ratio() {
        assert!(row().missed());
        let table = text(&[row()], Duration::from_secs(3));
        assert!(table.contains("1 of 2 budgets met") && table.contains("1.60  met"), "{table}");
        assert!(table.contains("1.60  MISSED"), "{table}");
    }

    #[test]
    fn a_peer_without_a_figure_meets_nothing() {
        assert!(Row::new("x", 1.0, "s", "").budget("≤ peer", 0.0, Limit::AtMost(9.0)).missed());
    }

    #[test]
    fn programs_get_the_verdicts() {
        let rows: serde_json::Value = serde_json::from_str(&json(&[row()])).unwrap();
        assert_eq!(rows[0]["verdicts"], serde_json::json!(["met", "missed"]));
        assert_eq!(rows[0]["budgets"][0]["limit"]["at_most"], 2.0);
    }
}

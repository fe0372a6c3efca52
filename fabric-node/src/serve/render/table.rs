//! Columns of text.

use std::fmt;

/// Rows of `N` cells under a heading, each column as wide as its widest cell.
pub(super) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table with a heading and no rows.
    pub(super) fn new(heading: &[&str; N]) -> Self {
        Self { rows: vec![heading.map(str::to_owned)] }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths = [0; N];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in &self.rows {
            let cells: Vec<_> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

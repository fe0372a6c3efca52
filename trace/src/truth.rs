//! The matrix as a truth table for people: a table for each kind of traffic, who opens the
//! conversation at the left, with whom at the top.
//!
//! The columns have numbers, those of the rows. On a terminal that is too narrow a table is
//! cut into several, side by side ones below each other.

use std::io::{self, IsTerminal, Write};
use std::ops::Range;

use fabric_api::verdict::Traffic;

use crate::error::TraceError;
use crate::progress::Progress;
use crate::sink::{Paint, Sink};
use crate::table::{Matrix, count};

/// Narrowest that a table is cut, in columns.
const NARROWEST: usize = 10;

/// Prints the tables.
///
/// # Errors
/// Where nobody answers, or it cannot be written.
pub fn print(matrix: &mut Matrix, paint: Paint, sink: &mut Sink) -> Result<(), TraceError> {
    let all = matrix.parties.len();
    let shape = Shape::new(matrix);
    let tables = all.div_ceil(shape.columns) * matrix.traffic.len();
    let mut progress = Progress::new(count(all * tables));
    writeln!(sink, ". allowed, X denied, - no conversation; the opener at the left, the numbers at the top are those of the rows")
        .map_err(TraceError::Write)?;
    for traffic in matrix.traffic.clone() {
        let mut first = 0;
        loop {
            let columns = first..all.min(first + shape.columns);
            heading(&shape, traffic, &columns, paint, sink).map_err(TraceError::Write)?;
            rows(matrix, &shape, traffic, &columns, paint, sink, &mut progress)?;
            first += shape.columns;
            if first >= all || !sink.is_open() {
                break;
            }
        }
    }
    sink.flush().map_err(TraceError::Write)
}

/// Measures of the tables.
struct Shape {
    /// Width of the names.
    name: usize,
    /// Digits of the numbers.
    digits: usize,
    /// How many columns a table has.
    columns: usize,
}

impl Shape {
    fn new(matrix: &Matrix) -> Shape {
        let all = matrix.parties.len();
        let name = matrix.parties.iter().map(|party| party.name.chars().count()).max().unwrap_or_default();
        let digits = all.to_string().len();
        let width = if io::stdout().is_terminal() { terminal_size::terminal_size() } else { None };
        let columns = match width {
            Some((terminal_size::Width(width), _)) => {
                (usize::from(width).saturating_sub(digits + name + 3) / 2).max(NARROWEST)
            }
            None => all.max(1),
        };
        Shape { name, digits, columns }
    }
}

fn rows(
    matrix: &mut Matrix,
    shape: &Shape,
    traffic: Traffic,
    columns: &Range<usize>,
    paint: Paint,
    sink: &mut Sink,
    progress: &mut Progress,
) -> Result<(), TraceError> {
    let digits = shape.digits;
    for from in 0..matrix.parties.len() {
        let rows = matrix.row(from, columns.clone(), &[traffic])?;
        progress.step();
        let name = matrix.parties.get(from).map(|party| party.name.as_str()).unwrap_or_default();
        let mut line = format!("{:>digits$} {name:<width$} ", from + 1, width = shape.name);
        for letter in rows.iter().flatten() {
            line.push(' ');
            line.push_str(&sign(*letter, paint));
        }
        line.push('\n');
        sink.write_all(line.as_bytes()).map_err(TraceError::Write)?;
        if !sink.is_open() {
            break;
        }
    }
    Ok(())
}

/// The numbers of the columns, a line for each digit.
fn heading(
    shape: &Shape,
    traffic: Traffic,
    columns: &Range<usize>,
    paint: Paint,
    sink: &mut Sink,
) -> io::Result<()> {
    let Shape { name, digits, .. } = *shape;
    writeln!(sink)?;
    for place in 0..digits {
        let title = if place == 0 { traffic.to_string() } else { String::new() };
        let title = paint.strong(&format!("{title:<width$}", width = digits + 1 + name));
        write!(sink, "{title} ")?;
        for column in columns.clone() {
            let number = format!("{:>digits$}", column + 1);
            write!(sink, " {}", number.chars().nth(place).unwrap_or(' '))?;
        }
        writeln!(sink)?;
    }
    Ok(())
}

fn sign(letter: u8, paint: Paint) -> String {
    match letter {
        b'a' => paint.good("."),
        b'd' => paint.bad("X"),
        _ => "-".to_owned(),
    }
}

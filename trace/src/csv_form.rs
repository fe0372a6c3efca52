//! The form of questions and answers in CSV: `from,to,protocol,port,verdict`.

use std::io::Write;

use csv::{StringRecord, Writer, WriterBuilder};
use fabric_api::verdict::{End, Protocol, Traffic};
use policy::Verdict;

/// The columns, in their order.
pub const HEADER: [&str; 5] = ["from", "to", "protocol", "port", "verdict"];

/// A writer of answers, which has written the header.
///
/// # Errors
/// Where it cannot be written.
pub fn writer<W: Write>(out: W) -> csv::Result<Writer<W>> {
    let mut writer = WriterBuilder::new().from_writer(out);
    writer.write_record(HEADER)?;
    Ok(writer)
}

/// Where the columns are in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns([Option<usize>; 5]);

impl Columns {
    /// Reads the header. The columns may stand in any order, and `verdict` may be missing.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(header: &StringRecord) -> Result<Columns, String> {
        let mut columns = Columns([None; 5]);
        for (at, name) in header.iter().enumerate() {
            let known = HEADER.iter().zip(&mut columns.0).find(|(known, _)| name.eq_ignore_ascii_case(known));
            match known {
                None => return Err(format!("column {} is \"{name}\"", at + 1)),
                Some((known, Some(_))) => return Err(format!("the column {known} is there twice")),
                Some((_, column)) => *column = Some(at),
            }
        }
        let missing = HEADER.iter().zip(&columns.0).take(4).find(|(_, column)| column.is_none());
        match missing {
            Some((name, _)) => Err(format!("the column {name} is missing")),
            None => Ok(columns),
        }
    }

    /// from, to, protocol and port of a row, as it spells them.
    pub fn spelled(&self, row: &StringRecord) -> [String; 4] {
        [0, 1, 2, 3].map(|name| self.cell(row, name).1.to_owned())
    }

    fn cell<'r>(&self, row: &'r StringRecord, name: usize) -> (usize, &'r str) {
        let at = self.0.get(name).copied().flatten();
        (at.unwrap_or_default() + 1, at.and_then(|at| row.get(at)).unwrap_or_default())
    }
}

/// A row of a file of questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Who opens the conversation.
    pub from: End,
    /// With whom.
    pub to: End,
    /// What is sent.
    pub traffic: Traffic,
    /// What is expected.
    pub expected: Option<Verdict>,
}

impl Row {
    /// Reads a row.
    ///
    /// # Errors
    /// What is wrong, with the column and what is wanted there.
    pub fn read(columns: &Columns, row: &StringRecord) -> Result<Row, String> {
        let place = |name: usize, error: String| {
            let (column, _) = columns.cell(row, name);
            format!("column {column} ({}): {error}", HEADER.get(name).copied().unwrap_or_default())
        };
        let text = |name| columns.cell(row, name).1;
        let width = columns.0.iter().flatten().count();
        if row.len() > width {
            return Err(format!("{} columns, where the header has {width}", row.len()));
        }
        let end = |name| text(name).parse::<End>().map_err(|error| place(name, error.to_string()));
        let (from, to) = (end(0)?, end(1)?);
        let protocol = text(2).parse::<Protocol>().map_err(|error| place(2, error.to_string()))?;
        let port = port(text(3)).map_err(|error| place(3, error))?;
        let traffic = Traffic::new(protocol, port).map_err(|error| place(3, error.to_string()))?;
        let expected = expected(text(4)).map_err(|error| place(4, error))?;
        Ok(Row { from, to, traffic, expected })
    }
}

fn port(text: &str) -> Result<Option<u16>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let port = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    port.map(Some).ok_or_else(|| format!("\"{text}\" is no port: a number from 1 to 65535 is wanted"))
}

fn expected(text: &str) -> Result<Option<Verdict>, String> {
    match text {
        "" => Ok(None),
        _ if text.eq_ignore_ascii_case("allow") => Ok(Some(Verdict::Allow)),
        _ if text.eq_ignore_ascii_case("deny") => Ok(Some(Verdict::Deny)),
        _ => Err(format!("\"{text}\" is no verdict: allow, deny or nothing is wanted")),
    }
}

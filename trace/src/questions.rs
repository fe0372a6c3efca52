//! A file of questions, line by line: each is CSV by itself, so that a quote which does not
//! end spoils its own line only. Blank lines and those that begin with `#` are no questions.

use std::io::{self, BufRead};

use csv::{ReaderBuilder, StringRecord, Trim};

/// The lines of a file.
pub struct Lines<R> {
    input: R,
    line: u64,
}

/// A line that is a row.
pub struct Line {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Its columns, without the blanks around them; or why it has none.
    pub columns: Result<StringRecord, String>,
}

impl<R: BufRead> Lines<R> {
    /// From the beginning.
    pub fn new(input: R) -> Lines<R> {
        Lines { input, line: 0 }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<io::Result<Line>> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match self.input.read_until(b'\n', &mut bytes) {
                Ok(0) => return None,
                Ok(_) => self.line += 1,
                Err(error) => return Some(Err(error)),
            }
            let text = bytes.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.line == 1).unwrap_or(&bytes);
            let text = text.trim_ascii();
            if !text.is_empty() && !text.starts_with(b"#") {
                return Some(Ok(Line { number: self.line, columns: columns(text) }));
            }
        }
    }
}

fn columns(line: &[u8]) -> Result<StringRecord, String> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .trim(Trim::All)
        .buffer_capacity(line.len().clamp(1, 1 << 13))
        .from_reader(line);
    match reader.records().next() {
        None => Ok(StringRecord::new()),
        Some(Ok(record)) => Ok(record),
        Some(Err(error)) => Err(match error.kind() {
            csv::ErrorKind::Utf8 { err, .. } => format!("column {}: not UTF-8", err.field() + 1),
            _ => error.to_string(),
        }),
    }
}

//! `fabric-trace check`: a file of questions, answered and compared with what it expects.
//!
//! The file is read, answered and printed some rows at a time. A row without an answer is
//! told on standard error and costs no other.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use csv::{ReaderBuilder, StringRecord, Trim, Writer};
use fabric_api::verdict::{Answer, CHECK_MOST, Query, Reply};
use policy::{Family, Verdict};
use serde::Serialize;

use crate::args::{CheckArgs, TableFormat};
use crate::cluster::Cluster;
use crate::csv_form::{self, Columns, Row};
use crate::error::TraceError;
use crate::outcome::Exit;
use crate::sink::{Paint, Sink};

/// Reads, asks, compares and prints.
///
/// # Errors
/// Where the file has no header or cannot be read, or nobody answers.
pub fn run(args: &CheckArgs) -> Result<Exit, TraceError> {
    let (name, input) = open(&args.questions)?;
    let cluster = Cluster::open(&args.source)?;
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .comment(Some(b'#'))
        .from_reader(input);
    let mut rows = reader.records();
    let columns = header(&name, rows.next())?;
    cluster.complain();
    let printer = Printer::new(args.output)?;
    let mut check = Check { name, cluster, family: args.family, printer, tally: Tally::default() };
    let mut some = Vec::new();
    for row in rows {
        match check.question(&columns, row)? {
            Some(asked) => some.push(asked),
            None => check.tally.bad += 1,
        }
        if some.len() >= CHECK_MOST {
            check.answer(std::mem::take(&mut some))?;
        }
    }
    check.answer(some)?;
    check.finish()
}

fn open(questions: &OsStr) -> Result<(String, Box<dyn Read>), TraceError> {
    if questions == "-" {
        return Ok(("standard input".to_owned(), Box::new(io::stdin())));
    }
    let path = PathBuf::from(questions);
    let shown = path.display().to_string();
    match File::open(&path) {
        Ok(file) => Ok((shown, Box::new(file))),
        Err(source) => Err(TraceError::Read { path, source }),
    }
}

fn header(name: &str, first: Option<csv::Result<StringRecord>>) -> Result<Columns, TraceError> {
    let wrong = |line, message| TraceError::Header { file: name.to_owned(), line, message };
    match first {
        None => Err(wrong(1, "there is nothing in it".to_owned())),
        Some(Err(error)) => Err(wrong(line_of(&error), said(&error))),
        Some(Ok(header)) => {
            let line = header.position().map_or(1, csv::Position::line);
            Columns::read(&header).map_err(|message| wrong(line, message))
        }
    }
}

/// A question, and where it stands.
struct Asked {
    line: u64,
    row: Row,
    /// from, to, protocol and port as the file spells them.
    spelled: [String; 4],
}

#[derive(Debug, Default)]
struct Tally {
    asked: u64,
    expected: u64,
    differ: u64,
    bad: u64,
}

struct Check {
    name: String,
    cluster: Cluster,
    family: Option<Family>,
    printer: Printer,
    tally: Tally,
}

impl Check {
    /// Reads a row; None, and a line on standard error, where it is no question.
    fn question(
        &self,
        columns: &Columns,
        row: csv::Result<StringRecord>,
    ) -> Result<Option<Asked>, TraceError> {
        let row = match row {
            Ok(row) => row,
            Err(error) => match error.kind() {
                csv::ErrorKind::Io(source) => {
                    let source = io::Error::new(source.kind(), source.to_string());
                    return Err(TraceError::Read { path: PathBuf::from(&self.name), source });
                }
                _ => {
                    self.complain(line_of(&error), &said(&error));
                    return Ok(None);
                }
            },
        };
        let line = row.position().map_or(0, csv::Position::line);
        match Row::read(columns, &row) {
            Ok(read) => Ok(Some(Asked { line, row: read, spelled: columns.spelled(&row) })),
            Err(message) => {
                self.complain(line, &message);
                Ok(None)
            }
        }
    }

    fn complain(&self, line: u64, message: &str) {
        eprintln!("fabric-trace: {}:{line}: {message}", self.name);
    }

    fn answer(&mut self, asked: Vec<Asked>) -> Result<(), TraceError> {
        let query = |asked: &Asked| Query {
            from: asked.row.from.clone(),
            to: asked.row.to.clone(),
            traffic: asked.row.traffic,
            family: self.family,
        };
        let replies = self.cluster.replies(asked.iter().map(query).collect())?;
        for (asked, reply) in asked.iter().zip(replies) {
            match reply {
                Reply::Answer(answer) => self.compare(asked, &answer)?,
                Reply::Error(error) => {
                    self.complain(asked.line, &error.error);
                    self.tally.bad += 1;
                }
            }
        }
        Ok(())
    }

    fn compare(&mut self, asked: &Asked, answer: &Answer) -> Result<(), TraceError> {
        let Asked { line, row, .. } = asked;
        self.tally.asked += 1;
        self.tally.expected += u64::from(row.expected.is_some());
        if let Some(other) = answer.over_ipv6 {
            let (verdict, ends) = (answer.verdict, format!("{} to {}, {}", row.from, row.to, row.traffic));
            self.complain(
                *line,
                &format!("{ends}: {verdict} over IPv4, {other} over IPv6; ask by address, or with --family"),
            );
        }
        if let Some(expected) = row.expected.filter(|expected| *expected != answer.verdict) {
            self.tally.differ += 1;
            self.printer.differs(&self.name, asked, answer, expected).map_err(TraceError::Write)?;
        }
        self.printer.answer(&self.name, asked, answer).map_err(TraceError::Write)
    }

    fn finish(mut self) -> Result<Exit, TraceError> {
        self.printer.finish(&self.name, &self.tally).map_err(TraceError::Write)?;
        Ok(match self.tally {
            Tally { bad: 1.., .. } => Exit::NoAnswer,
            Tally { differ: 1.., .. } => Exit::Bad,
            _ => Exit::Good,
        })
    }
}

/// An answer in JSON.
#[derive(Serialize)]
struct Printed<'a> {
    line: u64,
    from: &'a str,
    to: &'a str,
    protocol: fabric_api::verdict::Protocol,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    egress: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ingress: Option<&'a str>,
}

/// How answers are printed.
enum Printer {
    Text { sink: Sink, paint: Paint },
    Csv(Box<Writer<Sink>>),
    Json { sink: Sink, first: bool },
}

impl Printer {
    fn new(format: TableFormat) -> Result<Printer, TraceError> {
        let mut sink = Sink::stdout();
        Ok(match format {
            TableFormat::Text => Printer::Text { sink, paint: Paint::stdout() },
            TableFormat::Csv => {
                let writer = csv_form::writer(sink).map_err(|error| TraceError::Write(error.into()))?;
                Printer::Csv(Box::new(writer))
            }
            TableFormat::Json => {
                sink.write_all(b"{\"answers\":[").map_err(TraceError::Write)?;
                Printer::Json { sink, first: true }
            }
        })
    }

    /// Tells of an answer that is not as expected: to people who read text on standard output, else beside it.
    fn differs(&mut self, file: &str, asked: &Asked, answer: &Answer, expected: Verdict) -> io::Result<()> {
        let Asked { line, row: Row { from, to, traffic, .. }, .. } = asked;
        let paint = if let Printer::Text { paint, .. } = self { Some(*paint) } else { None };
        let verdict = answer.verdict.to_string();
        let verdict = paint.map_or(verdict.clone(), |paint| paint.bad(&verdict));
        let mut text =
            format!("{file}:{line}: {from} to {to}, {traffic}: {verdict}, where {expected} is expected\n");
        for (direction, why) in [("egress", &answer.egress), ("ingress", &answer.ingress)] {
            if let Some(why) = why {
                text += &format!("  {direction}: {why}\n");
            }
        }
        match self {
            Printer::Text { sink, .. } => sink.write_all(text.as_bytes()),
            _ => io::stderr().write_all(text.as_bytes()),
        }
    }

    /// Prints an answer where all are printed; as text, where nothing was expected.
    fn answer(&mut self, file: &str, asked: &Asked, answer: &Answer) -> io::Result<()> {
        let Asked { line, row: Row { from, to, traffic, expected }, spelled } = asked;
        match self {
            Printer::Text { sink, .. } if expected.is_none() => {
                writeln!(sink, "{file}:{line}: {from} to {to}, {traffic}: {}", answer.verdict)
            }
            Printer::Text { .. } => Ok(()),
            Printer::Csv(writer) => {
                let verdict = answer.verdict.to_string();
                let cells = spelled.iter().map(String::as_str).chain([verdict.as_str()]);
                writer.write_record(cells).map_err(io::Error::from)
            }
            Printer::Json { sink, first } => {
                sink.write_all(if *first { b"\n  " } else { b",\n  " })?;
                *first = false;
                let [from, to, ..] = spelled;
                let printed = Printed {
                    line: *line,
                    from,
                    to,
                    protocol: traffic.protocol(),
                    port: traffic.port(),
                    verdict: answer.verdict,
                    expected: *expected,
                    egress: answer.egress.as_deref(),
                    ingress: answer.ingress.as_deref(),
                };
                serde_json::to_writer(sink, &printed).map_err(io::Error::from)
            }
        }
    }

    fn finish(&mut self, file: &str, tally: &Tally) -> io::Result<()> {
        let Tally { asked, expected, differ, bad } = tally;
        match self {
            Printer::Text { sink, paint } => {
                let good = expected - differ;
                let mut text = format!("{file}: {asked} answered, {good} of {expected} as expected");
                if *bad > 0 {
                    text += &format!(", {bad} without an answer");
                }
                let text = if differ + bad == 0 { paint.good(&text) } else { paint.bad(&text) };
                writeln!(sink, "{text}")?;
                sink.flush()
            }
            Printer::Csv(writer) => writer.flush(),
            Printer::Json { sink, .. } => {
                writeln!(
                    sink,
                    "\n],\"answered\":{asked},\"expected\":{expected},\"differing\":{differ},\"unanswered\":{bad}}}"
                )?;
                sink.flush()
            }
        }
    }
}

fn line_of(error: &csv::Error) -> u64 {
    error.position().map_or(1, csv::Position::line)
}

/// What is wrong with a row, in the words of this program.
fn said(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Utf8 { err, .. } => format!("column {}: not UTF-8", err.field() + 1),
        _ => error.to_string(),
    }
}

//! `fabric-trace check`: a file of questions, answered and compared with what it expects.
//!
//! The file is read, answered and printed some rows at a time. A row without an answer is
//! told on standard error and costs no other.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;

use csv::Writer;
use fabric_api::verdict::{Answer, CHECK_MOST, Query, Reply};
use policy::{Family, Verdict};
use serde::Serialize;

use crate::args::{CheckArgs, TableFormat};
use crate::cluster::Cluster;
use crate::csv_form::{self, Columns, Row};
use crate::error::TraceError;
use crate::outcome::Exit;
use crate::questions::{Line, Lines};
use crate::sink::{Paint, Sink};

/// Reads, asks, compares and prints.
///
/// # Errors
/// Where the file has no header or cannot be read, or nobody answers.
pub fn run(args: &CheckArgs) -> Result<Exit, TraceError> {
    let (name, input) = open(&args.questions)?;
    let cluster = Cluster::open(&args.source)?;
    let mut lines = Lines::new(input);
    let columns = header(&name, lines.next())?;
    cluster.complain();
    let printer = Printer::new(args.output)?;
    let mut check = Check { name, cluster, family: args.family, printer, tally: Tally::default() };
    let mut some = Vec::new();
    for line in lines {
        let line = line.map_err(|source| unreadable(&check.name, source))?;
        some.push(question(&columns, line));
        if some.len() >= CHECK_MOST {
            check.answer(std::mem::take(&mut some))?;
        }
    }
    check.answer(some)?;
    check.finish()
}

fn open(questions: &OsStr) -> Result<(String, Box<dyn BufRead>), TraceError> {
    if questions == "-" {
        return Ok(("standard input".to_owned(), Box::new(io::stdin().lock())));
    }
    let path = PathBuf::from(questions);
    let shown = path.display().to_string();
    match File::open(&path) {
        Ok(file) => Ok((shown, Box::new(BufReader::new(file)))),
        Err(source) => Err(TraceError::Read { path, source }),
    }
}

fn header(name: &str, first: Option<io::Result<Line>>) -> Result<Columns, TraceError> {
    let (line, message) = match first {
        None => (1, "there is nothing in it".to_owned()),
        Some(Err(source)) => return Err(unreadable(name, source)),
        Some(Ok(Line { number, columns })) => match columns.and_then(|header| Columns::read(&header)) {
            Ok(columns) => return Ok(columns),
            Err(message) => (number, message),
        },
    };
    Err(TraceError::Header { file: name.to_owned(), line, message })
}

fn unreadable(name: &str, source: io::Error) -> TraceError {
    TraceError::Read { path: PathBuf::from(name), source }
}

/// A question, and where it stands.
struct Asked {
    line: u64,
    row: Row,
    /// from, to, protocol and port as the file spells them.
    spelled: [String; 4],
}

fn question(columns: &Columns, line: Line) -> (u64, Result<Asked, String>) {
    let asked = line.columns.and_then(|cells| {
        let row = Row::read(columns, &cells)?;
        Ok(Asked { line: line.number, row, spelled: columns.spelled(&cells) })
    });
    (line.number, asked)
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
    fn complain(&self, line: u64, message: &str) {
        eprintln!("fabric-trace: {}:{line}: {message}", self.name);
    }

    /// Answers questions, and tells of lines that are none, in their order.
    fn answer(&mut self, lines: Vec<(u64, Result<Asked, String>)>) -> Result<(), TraceError> {
        let asked = lines.iter().filter_map(|(_, asked)| asked.as_ref().ok());
        let queries = asked.map(|asked| Query {
            from: asked.row.from.clone(),
            to: asked.row.to.clone(),
            traffic: asked.row.traffic,
            family: self.family,
        });
        let mut replies = self.cluster.replies(queries.collect())?.into_iter();
        for (line, asked) in lines {
            let answer = asked.and_then(|asked| match replies.next() {
                Some(Reply::Answer(answer)) => Ok((asked, answer)),
                Some(Reply::Error(error)) => Err(error.error),
                None => Err("the agent gave no answer".to_owned()),
            });
            match answer {
                Ok((asked, answer)) => self.compare(&asked, &answer)?,
                Err(message) => {
                    self.complain(line, &message);
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

//! `fabric-trace lint`: what is wrong with policies, without a question.

use std::io::Write;

use fabric_api::verdict::Lint;

use crate::args::{Format, LintArgs};
use crate::cluster::Cluster;
use crate::error::TraceError;
use crate::outcome::Exit;
use crate::sink::{Paint, Sink};

/// Looks and prints.
///
/// # Errors
/// Where there is nothing to look at.
pub fn run(args: &LintArgs) -> Result<Exit, TraceError> {
    let cluster = Cluster::open(&args.source)?;
    let lint = cluster.lint()?;
    let mut sink = Sink::stdout();
    match args.output {
        Format::Json => sink.json(&lint)?,
        Format::Text => text(&lint, Paint::stdout(), &mut sink).map_err(TraceError::Write)?,
    }
    let clean = lint.findings.is_empty() && lint.problems.is_empty();
    Ok(if clean { Exit::Good } else { Exit::Bad })
}

fn text(lint: &Lint, paint: Paint, sink: &mut Sink) -> std::io::Result<()> {
    let Lint { findings, problems } = lint;
    for problem in problems {
        writeln!(sink, "{}", paint.bad(&problem.to_string()))?;
    }
    for finding in findings {
        writeln!(sink, "{finding}")?;
    }
    let (found, wrong) = (findings.len(), problems.len());
    if found + wrong == 0 {
        writeln!(sink, "{}", paint.good("nothing found"))?;
    } else {
        writeln!(sink, "{}", paint.strong(&format!("findings: {found}, problems: {wrong}")))?;
    }
    sink.flush()
}

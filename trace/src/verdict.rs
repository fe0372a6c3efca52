//! `fabric-trace verdict`: one conversation, and everything that was looked at.

use std::io::Write;

use fabric_api::verdict::{Party, Query, Report, Side};
use policy::{Outcome, Step, Verdict};

use crate::args::{Format, VerdictArgs};
use crate::cluster::Cluster;
use crate::error::TraceError;
use crate::outcome::Exit;
use crate::sink::{Paint, Sink};

/// Asks and prints.
///
/// # Errors
/// Where there is no answer.
pub fn run(args: &VerdictArgs) -> Result<Exit, TraceError> {
    let query = Query {
        from: args.from.clone(),
        to: args.to.clone(),
        traffic: args.sent.traffic()?,
        family: args.family,
    };
    let cluster = Cluster::open(&args.source)?;
    cluster.complain();
    let report = cluster.explain(&query)?;
    let mut sink = Sink::stdout();
    match args.output {
        Format::Json => sink.json(&report)?,
        Format::Text => text(&report, Paint::stdout(), &mut sink).map_err(TraceError::Write)?,
    }
    Ok(match report.verdict {
        Verdict::Allow => Exit::Good,
        Verdict::Deny => Exit::Bad,
    })
}

fn text(report: &Report, paint: Paint, sink: &mut Sink) -> std::io::Result<()> {
    let Report { verdict, from, to, traffic, over_ipv6, egress, ingress } = report;
    writeln!(sink, "{}: {} to {}, {traffic}", said(*verdict, paint), from.end, to.end)?;
    for (word, party) in [("from", from), ("to", to)] {
        writeln!(sink, "  {word:4} {}, {}", party.address, party.resident)?;
    }
    if let Some(other) = over_ipv6 {
        writeln!(sink, "  over IPv6 it is {}: --family 6 tells why", said(*other, paint))?;
    }
    side("egress", from, egress.as_ref(), paint, sink)?;
    side("ingress", to, ingress.as_ref(), paint, sink)?;
    sink.flush()
}

fn side(
    direction: &str,
    party: &Party,
    side: Option<&Side>,
    paint: Paint,
    sink: &mut Sink,
) -> std::io::Result<()> {
    let Some(Side { verdict, because, audit, steps, region, policy: _ }) = side else {
        return writeln!(sink, "\n{direction}: {} has no rules of its own", party.end);
    };
    let title = format!("{direction} of {}", party.end);
    writeln!(sink, "\n{}: {}, {because}", paint.strong(&title), said(*verdict, paint))?;
    if let Some(audit) = audit {
        writeln!(sink, "  in audit mode, not enforced, it would be {}: {audit}", said(Verdict::Deny, paint))?;
    }
    let object = steps.iter().map(|step| subject(step).len()).max().unwrap_or_default();
    for step in steps {
        let decides = if step.decides { "=>" } else { "  " };
        let outcome = format!("{:14}", step.outcome.to_string());
        let outcome = match step.outcome {
            Outcome::Match => paint.strong(&outcome),
            Outcome::Miss => outcome,
            Outcome::NotApplicable => paint.faint(&outcome),
        };
        let audit = if step.audit { "(audit) " } else { "" };
        writeln!(sink, "{decides} {outcome} {:object$}  {audit}{}", subject(step), step.reason)?;
    }
    writeln!(sink, "   {}", paint.faint(&format!("the same holds for {region}")))
}

/// What was looked at: a rule, a policy, or a stage.
fn subject(step: &Step) -> String {
    let Some(policy) = &step.policy else { return step.stage.to_string() };
    match (step.rule, &step.name) {
        (None, _) => policy.to_string(),
        (Some(rule), None) => format!("{policy} rule {rule}"),
        (Some(rule), Some(name)) => format!("{policy} rule {rule} ({name})"),
    }
}

fn said(verdict: Verdict, paint: Paint) -> String {
    match verdict {
        Verdict::Allow => paint.good("allowed"),
        Verdict::Deny => paint.bad("denied"),
    }
}

//! Edits of a node of a large cluster, with a hundred verdicts of its own: until its commands are out, and until a real
//! switch has taken them.

use std::time::Duration;

use openflow::message::Body;
use policy::Edit;

use super::cluster::{Cluster, object};
use super::edits::{Change, changes};
use super::rig::{Rig, Took, toggled};
use super::verdicts::middle;
use crate::bench::line::Line;
use crate::bench::packets::PORT;
use crate::bench::report::{Limit, Row};
use crate::lab::LabError;

/// Times that each edit is made and undone.
const ROUNDS: usize = 20;
/// Milliseconds.
const BUDGET: f64 = 10.0;

/// What the edits came to, microseconds until the commands are out, in the order of the edits.
pub type Edited = Vec<f64>;

/// The edit that concerns every verdict of the node.
fn toggle() -> Result<Change, LabError> {
    let put = |port| object(toggled(port)).map(Edit::Put);
    let (there, back) = (put(PORT + 1)?, put(PORT)?);
    Ok(Change { what: "the policy of all local pods changed".to_owned(), there, back, pod: 0 })
}

/// Edits without a switch.
///
/// # Errors
/// Where the gate finds fault with a manifest.
pub fn measure(cluster: Cluster, smaller: &Edited) -> Result<(Vec<Row>, Edited), LabError> {
    let mut rig = Rig::start(cluster, &mut |_, _| Ok(()))?;
    let (mut rows, mut edited) = (Vec::new(), Vec::new());
    for (at, change) in std::iter::once(toggle()?).chain(changes(cluster)?).enumerate() {
        let took = repeat(&mut rig, &change, &mut |_, _| Ok(()))?;
        let commands = middle(&took.iter().map(|took| took.commands).collect::<Vec<Duration>>());
        let growth = smaller
            .get(at)
            .map(|smaller| format!("; {:.2} × that of a tenth of the pods", commands / smaller));
        let note = format!(
            "p50 until its commands are out; {} verdicts known, {} flows changed{}",
            rig.decisions,
            flows(&took),
            growth.unwrap_or_default()
        );
        let what = format!("edit of a node in {} pods: {}", cluster.pods, change.what);
        rows.push(Row::new(&what, commands, "µs", note));
        edited.push(commands);
    }
    Ok((rows, edited))
}

/// The edit of every verdict, with a real switch.
///
/// # Errors
/// Where the switch refuses something.
pub fn on_a_switch(cluster: Cluster, line: &Line) -> Result<Row, LabError> {
    let mut sink = |meters: Vec<_>, flows: Vec<_>| {
        if !meters.is_empty() {
            line.apply(meters.into_iter().map(Body::MeterMod).collect())?;
        }
        if flows.is_empty() { Ok(()) } else { line.commit(flows) }
    };
    let mut rig = Rig::start(cluster, &mut sink)?;
    let took = repeat(&mut rig, &toggle()?, &mut sink)?;
    let committed: Vec<Duration> = took.iter().map(|took| took.committed).collect();
    let commands: Vec<Duration> = took.iter().map(|took| took.commands).collect();
    let worst = committed.iter().max().map_or(0.0, Duration::as_secs_f64) * 1e3;
    let note = format!(
        "p50 of {}, highest {worst:.1} ms; {:.2} ms until the commands are out; {} verdicts known, {} flows changed",
        committed.len(),
        middle(&commands) / 1e3,
        rig.decisions,
        flows(&took)
    );
    let what = format!("policy edit, once read, to flows committed, {} pods", cluster.pods);
    let row = Row::new(&what, middle(&committed) / 1e3, "ms", note);
    Ok(row.bound("≤ 10 ms with 100 local verdicts", Limit::AtMost(BUDGET)))
}

fn repeat(rig: &mut Rig, change: &Change, sink: &mut super::rig::Sink<'_>) -> Result<Vec<Took>, LabError> {
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        for edit in [&change.there, &change.back] {
            took.push(rig.edit(edit.clone(), sink)?);
        }
    }
    Ok(took)
}

/// Most flows that one of the edits changed.
fn flows(took: &[Took]) -> usize {
    took.iter().map(|took| took.flows).max().unwrap_or(0)
}

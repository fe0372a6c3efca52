//! An agent that is killed and started again on a switch with 100,000 learned flows, of
//! which none has changed.
//!
//! The switch is the played one of [`super::bed`]: it shows the flows that the agent
//! itself made before. The clock runs from the agent's question for all flows until its
//! first change arrives, which it sends when it has judged every flow again and compared
//! all with what there should be.

use std::time::Instant;

use super::bed::{Bed, PEERS};
use super::plain::wait;
use super::report::{Limit, Row};
use crate::lab::LabError;

/// Restarts and looks.
///
/// # Errors
/// Where the agent is late.
pub fn measure(bed: &mut Bed) -> Result<Vec<Row>, LabError> {
    let flows = bed.switch.remember();
    let began = Instant::now();
    bed.restart_agent()?;
    let ready = began.elapsed().as_secs_f64();
    let mut compared = None;
    wait("the compare of a restarted agent", || {
        compared = bed.switch.compared();
        Ok(compared.is_some())
    })?;
    let Some(compared) = compared else { return Ok(Vec::new()) };
    let memory = bed.agent_memory()?;
    let note = format!("{flows} flows in the switch, {} changed", compared.changes);
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let changes = compared.changes as f64;
    Ok(vec![
        Row::new("reconcile of learned flows at a restart", compared.took.as_secs_f64(), "s", note)
            .bound("≤ 1 s for 100,000 flows", Limit::AtMost(1.0)),
        Row::new("flows rewritten by that restart", changes, "flows", "").bound("none", Limit::AtMost(0.0)),
        Row::new("from the kill until the agent serves", ready, "s", format!("{PEERS} pods in the folder")),
        Row::new("memory of the agent, resident", memory, "MiB", format!("{PEERS} pods, {flows} flows"))
            .bound("≤ 200 MiB (at 100,000 pods)", Limit::AtMost(200.0)),
    ])
}

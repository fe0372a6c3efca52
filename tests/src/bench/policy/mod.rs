//! Isolation: verdicts, edits and memory at 1,000, 10,000 and 100,000 pods.

mod agent;
mod cluster;
mod edits;
mod nodes;
mod rig;
pub mod rules;
mod verdicts;

use std::time::Instant;

use policy::{Edit, World};

use super::line::Line;
use super::report::Row;
use crate::lab::command::run;
use crate::lab::{Lab, LabError, Spec, interrupt, switch};
use cluster::Cluster;

/// The clusters, each with ten times the pods of the one before.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];

/// The cluster that the budgets speak of.
const USUAL: usize = 10_000;
/// A bridge for the core without its rooms.
const BRIDGE: &str = "br-edit";

/// Measures all of it.
///
/// # Errors
/// With what is missing, refused or late.
pub fn measure() -> Result<Vec<Row>, LabError> {
    let mut rows = worlds()?;
    rows.extend(nodes()?);
    rows.extend(agents()?);
    Ok(rows)
}

/// Worlds in memory.
fn worlds() -> Result<Vec<Row>, LabError> {
    let (mut verdict_rows, mut edit_rows) = (Vec::new(), Vec::new());
    let (mut asked_before, mut edited_before) = (None, Vec::new());
    for pods in SIZES {
        interrupt::check()?;
        let cluster = Cluster { pods };
        let mut world = World::new();
        let objects = cluster.objects()?;
        let began = Instant::now();
        for object in objects {
            world.apply(Edit::Put(object));
        }
        let built = began.elapsed();
        let asked = verdicts::ask_cluster(&world, cluster);
        verdict_rows.push(asked.row(cluster, asked_before.as_ref()));
        asked_before = Some(asked);
        if pods == USUAL {
            verdict_rows.extend(verdicts::hard(cluster, &world)?);
        }
        let edited = edits::apply(&mut world, cluster)?;
        for (at, edit) in edited.iter().enumerate() {
            edit_rows.push(edit.row(cluster, edited_before.get(at)));
        }
        edited_before = edited;
        let what = format!("a world of {pods} pods from its objects");
        edit_rows.push(Row::new(&what, built.as_secs_f64() * 1e3, "ms", "all objects and claims, once each"));
    }
    verdict_rows.extend(edit_rows);
    Ok(verdict_rows)
}

/// The core of an agent.
fn nodes() -> Result<Vec<Row>, LabError> {
    let (mut rows, mut before) = (Vec::new(), Vec::new());
    for pods in SIZES {
        interrupt::check()?;
        let (more, edited) = nodes::measure(Cluster { pods }, &before)?;
        rows.extend(more);
        before = edited;
    }
    Ok(rows)
}

/// A real switch, and then a real agent.
fn agents() -> Result<Vec<Row>, LabError> {
    let mut lab = Lab::up_without_agents(&Spec::for_test("bepol", 1)?)?;
    let node = lab.node("n1")?;
    run(&mut switch::vsctl(
        node,
        &["--timeout=20"],
        &["add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev", "fail_mode=secure"],
    ))?;
    let line = Line::connect(&node.openflow(BRIDGE))?;
    let mut rows = vec![nodes::on_a_switch(Cluster { pods: USUAL }, &line)?];
    for pods in SIZES {
        interrupt::check()?;
        let cluster = Cluster { pods };
        rows.push(agent::memory(&lab, cluster)?);
        if pods == USUAL {
            rows.insert(1, agent::edit(&mut lab, cluster)?);
        }
    }
    lab.down()?;
    Ok(rows)
}

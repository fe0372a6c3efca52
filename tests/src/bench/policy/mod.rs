//! Isolation: verdicts, edits and memory at 1,000, 10,000 and 100,000 pods.

mod cluster;
mod edits;
mod rules;
mod verdicts;

use std::time::Instant;

use policy::{Edit, World};

use super::report::Row;
use crate::lab::{LabError, interrupt};
use cluster::Cluster;

/// The clusters, each with ten times the pods of the one before.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];

/// Measures all of it.
///
/// # Errors
/// With what is missing, refused or late.
pub fn measure() -> Result<Vec<Row>, LabError> {
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
        if pods == 10_000 {
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

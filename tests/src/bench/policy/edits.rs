//! Edits of a world in memory: [`World::apply`], and the first verdict after it, which compiles again what the edit
//! has put out of date.

use std::time::{Duration, Instant};

use policy::{Direction, Edit, Question, Traffic, World};
use serde_json::{Value, json};

use super::cluster::{Cluster, OWN, address, namespace, namespace_name, object};
use super::rules;
use super::verdicts::middle;
use crate::bench::report::Row;
use crate::lab::LabError;

/// Times that each edit is made and undone.
const ROUNDS: usize = 100;

/// An edit and its undoing.
#[derive(Debug, Clone)]
pub struct Change {
    /// What is edited.
    pub what: String,
    /// The edit.
    pub there: Edit,
    /// Its undoing.
    pub back: Edit,
    /// A pod that it concerns.
    pub pod: usize,
}

/// What an edit came to, microseconds.
#[derive(Debug, Clone)]
pub struct Edited {
    what: String,
    apply: f64,
    verdict: f64,
}

/// The edits that are made of a cluster.
///
/// # Errors
/// Where the gate finds fault with a manifest.
pub fn changes(cluster: Cluster) -> Result<Vec<Change>, LabError> {
    let large = cluster.first_of(OWN);
    let change =
        |what: &str, [there, back]: [Edit; 2]| Change { what: what.to_owned(), there, back, pod: large };
    let toggle =
        |there: Value, back: Value| Ok::<_, LabError>([there, back].map(object).map(|o| o.map(Edit::Put)));
    let both = |pair: Result<[Result<Edit, LabError>; 2], LabError>| {
        let [there, back] = pair?;
        Ok::<_, LabError>([there?, back?])
    };
    let spec = json!({ "podSelector": { "matchLabels": { "app": "app-0" } }, "ingress": [{ "ports": [{ "port": 7000 }] }] });
    let policy = object(rules::network_policy(&namespace_name(OWN), "added", &spec))?;
    let gone = Edit::Remove(policy.reference());
    let last = cluster.pods - 1;
    let pod = object(cluster.pod(last, false))?;
    let dead = Edit::Remove(pod.reference());
    let mut born = change("a pod dead, born", [dead, Edit::Put(pod)]);
    born.pod = cluster.first_of(cluster.namespace_of(last));
    Ok(vec![
        change("a policy put, removed", [Edit::Put(policy), gone]),
        change("a pod relabelled", both(toggle(cluster.pod(large, true), cluster.pod(large, false)))?),
        born,
        change(
            &format!("a namespace of {} pods relabelled", cluster.in_large()),
            both(toggle(namespace(OWN, true), namespace(OWN, false)))?,
        ),
    ])
}

/// Makes each edit many times.
///
/// # Errors
/// As [`changes`].
pub fn apply(world: &mut World, cluster: Cluster) -> Result<Vec<Edited>, LabError> {
    let changes = changes(cluster)?;
    Ok(changes.into_iter().map(|change| edited(world, change)).collect())
}

fn edited(world: &mut World, change: Change) -> Edited {
    let traffic = Traffic { protocol: 6, port: Some(8080) };
    let question = Question {
        direction: Direction::Ingress,
        subject: address(change.pod),
        peer: address(change.pod + 1),
        traffic,
    };
    let (mut applied, mut judged) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for edit in [change.there.clone(), change.back.clone()] {
            let (took, touched) = timed(|| world.apply(edit));
            // A change of tenants or labels that touched nothing would be no edit.
            debug_assert!(!touched.is_empty());
            applied.push(took);
            judged.push(timed(|| world.judge(&question)).0);
        }
    }
    Edited { what: change.what, apply: middle(&applied), verdict: middle(&judged) }
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

impl Edited {
    /// The row; `smaller` is the same edit of a tenth of the pods.
    pub fn row(&self, cluster: Cluster, smaller: Option<&Edited>) -> Row {
        let growth = smaller.map(|smaller| {
            let [apply, verdict] = [self.apply / smaller.apply, self.verdict / smaller.verdict];
            format!("; {apply:.2} × and {verdict:.2} × those of a tenth of the pods")
        });
        let note =
            format!("p50; the first verdict after it {:.2} µs{}", self.verdict, growth.unwrap_or_default());
        Row::new(&format!("edit of a world of {} pods: {}", cluster.pods, self.what), self.apply, "µs", note)
    }
}

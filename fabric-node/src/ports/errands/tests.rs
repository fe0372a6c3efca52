use std::collections::BTreeSet;

use super::*;
use crate::ports::fixture::{Fixture, Rows, switch};
use ovsdb::{Columns, OpResult, Operation, OperationError, Replica};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(10);

struct Bench {
    fixture: Fixture,
    view: View,
    errands: Errands,
    now: Instant,
    verdicts: Vec<Verdict>,
    tasks: u64,
}

fn opened(name: &str, ofport: i64) -> Value {
    json!({"name": name, "ofport": ofport, "ofport_request": ofport,
           "external_ids": ["map", [["fabric.container", name]]]})
}

fn unopened(name: &str) -> Value {
    let mut row = opened(name, 40000);
    row["ofport"] = json!(["set", []]);
    row
}

fn add(name: &str) -> PortsCommand {
    let external_ids = [("fabric.container".to_owned(), name.to_owned())].into();
    PortsCommand::Add(PortSpec { name: name.to_owned(), ofport_request: 40000, external_ids })
}

fn remove(name: &str) -> PortsCommand {
    PortsCommand::Remove { name: name.to_owned() }
}

impl Bench {
    fn new(rows: Rows) -> Self {
        let (fixture, replica) = Fixture::new(rows);
        let view = View::new("br-fabric", replica);
        let now = Instant::now();
        Self { fixture, view, errands: Errands::new(PATIENCE), now, verdicts: Vec::new(), tasks: 0 }
    }

    fn push(&mut self, command: PortsCommand) -> Task {
        self.tasks += 1;
        let refused = self.errands.push(Task(self.tasks), command, self.now);
        assert!(refused.is_none(), "{refused:?}");
        Task(self.tasks)
    }

    fn batch(&mut self) -> Option<Transaction> {
        self.errands.batch(&self.view, self.now, &mut self.verdicts)
    }

    /// The database carries the transaction out.
    fn committed(&mut self, txn: &Transaction, next_cfg: i64) {
        let result = |operation: &Operation| match operation {
            Operation::Insert { .. } => OpResult::Inserted(Uuid::default()),
            Operation::Select { .. } => {
                let row: Columns = [("next_cfg".to_owned(), next_cfg.into())].into();
                OpResult::Rows(vec![row])
            }
            Operation::Mutate { .. } | Operation::Update { .. } | Operation::Delete { .. } => {
                OpResult::Count(1)
            }
            _ => OpResult::Done,
        };
        let committed = txn.committed(txn.operations().iter().map(result).collect());
        self.errands.answered(Ok(committed), self.now, &mut self.verdicts);
    }

    fn refused(&mut self, kind: ErrorKind) {
        let error = OperationError {
            kind,
            operation: Some(0),
            name: Some("insert"),
            table: None,
            column: None,
            details: String::new(),
            syntax: None,
        };
        self.errands.answered(Err(Error::Transaction(Box::new(error))), self.now, &mut self.verdicts);
    }

    /// The database shows these rows.
    fn shows(&mut self, rows: Rows) {
        self.view.follow(&self.fixture.become_rows(rows));
        self.errands.look(&self.view, self.now, &mut self.verdicts);
    }

    fn verdict(&mut self) -> Option<Verdict> {
        (!self.verdicts.is_empty()).then(|| self.verdicts.remove(0))
    }
}

/// Names in inserts of ports, and the number of mutations of the bridge.
fn contents(txn: &Transaction) -> (BTreeSet<String>, usize) {
    let mut names = BTreeSet::new();
    let mut mutations = 0;
    for operation in txn.operations() {
        match operation {
            Operation::Insert { table, row, .. } if table == "Port" => {
                names.extend(row.get("name").map(|name| format!("{name:?}")));
            }
            Operation::Mutate { table, .. } if table == "Bridge" => mutations += 1,
            _ => {}
        }
    }
    (names, mutations)
}

#[test]
fn what_is_queued_goes_out_together() {
    let mut bench = Bench::new(switch(1, &[]));
    let tasks: Vec<Task> = (0..20).map(|n| bench.push(add(&format!("fab{n}")))).collect();
    let txn = bench.batch().unwrap();
    assert_eq!(contents(&txn).0.len(), 20);
    bench.push(add("late"));
    assert_eq!(bench.batch(), None, "one transaction at a time");
    bench.committed(&txn, 2);
    assert_eq!(contents(&bench.batch().unwrap()).0.len(), 1);
    let ports: Vec<(u32, Value)> = (0..20).map(|n| (10 + 2 * n, opened(&format!("fab{n}"), 40000))).collect();
    bench.shows(switch(2, &ports));
    let done: Vec<Task> = bench.verdicts.iter().map(|(task, _)| *task).collect();
    assert_eq!(done, tasks);
}

#[test]
fn an_addition_waits_for_its_number() {
    let mut bench = Bench::new(switch(1, &[]));
    let task = bench.push(add("fab1"));
    let txn = bench.batch().unwrap();
    bench.committed(&txn, 2);
    bench.shows(switch(1, &[(10, unopened("fab1"))]));
    assert_eq!(bench.verdict(), None);
    bench.shows(switch(2, &[(10, opened("fab1", 40000))]));
    let (done, result) = bench.verdict().unwrap();
    assert_eq!((done, result.unwrap().unwrap().ofport), (task, Some(40000)));
}

#[test]
fn the_switch_says_why_it_cannot_open_a_device() {
    let mut bench = Bench::new(switch(1, &[]));
    bench.push(add("fab1"));
    let txn = bench.batch().unwrap();
    bench.committed(&txn, 2);
    let mut failed = opened("fab1", -1);
    failed["error"] = json!("could not open network device fab1 (No such device)");
    bench.shows(switch(2, &[(10, failed)]));
    let error = bench.verdict().unwrap().1.unwrap_err();
    assert!(error.contains("port fab1") && error.contains("No such device"), "{error}");
}

#[test]
fn a_number_of_before_does_not_count() {
    let mut bench = Bench::new(switch(1, &[(10, opened("fab1", 40001))]));
    bench.push(add("fab1"));
    let txn = bench.batch().unwrap();
    assert_eq!(contents(&txn).0.len(), 0, "nothing is inserted");
    bench.committed(&txn, 2);
    bench.shows(switch(1, &[(10, opened("fab1", 40001))]));
    assert_eq!(bench.verdict(), None);
    bench.shows(switch(2, &[(10, opened("fab1", 40000))]));
    assert_eq!(bench.verdict().unwrap().1.unwrap().unwrap().ofport, Some(40000));
}

#[test]
fn a_removal_ends_with_the_row_and_stops_a_waiting_addition() {
    let mut bench = Bench::new(switch(1, &[]));
    let addition = bench.push(add("fab1"));
    let removal = bench.push(remove("fab1"));
    let txn = bench.batch().unwrap();
    bench.committed(&txn, 2);
    assert_eq!(bench.batch(), None, "the row must be seen first");
    bench.shows(switch(1, &[(10, unopened("fab1"))]));
    let txn = bench.batch().unwrap();
    assert_eq!(contents(&txn).1, 1);
    bench.committed(&txn, 3);
    bench.shows(switch(1, &[]));
    let (task, result) = bench.verdict().unwrap();
    assert_eq!(task, addition);
    assert!(result.unwrap_err().contains("was removed"));
    assert_eq!(bench.verdict(), Some((removal, Ok(None))));
}

#[test]
fn what_is_not_there_is_removed_at_once() {
    let mut bench = Bench::new(switch(1, &[]));
    let task = bench.push(remove("fab1"));
    assert_eq!(bench.batch(), None);
    assert_eq!(bench.verdict(), Some((task, Ok(None))));
}

#[test]
fn removals_go_a_few_at_a_time_and_never_hold_an_addition_back() {
    let ports: Vec<(u32, Value)> = (0..10).map(|n| (10 + 2 * n, opened(&format!("fab{n}"), 40000))).collect();
    let mut bench = Bench::new(switch(1, &ports));
    for n in 0..10 {
        bench.push(remove(&format!("fab{n}")));
    }
    let txn = bench.batch().unwrap();
    assert_eq!(contents(&txn).1, REMOVALS);
    bench.committed(&txn, 2);
    bench.shows(switch(1, &ports[REMOVALS..]));
    assert_eq!(bench.verdicts.len(), REMOVALS, "the row is gone, and that is all a removal waits for");
    assert_eq!(bench.batch(), None);
    bench.push(add("late"));
    let txn = bench.batch().unwrap();
    let (names, mutations) = contents(&txn);
    assert_eq!((names.len(), mutations), (1, 1), "the addition goes, and no removal with it");
    bench.committed(&txn, 3);
    bench.shows(switch(2, &ports[REMOVALS..]));
    assert_eq!(contents(&bench.batch().unwrap()).1, REMOVALS);
}

#[test]
fn removals_do_not_wait_for_ever_for_a_switch_that_is_away() {
    let ports: Vec<(u32, Value)> = (0..10).map(|n| (10 + 2 * n, opened(&format!("fab{n}"), 40000))).collect();
    let mut bench = Bench::new(switch(1, &ports));
    for n in 0..10 {
        bench.push(remove(&format!("fab{n}")));
    }
    let txn = bench.batch().unwrap();
    bench.committed(&txn, 2);
    bench.shows(switch(1, &ports[REMOVALS..]));
    bench.now += NUDGE;
    assert!(bench.errands.next().unwrap() <= bench.now);
    assert_eq!(contents(&bench.batch().unwrap()).1, REMOVALS);
}

#[test]
fn a_refused_transaction_is_taken_apart() {
    let mut bench = Bench::new(switch(1, &[]));
    let tasks = [bench.push(add("fab1")), bench.push(add("fab2"))];
    bench.batch().unwrap();
    bench.refused(ErrorKind::ConstraintViolation);
    assert_eq!(bench.verdict(), None);
    let txn = bench.batch().unwrap();
    assert_eq!(contents(&txn).0.len(), 1, "the first goes alone");
    bench.refused(ErrorKind::Resources);
    let (task, result) = bench.verdict().unwrap();
    assert_eq!(task, tasks[0]);
    assert!(result.unwrap_err().contains("resources exhausted"));
    let txn = bench.batch().unwrap();
    bench.committed(&txn, 2);
    bench.shows(switch(2, &[(10, opened("fab2", 40000))]));
    assert_eq!(bench.verdict().unwrap().0, tasks[1]);
}

#[test]
fn a_name_that_stays_taken_is_an_error_in_the_end() {
    let mut bench = Bench::new(switch(1, &[]));
    bench.push(add("fab1"));
    for _ in 0..TRIES {
        bench.batch().unwrap();
        bench.refused(ErrorKind::ConstraintViolation);
        assert_eq!(bench.verdict(), None);
    }
    bench.batch().unwrap();
    bench.refused(ErrorKind::ConstraintViolation);
    assert!(bench.verdict().unwrap().1.is_err());
}

#[test]
fn an_unknown_outcome_is_resolved_by_looking() {
    for took_effect in [false, true] {
        let mut bench = Bench::new(switch(1, &[]));
        bench.push(add("fab1"));
        bench.batch().unwrap();
        bench.errands.disconnected();
        bench.errands.answered(Err(Error::OutcomeUnknown), bench.now, &mut bench.verdicts);
        let rows = if took_effect { switch(1, &[(10, unopened("fab1"))]) } else { switch(1, &[]) };
        let replica: Replica = Fixture::new(rows.clone()).1;
        bench.fixture.become_rows(rows);
        bench.view = View::new("br-fabric", replica);
        let txn = bench.batch().unwrap();
        assert_eq!(contents(&txn).0.len(), usize::from(!took_effect));
        bench.committed(&txn, 2);
        bench.shows(switch(2, &[(10, opened("fab1", 40000))]));
        assert!(bench.verdict().unwrap().1.is_ok());
    }
}

#[test]
fn a_switch_that_gives_no_sign_is_asked_again() {
    let mut bench = Bench::new(switch(1, &[]));
    bench.push(add("fab1"));
    let txn = bench.batch().unwrap();
    bench.committed(&txn, 2);
    bench.shows(switch(1, &[(10, unopened("fab1"))]));
    bench.now += NUDGE;
    assert!(bench.errands.next().unwrap() <= bench.now);
    bench.errands.look(&bench.view, bench.now, &mut bench.verdicts);
    let txn = bench.batch().unwrap();
    assert_eq!(contents(&txn).0.len(), 0);
    bench.committed(&txn, 3);
    bench.shows(switch(3, &[(10, opened("fab1", 40000))]));
    assert!(bench.verdict().unwrap().1.is_ok());
}

#[test]
fn patience_ends_and_says_what_was_missing() {
    let mut bench = Bench::new(switch(1, &[]));
    bench.push(add("fab1"));
    bench.now += PATIENCE;
    bench.errands.expire(bench.now, &mut bench.verdicts);
    let error = bench.verdict().unwrap().1.unwrap_err();
    assert!(error.contains("database of Open vSwitch is not ready"), "{error}");
    bench.push(add("fab1"));
    let txn = bench.batch().unwrap();
    bench.committed(&txn, 2);
    bench.now += PATIENCE;
    bench.errands.look(&bench.view, bench.now, &mut bench.verdicts);
    bench.errands.expire(bench.now, &mut bench.verdicts);
    let error = bench.verdict().unwrap().1.unwrap_err();
    assert!(error.contains("ovs-vswitchd has not acted"), "{error}");
    assert_eq!(bench.errands.next(), None);
}

#[test]
fn the_queue_has_an_end() {
    let mut bench = Bench::new(switch(1, &[]));
    for n in 0..QUEUE {
        bench.push(add(&format!("fab{n}")));
    }
    let (task, result) = bench.errands.push(Task(9999), add("more"), bench.now).unwrap();
    assert_eq!(task, Task(9999));
    assert!(result.unwrap_err().contains("try again"));
}

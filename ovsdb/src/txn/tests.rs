use super::*;
use crate::outcome::OperationError;

fn results() -> Vec<OpResult> {
    let uuid = Uuid::from_bytes([7; 16]);
    let row = Columns::from([("next_cfg".into(), 5.into())]);
    vec![OpResult::Inserted(uuid), OpResult::Count(1), OpResult::Rows(vec![row])]
}

fn transaction() -> (Transaction, NewRow, NextCfg) {
    let mut txn = Transaction::new();
    let row = txn.insert("Interface", [("name", "p".into())]);
    let next_cfg = txn.bump_next_cfg();
    (txn, row, next_cfg)
}

fn error(kind: ErrorKind, operation: Option<usize>) -> Error {
    Error::Transaction(Box::new(OperationError {
        kind,
        operation,
        name: None,
        table: None,
        column: None,
        details: String::new(),
        syntax: None,
    }))
}

use crate::outcome::ErrorKind;

#[test]
fn handles_find_their_results() {
    let (txn, row, next_cfg) = transaction();
    let done = txn.committed(results());
    assert_eq!(done.uuid(row), Ok(Uuid::from_bytes([7; 16])));
    assert_eq!(done.count(Counted(1)), Ok(1));
    assert_eq!(done.next_cfg(next_cfg), Ok(5));
    let why = done.uuid(NewRow(1)).unwrap_err().to_string();
    assert!(why.ends_with("operation 1 gave a count, not the inserted row that was asked for"), "{why}");
    assert!(done.rows(Selected(9)).unwrap_err().to_string().contains("operation 9 gave no result"));
}

#[test]
fn an_empty_root_table_is_named() {
    let (txn, _, next_cfg) = transaction();
    let mut empty = results();
    empty[2] = OpResult::Rows(vec![]);
    assert_eq!(txn.committed(empty).next_cfg(next_cfg), Err(Error::NoRootRow));
}

#[test]
fn handles_find_their_results_behind_the_guard_too() {
    let (txn, row, next_cfg) = transaction();
    let txn = txn.once("writer", "t1");
    let operations = txn.operations();
    let names: Vec<_> = operations.iter().map(Operation::name).collect();
    assert_eq!(names, ["assert", "wait", "wait", "insert", "mutate", "select", "mutate"]);
    let mut all = vec![OpResult::Done; 3];
    all.extend(results());
    all.push(OpResult::Count(1));
    let done = txn.committed(all);
    assert_eq!((done.uuid(row), done.next_cfg(next_cfg)), (Ok(Uuid::from_bytes([7; 16])), Ok(5)));
}

#[test]
fn the_guard_says_what_its_failure_means() {
    let txn = transaction().0.once("writer", "t1");
    let failed = |kind, at| txn.failed(error(kind, at));
    assert_eq!(failed(ErrorKind::NotOwner, Some(0)), Failure::Failed(Error::Superseded("writer".into())));
    assert_eq!(failed(ErrorKind::TimedOut, Some(1)), Failure::Failed(Error::NoRootRow));
    assert_eq!(failed(ErrorKind::TimedOut, Some(2)), Failure::TookEffectBefore);
    let own = error(ErrorKind::TimedOut, Some(1));
    assert_eq!(failed(ErrorKind::TimedOut, Some(4)), Failure::Failed(own));
    let commit = error(ErrorKind::ConstraintViolation, None);
    assert_eq!(txn.failed(commit.clone()), Failure::Failed(commit));
    let plain = transaction().0;
    let own = error(ErrorKind::TimedOut, Some(2));
    assert_eq!(plain.failed(own.clone()), Failure::Failed(own));
}

#[test]
fn keys_of_a_map_are_replaced_and_others_stay() {
    let mut txn = Transaction::new();
    txn.set_keys("Port", [], "external_ids", [("a", "1"), ("b", "2")]);
    let [Operation::Mutate { mutations, .. }] = &txn.operations()[..] else { panic!("one mutate") };
    let wanted = [
        Mutation::delete("external_ids", vec!["a", "b"]),
        Mutation::insert("external_ids", Datum::from_pairs([("a", "1"), ("b", "2")])),
    ];
    assert_eq!(mutations[..], wanted);
}

use super::*;
use crate::monitor::TableColumns;
use crate::schema::Schema;
use crate::session::tests::{PORT, port_rows};

fn change(before: &[(u8, i64)], after: &[(u8, i64)]) -> Vec<RowChange> {
    port_rows(after).changes_since(&port_rows(before))
}

#[test]
fn events_come_in_order() {
    let mut inbox = Inbox::default();
    assert!(inbox.is_empty() && inbox.pop().is_none());
    inbox.lost(Error::Closed);
    inbox.connected(port_rows(&[(1, 1)]));
    assert_eq!(inbox.pop(), Some(ClientEvent::Disconnected { reason: Error::Closed }));
    assert_eq!(inbox.pop(), Some(ClientEvent::Connected { snapshot: port_rows(&[(1, 1)]) }));
    inbox.changed(change(&[(1, 1)], &[(1, 2)]));
    assert_eq!(inbox.pop(), Some(ClientEvent::Update(change(&[(1, 1)], &[(1, 2)]))));
    assert!(inbox.is_empty() && inbox.pop().is_none());
}

#[test]
fn changes_join_a_snapshot_that_waits() {
    let mut inbox = Inbox::default();
    inbox.connected(port_rows(&[(1, 1)]));
    inbox.changed(change(&[(1, 1)], &[(1, 2), (2, 5)]));
    assert_eq!(inbox.pop(), Some(ClientEvent::Connected { snapshot: port_rows(&[(1, 2), (2, 5)]) }));
    assert!(inbox.is_empty());
}

#[test]
fn changes_of_a_row_are_merged() {
    let mut inbox = Inbox::default();
    let states: [&[(u8, i64)]; 5] = [&[(1, 1)], &[(1, 2), (2, 9)], &[(1, 3)], &[(1, 3), (3, 4)], &[(3, 4)]];
    for pair in states.windows(2) {
        inbox.changed(change(pair[0], pair[1]));
    }
    assert_eq!(inbox.pop(), Some(ClientEvent::Update(change(&[(1, 1)], &[(3, 4)]))));
    inbox.changed(change(&[], &[(1, 1)]));
    inbox.changed(change(&[(1, 1)], &[]));
    assert!(inbox.is_empty());
}

#[test]
fn a_loss_makes_what_waits_stale() {
    let mut inbox = Inbox::default();
    inbox.connected(port_rows(&[(1, 1)]));
    inbox.lost(Error::Closed);
    assert_eq!(inbox.pop(), Some(ClientEvent::Disconnected { reason: Error::Closed }));
    assert!(inbox.is_empty());
    inbox.changed(change(&[], &[(1, 1)]));
    inbox.lost(Error::ClosedInMessage);
    inbox.connected(port_rows(&[]));
    assert_eq!(inbox.pop(), Some(ClientEvent::Disconnected { reason: Error::ClosedInMessage }));
    inbox.clear();
    assert!(inbox.is_empty());
}

#[test]
fn the_replica_of_these_tests_has_the_table() {
    let schema: Schema = serde_json::from_str(PORT).unwrap();
    assert!(Replica::new(&schema, &[TableColumns::new("Port", &["tag"])]).is_ok());
}

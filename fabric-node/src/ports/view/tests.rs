use super::*;
use crate::ports::fixture::{Fixture, Rows, references, switch, uuid};
use proptest::prelude::*;
use serde_json::json;

fn view(rows: Rows) -> (Fixture, View) {
    let (fixture, replica) = Fixture::new(rows);
    (fixture, View::new("br-fabric", replica))
}

#[test]
fn a_row_is_read_whole() {
    let interface = json!({"name": "fab1", "ofport": 40000, "external_ids": ["map", [["fabric.zone", "7"]]],
                           "mac_in_use": "02:00:00:00:00:01", "ofport_request": 40000});
    let (_, view) = view(switch(5, &[(10, interface)]));
    let member = view.member("fab1").unwrap();
    assert_eq!(member.ofport_request, Some(40000));
    assert_eq!(
        member.row,
        PortRow {
            name: "fab1".to_owned(),
            kind: String::new(),
            ofport: Some(40000),
            error: None,
            external_ids: [("fabric.zone".to_owned(), "7".to_owned())].into(),
            mac: "02:00:00:00:00:01".parse().ok(),
        }
    );
    assert_eq!(view.member("br-fabric").unwrap().row.ofport, Some(65534));
    assert_eq!(view.cur_cfg(), 5);
}

#[test]
fn a_port_that_failed_has_no_number() {
    let failed =
        json!({"name": "fab1", "ofport": -1, "error": "could not open network device fab1 (No such device)"});
    let (_, view) = view(switch(1, &[(10, failed)]));
    let row = &view.member("fab1").unwrap().row;
    assert_eq!(row.ofport, None);
    assert!(row.error.as_ref().unwrap().contains("No such device"));
}

#[test]
fn a_port_of_the_same_name_that_came_is_not_taken_for_gone() {
    let (mut fixture, mut view) = view(switch(1, &[(20, json!({"name": "fab1", "ofport": 7}))]));
    // The new row sorts before the old one.
    let news = view.follow(&fixture.become_rows(switch(1, &[(10, json!({"name": "fab1"}))])));
    let [News::Gone(gone), News::Changed(row)] = news.as_slice() else { panic!("{news:?}") };
    assert_eq!((gone.as_str(), row.name.as_str(), row.ofport), ("fab1", "fab1", None));
    assert!(view.member("fab1").is_some());
}

#[test]
fn a_port_that_moves_to_another_bridge_is_gone_and_known_elsewhere() {
    let rows = switch(1, &[(10, json!({"name": "fab1"}))]);
    let (mut fixture, mut view) = view(rows.clone());
    let mut moved = switch(1, &[]);
    moved.extend(rows.into_iter().filter(|((table, _), _)| matches!(*table, "Port" | "Interface")));
    moved.insert(("Bridge", uuid(50)), json!({"name": "br-other", "ports": references([10])}));
    assert_eq!(view.follow(&fixture.become_rows(moved)), [News::Gone("fab1".to_owned())]);
    assert_eq!(view.elsewhere("fab1").as_deref(), Some("br-other"));
    assert_eq!(view.elsewhere("br-fabric"), None);
}

#[test]
fn a_bridge_that_is_made_anew_is_found_again() {
    let rows = switch(1, &[(10, json!({"name": "fab1"}))]);
    let (mut fixture, mut view) = view(rows.clone());
    let gone = view.follow(&fixture.become_rows(Rows::new()));
    assert_eq!(gone, [News::Gone("br-fabric".to_owned()), News::Gone("fab1".to_owned())]);
    assert!(view.bridge().is_none() && view.rows().is_empty());
    assert_eq!(view.follow(&fixture.become_rows(rows)).len(), 2);
}

/// A port's columns from small numbers, so that names collide and values repeat.
fn interface() -> impl Strategy<Value = serde_json::Value> {
    (0..4_u8, prop::option::of(-1..3_i64), any::<bool>()).prop_map(|(name, ofport, error)| {
        let mut columns = json!({"name": format!("fab{name}")});
        if let Some(ofport) = ofport {
            columns["ofport"] = json!(ofport);
        }
        if error {
            columns["error"] = json!("no");
        }
        columns
    })
}

/// A switch whose port names are unique, as the database demands.
fn any_switch() -> impl Strategy<Value = Rows> {
    let ports = prop::collection::btree_map(5..15_u32, interface(), 0..5);
    (0..3_i64, ports, any::<bool>()).prop_map(|(cur_cfg, ports, bridge)| {
        let mut names = BTreeSet::new();
        let unique = ports.into_iter().filter(|(_, columns)| names.insert(columns["name"].to_string()));
        let ports: Vec<_> = unique.map(|(number, columns)| (number * 2, columns)).collect();
        let mut rows = switch(cur_cfg, &ports);
        if !bridge {
            rows.remove(&("Bridge", uuid(2)));
        }
        rows
    })
}

proptest! {
    /// Following changes ends where reading everything would, and the news tell a listener the same.
    #[test]
    fn following_is_reading(history in prop::collection::vec(any_switch(), 1..8)) {
        let (mut fixture, mut followed) = view(switch(0, &[]));
        let mut heard: BTreeMap<String, PortRow> =
            followed.rows().into_iter().map(|row| (row.name.clone(), row)).collect();
        for rows in history {
            for news in followed.follow(&fixture.become_rows(rows)) {
                match news {
                    News::Gone(name) => prop_assert!(heard.remove(&name).is_some()),
                    News::Changed(row) => drop(heard.insert(row.name.clone(), row)),
                }
            }
            let read = View::new("br-fabric", fixture.snapshot());
            prop_assert_eq!(&followed.members, &read.members);
            prop_assert_eq!(&followed.interfaces, &read.interfaces);
            prop_assert_eq!(&followed.names, &read.names);
            prop_assert_eq!(&followed.bridge, &read.bridge);
            let rows: BTreeMap<String, PortRow> =
                read.rows().into_iter().map(|row| (row.name.clone(), row)).collect();
            prop_assert_eq!(&heard, &rows);
        }
    }
}

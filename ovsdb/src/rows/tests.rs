use super::*;
use crate::op::Columns;
use crate::value::Datum;

fn port() -> Columns {
    [
        ("name", Datum::from("p0")),
        ("interfaces", vec![Uuid::from_bytes([1; 16])].into()),
        ("tag", 7.into()),
        ("trunks", vec![1, 2].into()),
        ("vlan_mode", Datum::empty()),
        ("external_ids", Datum::from_pairs([("k", "v")])),
        ("other_config", Datum::empty_map()),
        ("qos", Datum::empty()),
        ("unread", 9.into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[test]
fn a_row_becomes_a_structure() {
    let read = Port::read(&port()).unwrap();
    let wanted = Port {
        name: "p0".into(),
        interfaces: [Uuid::from_bytes([1; 16])].into(),
        tag: Some(7),
        trunks: [1, 2].into(),
        vlan_mode: None,
        external_ids: [("k".into(), "v".into())].into(),
        other_config: Strings::new(),
        qos: None,
    };
    assert_eq!(read, wanted);
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let mut row = port();
    row.remove("qos");
    let why = Port::read(&row).unwrap_err().to_string();
    assert_eq!(why, "Port.qos is not there: add it to the monitored or selected columns");
    row.insert("tag".into(), "x".into());
    let why = Port::read(&row).unwrap_err().to_string();
    assert_eq!(why, "Port.tag: expected at most one integer, found string");
}

#[test]
fn a_structure_says_what_to_monitor() {
    let wanted = TableColumns::new("Interface", &["name", "statistics"]);
    assert_eq!(InterfaceStatistics::monitor(), wanted);
    assert_eq!(Port::COLUMNS.len(), 8);
}

use super::*;

const SCHEMA: &str = r#"{"name":"Open_vSwitch","version":"8.3.1","cksum":"1 2","tables":{"Port":{"isRoot":true,
  "indexes":[["name"]],"columns":{
    "name":{"type":"string","mutable":false},
    "tag":{"type":{"key":{"type":"integer","minInteger":0,"maxInteger":4095},"min":0,"max":1}},
    "trunks":{"type":{"key":{"type":"integer"},"min":0,"max":4096},"ephemeral":true},
    "interfaces":{"type":{"key":{"type":"uuid","refTable":"Interface"},"min":1,"max":"unlimited"}},
    "statistics":{"type":{"key":"string","value":"real","min":0,"max":"unlimited"}},
    "pair":{"type":{"key":"string","value":"boolean"}}}}}}"#;

fn kind(column: &str) -> ColumnType {
    let schema: Schema = serde_json::from_str(SCHEMA).unwrap();
    schema.tables["Port"].columns[column].kind
}

#[test]
fn a_schema_is_read() {
    let schema: Schema = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!((schema.name.as_str(), schema.version.as_str()), ("Open_vSwitch", "8.3.1"));
    let port = &schema.tables["Port"];
    assert!(port.is_root && !port.columns["name"].mutable && port.columns["tag"].mutable);
    assert_eq!(kind("tag"), ColumnType { key: AtomType::Integer, value: None, min: 0, max: Some(1) });
    assert_eq!(kind("interfaces"), ColumnType { key: AtomType::Uuid, value: None, min: 1, max: None });
    let statistics = kind("statistics");
    assert_eq!((statistics.key, statistics.value), (AtomType::String, Some(AtomType::Real)));
    let composite = ["trunks", "interfaces", "statistics"];
    for column in ["name", "tag", "trunks", "interfaces", "statistics", "pair"] {
        assert_eq!(kind(column).is_composite(), composite.contains(&column), "{column}");
    }
}

#[test]
fn columns_have_the_defaults_of_rfc_7047() {
    assert_eq!(kind("name").default_datum(), "".into());
    assert_eq!(kind("tag").default_datum(), Datum::empty());
    assert_eq!(kind("statistics").default_datum(), Datum::empty_map());
    assert_eq!(kind("interfaces").default_datum(), Uuid::default().into());
    assert_eq!(kind("pair").default_datum(), Datum::from_pairs([("", false)]));
    assert_eq!(AtomType::Real.default_atom(), Atom::Real(Real::new(0.0).unwrap()));
}

#[test]
fn values_must_fit_their_column() {
    let why = |column: &str, datum: Datum| kind(column).conform_whole(datum).unwrap_err().to_string();
    assert_eq!(why("name", 7.into()), "expected string, found integer 7");
    assert_eq!(why("name", Datum::empty()), "expected 1 to 1 elements, found 0");
    assert_eq!(why("tag", vec![1, 2].into()), "expected 0 to 1 elements, found 2");
    assert_eq!(why("interfaces", Datum::empty()), "expected 1 to unlimited elements, found 0");
    assert_eq!(why("statistics", 1.into()), "expected map from string to real, found integer");
    assert_eq!(why("trunks", Datum::from_pairs([(1, 2)])), "expected set of integer, found map");
    let named = Datum::scalar(Atom::NamedUuid("x".into()));
    assert_eq!(why("interfaces", named), "expected uuid, found named-uuid @x");
}

#[test]
fn an_integer_serves_where_a_real_is_wanted() {
    let read: Datum = serde_json::from_str(r#"["map",[["rx",1],["tx",2.5]]]"#).unwrap();
    let pairs = [("rx", Real::new(1.0).unwrap()), ("tx", Real::new(2.5).unwrap())];
    let wanted = Datum::from_pairs(pairs.map(|(key, value)| (key, Atom::Real(value))));
    assert_eq!(kind("statistics").conform_whole(read), Ok(wanted));
    assert_eq!(kind("statistics").conform_whole(Datum::empty()), Ok(Datum::empty_map()));
}

#[test]
fn a_bad_schema_is_an_error() {
    for bad in [
        "{}",
        r#"{"name":"x","tables":{"t":{}}}"#,
        r#"{"name":"x","tables":{"t":{"columns":{"c":{"type":"blob"}}}}}"#,
        r#"{"name":"x","tables":{"t":{"columns":{"c":{"type":{"key":"string","max":"many"}}}}}}"#,
        r#"{"name":"x","tables":{"t":{"columns":{"c":{"type":{"key":"string","min":-1}}}}}}"#,
    ] {
        assert!(serde_json::from_str::<Schema>(bad).is_err(), "{bad}");
    }
}

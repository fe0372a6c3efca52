use super::*;
use crate::value::Atom;
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const A: &str = "00000000-0000-0000-0000-00000000000a";

fn schema() -> Schema {
    serde_json::from_value(json!({"name": "Open_vSwitch", "version": "8.3.1", "tables": {
        "Port": {"columns": {
            "name": {"type": "string"},
            "tag": {"type": {"key": "integer", "min": 0, "max": 1}},
            "trunks": {"type": {"key": "integer", "min": 0, "max": 4096}},
            "ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
            "other": {"type": "integer"}}},
        "Bridge": {"columns": {"name": {"type": "string"}}}}}))
    .unwrap()
}

fn replica() -> Replica {
    Replica::new(&schema(), &[TableColumns::new("Port", &["trunks", "name", "tag", "ids"])]).unwrap()
}

fn apply(replica: &mut Replica, version: Version, update: &Value) -> Result<Vec<RowChange>, Error> {
    let raw: Box<RawValue> = serde_json::value::to_raw_value(update).unwrap();
    replica.apply(version, &raw)
}

fn row(replica: &Replica) -> Vec<String> {
    let row = replica.get("Port", A.parse().unwrap()).unwrap();
    row.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

fn update(kind: &str, columns: Value) -> Value {
    json!({"Port": {A: {kind: columns}}})
}

#[test]
fn columns_left_out_have_their_defaults() {
    let mut replica = replica();
    apply(&mut replica, Version::Difference, &update("initial", json!({"tag": 7}))).unwrap();
    assert_eq!(row(&replica), ["ids={}", "name=\"\"", "tag=7", "trunks=[]"]);
    assert_eq!((replica.len("Port"), replica.len("Bridge"), replica.is_empty()), (1, 0, false));
}

#[test]
fn a_modify_replaces_small_columns_and_differs_large_ones() {
    let mut replica = replica();
    let first =
        json!({"name": "p", "tag": 7, "trunks": ["set", [1, 2]], "ids": ["map", [["a", "1"], ["b", "2"]]]});
    apply(&mut replica, Version::Difference, &update("insert", first)).unwrap();
    let second =
        json!({"tag": ["set", []], "trunks": ["set", [2, 3]], "ids": ["map", [["a", "1"], ["b", "3"]]]});
    let changes = apply(&mut replica, Version::Difference, &update("modify", second)).unwrap();
    assert_eq!(row(&replica), ["ids={\"b\"=\"3\"}", "name=\"p\"", "tag=[]", "trunks=[1, 3]"]);
    let [RowChange { old: Some(old), new: Some(new), .. }] = &changes[..] else { panic!("one change") };
    assert_eq!((old.get("tag"), new.get("tag")), (Some(&7.into()), Some(&Datum::empty())));
    assert_eq!((new.table(), new.get("other")), ("Port", None));
    // An optional column takes the value that the difference carries, as it is.
    apply(&mut replica, Version::Difference, &update("modify", json!({"tag": 8}))).unwrap();
    apply(&mut replica, Version::Difference, &update("modify", json!({"tag": 9}))).unwrap();
    assert!(row(&replica).contains(&"tag=9".to_owned()));
    let changes = apply(&mut replica, Version::Difference, &update("delete", Value::Null)).unwrap();
    assert!(changes[0].old.is_some() && changes[0].new.is_none() && replica.is_empty());
}

#[test]
fn the_older_update_carries_whole_rows() {
    let mut replica = replica();
    let full = |tag: Value| json!({"name": "p", "tag": tag, "trunks": 5, "ids": ["map", []]});
    apply(&mut replica, Version::Whole, &json!({"Port": {A: {"new": full(json!(7))}}})).unwrap();
    let change = json!({"Port": {A: {"old": {"tag": 7}, "new": full(json!(["set", []]))}}});
    apply(&mut replica, Version::Whole, &change).unwrap();
    assert_eq!(row(&replica), ["ids={}", "name=\"p\"", "tag=[]", "trunks=5"]);
    apply(&mut replica, Version::Whole, &json!({"Port": {A: {"old": full(json!(["set", []]))}}})).unwrap();
    assert!(replica.is_empty());
}

#[test]
fn what_does_not_fit_is_named() {
    let cases = [
        (
            update("modify", json!({"tag": 1})),
            "row 00000000-0000-0000-0000-00000000000a of table Port changes and was not",
        ),
        (update("delete", Value::Null), "is deleted and was not there"),
        (update("insert", json!({"tag": "x"})), "Port.tag: expected integer, found string \"x\""),
        (update("insert", json!({"tag": ["set", [1, 2]]})), "expected 0 to 1 elements, found 2"),
        (update("insert", json!({"other": 1})), "column other of table Port is not monitored"),
        (update("insert", json!({"ids": ["map", [["a", "1"], ["a", "2"]]]})), "map holds key \"a\" twice"),
        (update("insert", json!([])), "an object with columns of table Port"),
        (update("new", json!({})), "\"new\" is no kind of row update"),
        (json!({"Port": {A: {}}}), "a row update says nothing"),
        (json!({"Port": {"x": {"delete": null}}}), "\"x\" is not a UUID"),
        (json!({"Bridge": {}}), "table Bridge is not monitored"),
        (json!([]), "an object with tables"),
    ];
    for (update, wanted) in cases {
        let why = apply(&mut replica(), Version::Difference, &update).unwrap_err().to_string();
        assert!(why.contains(wanted), "{update}: {why}");
    }
    let mut replica = replica();
    apply(&mut replica, Version::Difference, &update("insert", json!({}))).unwrap();
    let why = apply(&mut replica, Version::Difference, &update("initial", json!({}))).unwrap_err();
    assert!(why.to_string().contains("is inserted and was there"), "{why}");
}

#[test]
fn what_the_schema_lacks_is_named() {
    let new = |table, columns| Replica::new(&schema(), &[TableColumns::new(table, columns)]).unwrap_err();
    assert_eq!(
        new("Port", &["name", "nope"]).to_string(),
        "table Port of database Open_vSwitch (schema 8.3.1) has no column nope"
    );
    assert_eq!(new("Portx", &[]).to_string(), "database Open_vSwitch (schema 8.3.1) has no table Portx");
}

#[test]
fn a_table_that_comes_twice_is_monitored_once_with_all_columns() {
    let twice = [TableColumns::new("Port", &["name", "tag"]), TableColumns::new("Port", &["trunks", "name"])];
    let replica = Replica::new(&schema(), &twice).unwrap();
    let requests = serde_json::to_value(replica.requests()).unwrap();
    assert_eq!(requests, json!({"Port": [{"columns": ["name", "tag", "trunks"]}]}));
    assert_eq!(replica.tables().collect::<Vec<_>>(), ["Port"]);
}

/// A row of the model: tag, trunks, ids.
type Model = (Option<i64>, Vec<i64>, Vec<(String, String)>);

fn model() -> impl Strategy<Value = Model> {
    let trunks = proptest::collection::btree_set(0..6_i64, 0..5);
    let ids = proptest::collection::btree_map("[ab]", "[xy]", 0..3);
    (proptest::option::of(0..3_i64), trunks, ids)
        .prop_map(|(tag, trunks, ids)| (tag, trunks.into_iter().collect(), ids.into_iter().collect()))
}

fn columns((tag, trunks, ids): &Model) -> [(&'static str, Datum); 3] {
    let pairs = ids.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    [("tag", (*tag).into()), ("trunks", trunks.clone().into()), ("ids", Datum::from_pairs(pairs))]
}

/// The update that ovsdb-server would send, by either method.
fn sent(version: Version, old: Option<&Model>, new: Option<&Model>) -> Value {
    let all = |model: &Model| -> Value {
        let given =
            columns(model).map(|(name, value)| (name.to_owned(), serde_json::to_value(value).unwrap()));
        Value::Object(given.into_iter().collect())
    };
    match (version, old, new) {
        (Version::Difference, None, Some(new)) => json!({"insert": all(new)}),
        (Version::Difference, Some(old), Some(new)) => json!({"modify": modified(old, new)}),
        (Version::Difference, _, None) => json!({"delete": null}),
        (Version::Whole, None, Some(new)) => json!({"new": all(new)}),
        (Version::Whole, Some(old), Some(new)) => json!({"old": all(old), "new": all(new)}),
        (Version::Whole, Some(old), None) => json!({"old": all(old)}),
        (Version::Whole, None, None) => json!({}),
    }
}

fn modified(old: &Model, new: &Model) -> Value {
    let trunks: Vec<i64> = (0..6).filter(|n| old.1.contains(n) != new.1.contains(n)).collect();
    let gone = old.2.iter().filter(|(k, _)| !new.2.iter().any(|(other, _)| other == k));
    let come = new.2.iter().filter(|pair| !old.2.contains(pair));
    let ids: Vec<_> = gone.chain(come).map(|(k, v)| (Atom::from(k), Atom::from(v))).collect();
    let mut modified = serde_json::Map::new();
    if old.0 != new.0 {
        modified.insert("tag".into(), serde_json::to_value(Datum::from(new.0)).unwrap());
    }
    modified.insert("trunks".into(), serde_json::to_value(Datum::from(trunks)).unwrap());
    modified.insert("ids".into(), serde_json::to_value(Datum::from_pairs(ids)).unwrap());
    Value::Object(modified)
}

proptest! {
    #[test]
    fn a_history_leaves_what_the_model_holds(
        history in proptest::collection::vec((0..4_u8, proptest::option::weighted(0.8, model())), 0..24),
        difference: bool,
    ) {
        let version = if difference { Version::Difference } else { Version::Whole };
        let mut replica = replica();
        let mut follower = replica.clone();
        let mut model: BTreeMap<u8, Model> = BTreeMap::new();
        for (id, new) in history {
            let old = model.get(&id).cloned();
            if old.is_none() && new.is_none() || old == new {
                continue;
            }
            let uuid = Uuid::from_bytes([id; 16]).to_string();
            let update = json!({"Port": {uuid: sent(version, old.as_ref(), new.as_ref())}});
            let before = replica.clone();
            let changes = apply(&mut replica, version, &update).unwrap();
            changes.iter().for_each(|change| follower.follow(change));
            prop_assert_eq!(&replica.changes_since(&before), &changes);
            match new {
                Some(new) => drop(model.insert(id, new)),
                None => drop(model.remove(&id)),
            }
        }
        prop_assert_eq!(&follower, &replica);
        prop_assert_eq!(replica.len("Port"), model.len());
        for (id, wanted) in &model {
            let row = replica.get("Port", Uuid::from_bytes([*id; 16])).unwrap();
            for (column, value) in columns(wanted) {
                prop_assert_eq!(row.get(column), Some(&value));
            }
        }
    }
}

use super::*;
use crate::{Transaction, Uuid};

fn json(operation: &Operation) -> String {
    serde_json::to_string(operation).unwrap()
}

#[test]
fn operations_are_written_as_rfc_7047_says() {
    let row: Columns = [("name".to_owned(), Datum::from("br0"))].into();
    let table = || "Bridge".to_owned();
    let conditions = || vec![Condition::new("stp_enable", Comparison::NotEqual, true)];
    let cases = [
        (
            Operation::Insert { table: table(), row: row.clone(), uuid_name: Some("row0".into()) },
            r#"{"op":"insert","table":"Bridge","row":{"name":"br0"},"uuid-name":"row0"}"#,
        ),
        (
            Operation::Insert { table: table(), row: Columns::new(), uuid_name: None },
            r#"{"op":"insert","table":"Bridge","row":{}}"#,
        ),
        (
            Operation::Select {
                table: table(),
                conditions: conditions(),
                columns: Some(vec!["name".into()]),
            },
            r#"{"op":"select","table":"Bridge","where":[["stp_enable","!=",true]],"columns":["name"]}"#,
        ),
        (
            Operation::Select { table: table(), conditions: vec![], columns: None },
            r#"{"op":"select","table":"Bridge","where":[]}"#,
        ),
        (
            Operation::Update { table: table(), conditions: vec![], row: row.clone() },
            r#"{"op":"update","table":"Bridge","where":[],"row":{"name":"br0"}}"#,
        ),
        (
            Operation::Mutate {
                table: table(),
                conditions: vec![],
                mutations: vec![
                    Mutation::add("n", 1),
                    Mutation::insert("s", vec![1, 2]),
                    Mutation::delete("m", "k"),
                    Mutation::new("n", Mutator::Remainder, 3),
                ],
            },
            r#"{"op":"mutate","table":"Bridge","where":[],"mutations":[["n","+=",1],["s","insert",["set",[1,2]]],["m","delete","k"],["n","%=",3]]}"#,
        ),
        (
            Operation::Delete { table: table(), conditions: vec![Condition::uuid(Uuid::default())] },
            r#"{"op":"delete","table":"Bridge","where":[["_uuid","==",["uuid","00000000-0000-0000-0000-000000000000"]]]}"#,
        ),
        (
            Operation::Wait {
                table: table(),
                conditions: conditions(),
                columns: vec!["name".into()],
                until: Until::Equal,
                rows: vec![row],
                timeout: Some(0),
            },
            r#"{"op":"wait","table":"Bridge","where":[["stp_enable","!=",true]],"columns":["name"],"until":"==","rows":[{"name":"br0"}],"timeout":0}"#,
        ),
        (Operation::Commit { durable: true }, r#"{"op":"commit","durable":true}"#),
        (Operation::Abort {}, r#"{"op":"abort"}"#),
        (Operation::Comment { comment: "why".into() }, r#"{"op":"comment","comment":"why"}"#),
        (Operation::Assert { lock: "one".into() }, r#"{"op":"assert","lock":"one"}"#),
    ];
    for (operation, wanted) in &cases {
        assert_eq!(json(operation), *wanted);
        assert!(wanted.contains(&format!("\"op\":\"{}\"", operation.name())));
        assert_eq!(operation.table().is_some(), wanted.contains("\"table\""));
    }
}

#[test]
fn every_comparison_has_its_sign() {
    let signs = [
        (Comparison::Less, "<"),
        (Comparison::LessOrEqual, "<="),
        (Comparison::Equal, "=="),
        (Comparison::NotEqual, "!="),
        (Comparison::GreaterOrEqual, ">="),
        (Comparison::Greater, ">"),
        (Comparison::Includes, "includes"),
        (Comparison::Excludes, "excludes"),
    ];
    for (comparison, sign) in signs {
        let written = serde_json::to_string(&Condition::new("c", comparison, 1)).unwrap();
        assert_eq!(written, format!("[\"c\",\"{sign}\",1]"));
    }
}

#[test]
fn new_rows_are_referred_to_by_name() {
    let mut txn = Transaction::new();
    let interface = txn.insert("Interface", [("name", "p".into())]);
    txn.insert("Port", [("name", "p".into()), ("interfaces", interface.into())]);
    let written: Vec<String> = txn.operations().iter().map(json).collect();
    assert_eq!(
        written,
        [
            r#"{"op":"insert","table":"Interface","row":{"name":"p"},"uuid-name":"row0"}"#,
            r#"{"op":"insert","table":"Port","row":{"interfaces":["named-uuid","row0"],"name":"p"},"uuid-name":"row1"}"#,
        ]
    );
}

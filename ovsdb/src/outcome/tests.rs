use super::*;
use serde_json::value::to_raw_value;

fn read(operations: &[Operation], json: &str) -> Result<Result<Vec<OpResult>, OperationError>, RpcError> {
    let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
    Shape::of(operations).read(&raw)
}

fn operations() -> Vec<Operation> {
    let table = || "Bridge".to_owned();
    vec![
        Operation::Insert { table: table(), row: Columns::new(), uuid_name: None },
        Operation::Delete { table: table(), conditions: vec![] },
        Operation::Select { table: table(), conditions: vec![], columns: None },
        Operation::Abort {},
    ]
}

const INSERTED: &str = r#"{"uuid":["uuid","550e8400-e29b-41d4-a716-446655440000"]}"#;

#[test]
fn results_are_read_by_their_operations() {
    // A column may be called "error", as Interface's is.
    let json = format!(r#"[{INSERTED},{{"count":2}},{{"rows":[{{"error":"x","n":1}}]}},{{}}]"#);
    let row = Columns::from([("error".into(), "x".into()), ("n".into(), 1.into())]);
    let uuid = "550e8400-e29b-41d4-a716-446655440000".parse().unwrap();
    assert_eq!(
        read(&operations(), &json),
        Ok(Ok(vec![OpResult::Inserted(uuid), OpResult::Count(2), OpResult::Rows(vec![row]), OpResult::Done]))
    );
}

#[test]
fn the_operation_that_failed_is_named() {
    let json = format!(
        r#"[{INSERTED},{{"error":"constraint violation","details":"9999 is not in the valid range"}},null,null]"#
    );
    let error = read(&operations(), &json).unwrap().unwrap_err();
    assert_eq!(
        (error.operation, error.name, error.table.as_deref()),
        (Some(1), Some("delete"), Some("Bridge"))
    );
    assert_eq!(
        error.to_string(),
        "operation 1 (delete) failed: constraint violation at Bridge: 9999 is not in the valid range"
    );
}

#[test]
fn a_commit_that_failed_is_told_from_an_operation() {
    let json = format!(
        r#"[{INSERTED},{{"count":1}},{{"rows":[]}},{{}},{{"error":"referential integrity violation","details":"Table Bridge column ports row 1 references nonexistent row 2 in table Port."}}]"#
    );
    let error = read(&operations(), &json).unwrap().unwrap_err();
    assert_eq!((error.operation, error.kind.clone()), (None, ErrorKind::ReferentialIntegrity));
    assert_eq!((error.table.as_deref(), error.column.as_deref()), (Some("Bridge"), Some("ports")));
    assert!(error.to_string().starts_with("referential integrity violation at Bridge.ports: "));
}

#[test]
fn answers_of_another_shape_are_named() {
    let cases = [
        ("[]", "lacks the result of an operation"),
        ("{}", "result of a transaction cannot be read"),
        (r#"[{"count":1},null,null,null]"#, "result 0 (insert) cannot be read"),
        (r#"[{"uuid":"x"},null,null,null]"#, "expected a uuid, found string"),
        (r#"[{"uuid":["set",[]]},null,null,null]"#, "result 0 (insert) cannot be read"),
        (
            r#"[{"uuid":["uuid","550e8400-e29b-41d4-a716-446655440000"]},{"count":-1},{},{}]"#,
            "result 1 (delete)",
        ),
        (
            r#"[{"uuid":["uuid","550e8400-e29b-41d4-a716-446655440000"]},{"count":1},{"rows":[]},{},{}]"#,
            "more results than operations",
        ),
    ];
    for (json, wanted) in cases {
        let why = read(&operations(), json).unwrap_err().to_string();
        assert!(why.contains(wanted), "{json}: {why}");
    }
}

/// What OVS 3.1 says, and the names in it.
#[test]
fn tables_and_columns_are_found_in_the_words_of_the_server() {
    let cases = [
        ("No column nam in table Bridge.", Some("Bridge"), Some("nam")),
        ("Parsing ovsdb operation 1 of 1 failed: No table named Foo.", Some("Foo"), None),
        (
            "Transaction causes multiple rows in \"Bridge\" table to have identical values (a) for index on \
             column \"name\".  First row, with UUID 1, was inserted by this transaction.",
            Some("Bridge"),
            Some("name"),
        ),
        (
            "Type mismatch: \"<\" operator may not be applied to column ovs_version of type set of up to 1 strings.",
            None,
            Some("ovs_version"),
        ),
        ("Cannot update immutable column name in table Bridge.", Some("Bridge"), Some("name")),
        ("cannot delete Port row 1 because of 1 remaining reference(s)", Some("Port"), None),
        ("nope is not a valid column name", None, Some("nope")),
        ("no table named Portx", Some("Portx"), None),
        ("9999 is not in the valid range 0 to 4095 (inclusive)", None, None),
        ("", None, None),
        ("table", None, None),
        ("column", None, None),
        ("table named", None, None),
    ];
    for (details, table, column) in cases {
        assert_eq!(table_in(details).as_deref(), table, "{details}");
        assert_eq!(column_in(details).as_deref(), column, "{details}");
    }
}

#[test]
fn an_error_can_be_a_bare_word() {
    let word: ErrorJson = serde_json::from_str("\"unknown method\"").unwrap();
    assert!(word.is_unknown_method());
    let error = word.explain();
    assert_eq!(error.to_string(), "unknown method");
    let full = to_raw_value(&serde_json::json!({"error": "not owner", "syntax": "{}"})).unwrap();
    let full: ErrorJson = serde_json::from_str(full.get()).unwrap();
    assert!(!full.is_unknown_method());
    assert_eq!(full.explain().kind, ErrorKind::NotOwner);
}

#[test]
fn kinds_keep_the_words_of_the_server() {
    for word in [
        "constraint violation",
        "referential integrity violation",
        "timed out",
        "aborted",
        "not owner",
        "unknown column",
        "unknown database",
        "syntax error",
        "duplicate uuid-name",
        "domain error",
        "range error",
        "resources exhausted",
        "I/O error",
        "something else",
    ] {
        let kind = ErrorKind::from(word);
        assert_eq!(kind.to_string(), word);
        assert_eq!(matches!(kind, ErrorKind::Other(_)), word == "something else");
    }
}

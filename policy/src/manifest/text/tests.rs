use serde_json::json;

use super::*;

/// Number, place in a list, and name or error of each document.
fn summary(syntax: Syntax, text: &str) -> Vec<String> {
    read(syntax, text)
        .into_iter()
        .map(|document| {
            let item = document.item.map(|item| format!("[{item}]")).unwrap_or_default();
            let content = match document.content {
                Ok(value) => value.get("name").unwrap_or(&value).to_string(),
                Err(error) => error.to_string(),
            };
            format!("{}{item} {content}", document.number)
        })
        .collect()
}

fn yaml(text: &str) -> Vec<String> {
    summary(Syntax::Yaml, text)
}

#[test]
fn the_end_of_the_name_tells_the_syntax() {
    for (name, syntax) in [
        ("a.yaml", Some(Syntax::Yaml)),
        ("a.b.yml", Some(Syntax::Yaml)),
        ("a.json", Some(Syntax::Json)),
        ("a.yaml~", None),
        (".a.yaml", None),
        (".yaml", None),
        ("yaml", None),
        ("a.YAML", None),
        ("#a.yaml#", None),
        ("", None),
    ] {
        assert_eq!(Syntax::of(name), syntax, "{name}");
    }
}

#[test]
fn documents_are_counted_as_yaml_counts_them() {
    assert_eq!(yaml(""), [""; 0]);
    assert_eq!(yaml("# nothing\n\n"), [""; 0]);
    assert_eq!(yaml("name: a"), ["1 \"a\""]);
    assert_eq!(yaml("---\nname: a\n---\nname: b\n"), ["1 \"a\"", "2 \"b\""]);
    assert_eq!(yaml("# licence\n---\nname: a\n---\n# empty\n---\nname: c\n"), ["1 \"a\"", "3 \"c\""]);
    assert_eq!(yaml("name: a\n---\nname: b"), ["1 \"a\"", "2 \"b\""]);
    assert_eq!(yaml("%YAML 1.2\n---\nname: a\n...\n---\nname: b\n...\n"), ["1 \"a\"", "2 \"b\""]);
    assert_eq!(
        yaml("--- {name: a}\n--- # here\nname: b\n---\t{name: c}\n"),
        ["1 \"a\"", "2 \"b\"", "3 \"c\""]
    );
    assert_eq!(yaml("name: a\r\n---\r\nname: b\r\n"), ["1 \"a\"", "2 \"b\""]);
    assert_eq!(yaml("\u{feff}name: a"), ["1 \"a\""]);
}

#[test]
fn a_name_is_a_text_even_where_yaml_once_had_a_boolean() {
    assert_eq!(yaml("name: y\n---\nname: on\n---\nname: true\n"), ["1 \"y\"", "2 \"on\"", "3 true"]);
}

#[test]
fn dashes_within_a_document_do_not_end_it() {
    assert_eq!(yaml("name: |\n  ---\n  x\n"), ["1 \"---\\nx\\n\""]);
    assert_eq!(yaml("---name: a\n"), ["1 {\"---name\":\"a\"}"]);
    assert_eq!(yaml("----\n"), ["1 \"----\""]);
}

#[test]
fn a_broken_document_costs_no_other_and_tells_its_line_in_the_file() {
    let documents = yaml("name: a\n---\nname: b\n bad: [\n---\nname: c\n---\nx: 1\nx: 2\n");
    assert_eq!(documents[0], "1 \"a\"");
    assert!(documents[1].starts_with("2 line 4: "), "{documents:?}");
    assert_eq!(documents[2], "3 \"c\"");
    assert_eq!(documents[3], "4 line 9: duplicate mapping key `x` is not allowed here");
    assert_eq!(documents.len(), 4);
}

#[test]
fn a_bomb_of_aliases_is_an_error() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        text += &format!("a{level}: &a{level} [{before}]\n");
    }
    let documents = read(Syntax::Yaml, &text);
    assert_eq!(documents.len(), 1);
    assert!(documents[0].content.is_err());
}

#[test]
fn scalars_are_those_of_yaml_1_2() {
    let value = json!({"a": "yes", "b": true, "c": 80, "d": "080", "e": null, "f": 1.5, "g": "2001-01-01"});
    let documents = read(Syntax::Yaml, "a: yes\nb: true\nc: 80\nd: \"080\"\ne: ~\nf: 1.5\ng: 2001-01-01\n");
    assert_eq!(documents, [Document { number: 1, item: None, content: Ok(value) }]);
}

#[test]
fn json_is_one_value_after_another() {
    assert_eq!(summary(Syntax::Json, ""), [""; 0]);
    assert_eq!(summary(Syntax::Json, r#"{"name": "a"} {"name": "b"}"#), ["1 \"a\"", "2 \"b\""]);
    assert_eq!(
        summary(Syntax::Json, "{\"name\": \"a\"}\n{\"name\": \n\n}\n{\"name\": \"c\"}"),
        ["1 \"a\"", "2 line 4: expected value"]
    );
}

#[test]
fn a_list_counts_as_its_items() {
    let text = "kind: List\nitems:\n- {name: a}\n- {name: b}\n---\nname: c\n";
    assert_eq!(yaml(text), ["1[0] \"a\"", "1[1] \"b\"", "2 \"c\""]);
    assert_eq!(yaml("kind: List\nitems: []\n"), [""; 0]);
    assert_eq!(yaml("kind: PodList\nitems: null\n"), [""; 0]);
    assert_eq!(yaml("kind: PodList\nitems: {a: b}\n"), ["1 items: a PodList has an array here"]);
}

#[test]
fn an_item_of_a_typed_list_gets_the_lists_kind() {
    let text =
        r#"{"apiVersion": "v1", "kind": "PodList", "items": [{"a": 1}, {"kind": "X", "apiVersion": "y"}]}"#;
    let values: Vec<_> = read(Syntax::Json, text).into_iter().map(|document| document.content).collect();
    assert_eq!(
        values,
        [Ok(json!({"a": 1, "kind": "Pod", "apiVersion": "v1"})), Ok(json!({"kind": "X", "apiVersion": "y"}))]
    );
}

#[test]
fn a_large_document_is_no_bomb() {
    let documents = read(Syntax::Yaml, &format!("name: [{}]", "1,".repeat(260_000)));
    assert_eq!(documents.len(), 1);
    let values = documents[0].content.as_ref().map(|value| value["name"].as_array().map(Vec::len));
    assert_eq!(values, Ok(Some(260_000)));
}

#[test]
fn a_field_of_an_item_tells_the_item() {
    assert_eq!(path(None, "spec"), "spec");
    assert_eq!(path(Some(3), "spec.ports[0]"), "items[3].spec.ports[0]");
    assert_eq!(path(Some(3), ""), "items[3]");
}

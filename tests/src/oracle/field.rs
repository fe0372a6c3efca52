//! Fields of manifests. A null is an absent field, as in Kubernetes.

use serde_json::Value;

/// A field that is there.
pub(super) fn given<'v>(value: &'v Value, field: &str) -> Option<&'v Value> {
    value.get(field).filter(|value| !value.is_null())
}

/// A string below a path of fields.
pub(super) fn text<'v>(value: &'v Value, path: &[&str]) -> Option<&'v str> {
    below(value, path)?.as_str()
}

/// What is below a path of fields.
pub(super) fn below<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    let mut value = value;
    for field in path {
        value = given(value, field)?;
    }
    Some(value)
}

/// The elements of a list; none when it is absent; None when it is something else.
pub(super) fn elements<'v>(value: &'v Value, field: &str) -> Option<&'v [Value]> {
    match given(value, field) {
        None => Some(&[]),
        Some(list) => list.as_array().map(Vec::as_slice),
    }
}

/// The elements of a list below a path; none when there is no list.
pub(super) fn all<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    below(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// None unless the value is an object without other fields than these.
pub(super) fn only(value: &Value, known: &[&str]) -> Option<()> {
    let fields = value.as_object()?;
    for field in fields.keys() {
        if !known.contains(&field.as_str()) {
            return None;
        }
    }
    Some(())
}

/// A number from 1 to 65535.
pub(super) fn port_number(value: &Value) -> Option<u16> {
    let number = u16::try_from(value.as_u64()?).ok()?;
    (number != 0).then_some(number)
}

/// The name of an object: lower-case letters, digits, `-` and `.` between letters or digits (RFC 1123).
pub(super) fn own_name(object: &Value) -> Option<&str> {
    let name = text(object, &["metadata", "name"])?;
    let is_edge = |byte: Option<u8>| matches!(byte, Some(b'a'..=b'z' | b'0'..=b'9'));
    let known = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'));
    (known && is_edge(name.bytes().next()) && is_edge(name.bytes().last()) && name.len() <= 253)
        .then_some(name)
}

/// The value of an annotation.
pub(super) fn annotation<'v>(object: &'v Value, key: &str) -> Option<&'v Value> {
    below(object, &["metadata", "annotations", key])
}

/// Whether a policy is only watched, not enforced.
pub(super) fn is_audit(policy: &Value) -> bool {
    annotation(policy, "fabric.io/mode").and_then(Value::as_str) == Some("audit")
}

//! Labels and selectors.

use serde_json::Value;

use super::field::{below, elements, given, only, text};

/// Whether the selector selects the object by its labels; None when the selector cannot be read.
pub(super) fn selects(selector: &Value, object: &Value) -> Option<bool> {
    only(selector, &["matchLabels", "matchExpressions"])?;
    let mut all = true;
    if let Some(wanted) = given(selector, "matchLabels") {
        for (key, value) in wanted.as_object()? {
            all &= label(object, key) == Some(value.as_str()?);
        }
    }
    for expression in elements(selector, "matchExpressions")? {
        all &= meets(expression, object)?;
    }
    Some(all)
}

/// The value of a label. Every namespace has the label `kubernetes.io/metadata.name`.
fn label<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    if key == "kubernetes.io/metadata.name" && text(object, &["kind"]) == Some("Namespace") {
        return text(object, &["metadata", "name"]);
    }
    below(object, &["metadata", "labels", key])?.as_str()
}

/// Whether the object meets one element of `matchExpressions`; None when that cannot be read.
fn meets(expression: &Value, object: &Value) -> Option<bool> {
    only(expression, &["key", "operator", "values"])?;
    let key = given(expression, "key")?.as_str()?;
    if key.is_empty() {
        return None;
    }
    let mut values = Vec::new();
    for value in elements(expression, "values")? {
        values.push(value.as_str()?);
    }
    let value = label(object, key);
    match (given(expression, "operator")?.as_str()?, values.is_empty()) {
        ("In", false) => Some(value.is_some_and(|value| values.contains(&value))),
        ("NotIn", false) => Some(!value.is_some_and(|value| values.contains(&value))),
        ("Exists", true) => Some(value.is_some()),
        ("DoesNotExist", true) => Some(value.is_none()),
        _ => None,
    }
}

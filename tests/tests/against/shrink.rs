//! Small worlds for large failures.

use serde_json::Value;

/// Leaves out what is not needed for `fails`: whole objects first, then parts of what is left.
pub fn shrink(manifests: Vec<Value>, fails: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut small = manifests;
    loop {
        let before = small.clone();
        without_objects(&mut small, &fails);
        without_parts(&mut small, &fails);
        if small == before {
            return small;
        }
    }
}

fn without_objects(small: &mut Vec<Value>, fails: &impl Fn(&[Value]) -> bool) {
    let mut at = 0;
    while at < small.len() {
        let mut fewer = small.clone();
        fewer.remove(at);
        if fails(&fewer) { *small = fewer } else { at += 1 }
    }
}

/// Takes away labels, annotations, and elements and fields within `spec`, one at a time.
fn without_parts(small: &mut Vec<Value>, fails: &impl Fn(&[Value]) -> bool) {
    for object in 0..small.len() {
        let mut skipped = 0;
        loop {
            let mut paths = Vec::new();
            for part in ["/spec", "/metadata/labels", "/metadata/annotations", "/status"] {
                let inner = small.get(object).and_then(|object| object.pointer(part));
                inner.inspect(|inner| list(inner, part, &mut paths));
            }
            let Some(path) = paths.get(skipped) else { break };
            let mut fewer = small.clone();
            fewer.get_mut(object).into_iter().for_each(|object| cut(object, path));
            if fails(&fewer) { *small = fewer } else { skipped += 1 }
        }
    }
}

/// The pointers to all elements and fields within a value, outer ones first.
fn list(value: &Value, path: &str, paths: &mut Vec<String>) {
    let mut within = |key: String, inner: &Value| {
        let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        paths.push(path.clone());
        list(inner, &path, paths);
    };
    match value {
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(index, inner)| within(index.to_string(), inner));
        }
        Value::Object(fields) => fields.iter().for_each(|(key, inner)| within(key.clone(), inner)),
        _ => {}
    }
}

fn cut(object: &mut Value, path: &str) {
    let Some((parent, key)) = path.rsplit_once('/') else { return };
    match object.pointer_mut(parent) {
        Some(Value::Array(values)) => {
            let at = key.parse().unwrap_or(values.len());
            if at < values.len() {
                values.remove(at);
            }
        }
        Some(Value::Object(fields)) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
        _ => {}
    }
}

/// The manifests, one a line.
pub fn lines(manifests: &[Value]) -> String {
    manifests.iter().map(|manifest| format!("{manifest}\n")).collect()
}

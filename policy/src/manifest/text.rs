//! The text of a file to its manifests.
//!
//! YAML is cut into documents at lines that begin with `---`, which YAML 1.2 (§9.1.2)
//! reserves for that wherever they stand, so that one broken document costs no other.
//! JSON is one value after another. A `List`, and the typed lists that the API server
//! answers with (`PodList`), count as their items.

use serde_json::Value;

/// One manifest of a file, or what stands in its place.
#[derive(Debug, PartialEq)]
pub struct Document {
    /// Number of the document in the file, from 1.
    pub number: usize,
    /// Place within a list, from 0, for an item of one.
    pub item: Option<usize>,
    /// The manifest.
    pub content: Result<Value, Unreadable>,
}

/// Why a document is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct Unreadable {
    /// Line of the file, from 1, where it could be told.
    pub line: Option<usize>,
    /// What is wrong there.
    pub message: String,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// One or more documents of YAML 1.2.
    Yaml,
    /// One or more values of JSON.
    Json,
}

impl Syntax {
    /// By the end of the file's name; None for a file that holds no manifests.
    pub fn of(name: &str) -> Option<Syntax> {
        if name.starts_with('.') {
            return None;
        }
        match name.rsplit_once('.')?.1 {
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// The path of a manifest's field within its document: that of an item of a list begins with `items[N]`.
pub fn path(item: Option<usize>, field: &str) -> String {
    match (item, field.is_empty()) {
        (None, _) => field.to_owned(),
        (Some(index), true) => format!("items[{index}]"),
        (Some(index), false) => format!("items[{index}].{field}"),
    }
}

/// The manifests of a text, in order.
pub fn read(syntax: Syntax, text: &str) -> Vec<Document> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    match syntax {
        Syntax::Yaml => read_yaml(text, &mut documents),
        Syntax::Json => read_json(text, &mut documents),
    }
    documents
}

fn read_yaml(text: &str, documents: &mut Vec<Document>) {
    let mut number = 0;
    for chunk in cut(text) {
        let blank = is_blank(chunk.text);
        // What stands before the first `---` is a document only if something stands there.
        if blank && !chunk.marked {
            continue;
        }
        number += 1;
        if !blank {
            match parse_yaml(&chunk) {
                Ok(Value::Null) => {}
                content => expand(number, content, documents),
            }
        }
    }
}

/// A piece of a YAML stream that is one document.
struct Chunk<'a> {
    text: &'a str,
    /// Lines of the file before it.
    lines_before: usize,
    /// Whether a `---` begins it.
    marked: bool,
}

fn cut(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let (mut start, mut lines_before, mut marked) = (0, 0, false);
    let (mut offset, mut lines) = (0, 0);
    for line in text.split_inclusive('\n') {
        let is_mark = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if is_mark {
            chunks.push(Chunk { text: text.get(start..offset).unwrap_or_default(), lines_before, marked });
            // The mark stays with its document: content may follow it on the same line.
            (start, lines_before, marked) = (offset, lines, true);
        }
        offset += line.len();
        lines += 1;
    }
    chunks.push(Chunk { text: text.get(start..).unwrap_or_default(), lines_before, marked });
    chunks
}

/// Whether there are only comments, marks and directives.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let rest = line.strip_prefix("---").or_else(|| line.strip_prefix("...")).unwrap_or(line).trim();
        rest.is_empty() || rest.starts_with('#') || line.starts_with('%')
    })
}

fn parse_yaml(chunk: &Chunk<'_>) -> Result<Value, Unreadable> {
    // A document without aliases has no more events than bytes; aliases have a limit of their own.
    let most = chunk.text.len().saturating_mul(2).saturating_add(1_000_000);
    let options = serde_saphyr::options! {
        // YAML 1.2 §10.3.2: only true and false are booleans; a pod may be called y.
        strict_booleans: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        budget: serde_saphyr::budget! { max_events: most, max_nodes: most, max_total_scalar_bytes: most },
    };
    serde_saphyr::from_str_with_options(chunk.text, options).map_err(|error| {
        let place = error.location();
        let text = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
        let suffix =
            place.map(|at| format!(" at line {}, column {}", at.line(), at.column())).unwrap_or_default();
        Unreadable {
            line: place.and_then(|at| usize::try_from(at.line()).ok()).map(|line| line + chunk.lines_before),
            message: text.strip_suffix(suffix.as_str()).unwrap_or(&text).to_owned(),
        }
    })
}

fn read_json(text: &str, documents: &mut Vec<Document>) {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    for (index, value) in values.enumerate() {
        let content = value.map_err(|error| Unreadable {
            line: (error.line() > 0).then_some(error.line()),
            message: without_place(&error),
        });
        expand(index + 1, content, documents);
    }
}

fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(suffix.as_str()).unwrap_or(&text).to_owned()
}

/// Adds a document, or the items of the list that it is.
fn expand(number: usize, content: Result<Value, Unreadable>, documents: &mut Vec<Document>) {
    let list = match content {
        Ok(Value::Object(list)) => list,
        content => return documents.push(Document { number, item: None, content }),
    };
    let item_kind = list.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List"));
    let Some(item_kind) = item_kind.map(str::to_owned) else {
        return documents.push(Document { number, item: None, content: Ok(Value::Object(list)) });
    };
    let mut list = list;
    let api_version = list.remove("apiVersion");
    match list.remove("items") {
        Some(Value::Array(items)) => {
            for (index, item) in items.into_iter().enumerate() {
                let content = Ok(typed(item, &item_kind, api_version.as_ref()));
                documents.push(Document { number, item: Some(index), content });
            }
        }
        // `items: null` is how an empty list is often written.
        None | Some(Value::Null) => {}
        Some(_) => {
            let message = format!("items: a {item_kind}List has an array here");
            documents.push(Document { number, item: None, content: Err(Unreadable { line: None, message }) });
        }
    }
}

/// An item of a typed list leaves out its own kind and version: they are those of the list.
fn typed(mut item: Value, kind: &str, api_version: Option<&Value>) -> Value {
    if let (Value::Object(fields), false) = (&mut item, kind.is_empty()) {
        fields.entry("kind").or_insert_with(|| Value::from(kind));
        if let Some(version) = api_version {
            fields.entry("apiVersion").or_insert_with(|| version.clone());
        }
    }
    item
}

#[cfg(test)]
mod tests;

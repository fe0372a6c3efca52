//! A reader over a manifest that knows where it is: what it cannot read it reports with the path of the
//! field.

use std::cell::RefCell;
use std::fmt;

use serde_json::Value;

use super::problem::{Problem, Source};
use crate::digest::Digest;
use crate::name::{Name, ObjectRef};

/// Something could not be read, and has been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reported;

/// What was read, or the fact that it could not be.
pub(super) type Read<T> = Result<T, Reported>;

/// Collects the problems of one manifest.
pub(super) struct Gate {
    source: Source,
    object: RefCell<Option<ObjectRef>>,
    problems: RefCell<Vec<Problem>>,
}

impl Gate {
    pub(super) fn new(source: &Source) -> Gate {
        Gate { source: source.clone(), object: RefCell::default(), problems: RefCell::default() }
    }

    /// The problems are about this object, those found before too.
    pub(super) fn name(&self, object: ObjectRef) {
        for problem in self.problems.borrow_mut().iter_mut() {
            problem.object = Some(object.clone());
        }
        *self.object.borrow_mut() = Some(object);
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    fn report(&self, field: String, message: String) -> Reported {
        let problem =
            Problem { source: self.source.clone(), object: self.object.borrow().clone(), field, message };
        let mut problems = self.problems.borrow_mut();
        if !problems.contains(&problem) {
            problems.push(problem);
        }
        Reported
    }
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

/// What a value says, whatever the order of its members.
fn fingerprint(value: &Value) -> u64 {
    let digest = match value {
        Value::Array(elements) => Digest::new().list(&elements.iter().map(fingerprint).collect::<Vec<_>>()),
        Value::Object(fields) => {
            let member = |(key, value): (&String, &Value)| {
                Digest::new().text(key).list(&[fingerprint(value)]).finish()
            };
            Digest::new().set(fields.iter().map(member).collect())
        }
        scalar => Digest::new().text(&scalar.to_string()),
    };
    digest.finish()
}

/// A place in a manifest.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    gate: &'a Gate,
    value: &'a Value,
    path: Option<(&'a At<'a>, Step<'a>)>,
}

/// A null counts as absent, as in Kubernetes.
static ABSENT: Value = Value::Null;

impl<'a> At<'a> {
    /// The whole manifest.
    pub(super) fn root(gate: &'a Gate, value: &'a Value) -> At<'a> {
        At { gate, value, path: None }
    }

    fn step<'s>(&'s self, step: Step<'s>, value: &'s Value) -> At<'s> {
        At { gate: self.gate, value, path: Some((self, step)) }
    }

    /// Reports that this place is not what it should be: `message` says what is wrong and what is wanted.
    pub(super) fn fail(&self, message: impl Into<String>) -> Reported {
        self.gate.report(self.to_string(), message.into())
    }

    fn wanted(&self, what: &str) -> Reported {
        let found = match self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(found) => found.to_string(),
            Value::Number(found) => format!("the number {found}"),
            Value::String(found) => format!("{found:?}"),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        };
        self.fail(format!("found {found}, wanted {what}"))
    }

    /// A string is wanted: of something that YAML takes for a number or a truth value, the quotes may be all
    /// that lacks.
    fn wanted_text(&self, what: &str) -> Reported {
        match self.value {
            Value::Bool(_) | Value::Number(_) => self.wanted(&format!("{what}; a text goes in quotes")),
            _ => self.wanted(what),
        }
    }

    fn member<'s>(&'s self, step: Step<'s>) -> Read<At<'s>> {
        let (Step::Field(key) | Step::Key(key)) = step else { return Err(self.wanted("an object")) };
        match self.value {
            Value::Object(fields) => Ok(self.step(step, fields.get(key).unwrap_or(&ABSENT))),
            Value::Null => Ok(self.step(step, &ABSENT)),
            _ => Err(self.wanted("an object")),
        }
    }

    /// Reads a field that must be there.
    pub(super) fn need<T>(&self, field: &str, read: impl FnOnce(&At<'_>) -> Read<T>) -> Read<T> {
        let at = self.member(Step::Field(field))?;
        if at.value.is_null() { Err(at.fail("is missing")) } else { read(&at) }
    }

    /// Reads a field that may be absent.
    pub(super) fn optional<T>(&self, field: &str, read: impl FnOnce(&At<'_>) -> Read<T>) -> Read<Option<T>> {
        let at = self.member(Step::Field(field))?;
        if at.value.is_null() { Ok(None) } else { read(&at).map(Some) }
    }

    /// Reads a member whose key is data, such as an annotation.
    pub(super) fn keyed<T>(&self, key: &str, read: impl FnOnce(&At<'_>) -> Read<T>) -> Read<Option<T>> {
        let at = self.member(Step::Key(key))?;
        if at.value.is_null() { Ok(None) } else { read(&at).map(Some) }
    }

    /// Reads a field as it is, also when it is absent.
    pub(super) fn within<T>(&self, field: &str, read: impl FnOnce(&At<'_>) -> Read<T>) -> Read<T> {
        read(&self.member(Step::Field(field))?)
    }

    /// A name for what stands here, which no object of Kubernetes can have.
    pub(super) fn stand_in(&self) -> Name {
        Name::from(format!("(unnamed {:016x})", fingerprint(self.value)))
    }

    /// Whether a field is there.
    pub(super) fn has(&self, field: &str) -> bool {
        self.value.get(field).is_some_and(|value| !value.is_null())
    }

    /// Reports every field that is not one of `known`: it may be a slip, or mean something that is not
    /// understood.
    pub(super) fn only(&self, known: &[&str]) -> Read<()> {
        let Value::Object(fields) = self.value else { return Err(self.wanted("an object")) };
        let strangers = fields.keys().filter(|key| !known.contains(&key.as_str()));
        let mut outcome = Ok(());
        for key in strangers {
            let at = self.step(Step::Field(key), &ABSENT);
            outcome =
                Err(at.fail(format!("is not a field that Fabric knows here: it knows {}", known.join(", "))));
        }
        outcome
    }

    /// Reads every element of a list, in order; an element's failure is the list's, after the others are read
    /// too.
    pub(super) fn list<T>(&self, read: impl Fn(&At<'_>) -> Read<T>) -> Read<Vec<T>> {
        self.each(read)?.into_iter().collect::<Vec<_>>().into_iter().collect()
    }

    /// Reads the elements of a list that can be read, in order.
    pub(super) fn those<T>(&self, read: impl Fn(&At<'_>) -> Read<T>) -> Read<Vec<T>> {
        Ok(self.each(read)?.into_iter().flatten().collect())
    }

    /// Reads a list, with the outcome for each element.
    pub(super) fn each<T>(&self, read: impl Fn(&At<'_>) -> Read<T>) -> Read<Vec<Read<T>>> {
        let Value::Array(elements) = self.value else { return Err(self.wanted("a list")) };
        let outcome = |(index, value)| read(&self.step(Step::Index(index), value));
        Ok(elements.iter().enumerate().map(outcome).collect())
    }

    /// Reads every member of an object whose keys are data, in the order of the keys.
    pub(super) fn members<T>(&self, read: impl Fn(&str, &At<'_>) -> Read<T>) -> Read<Vec<T>> {
        let Value::Object(fields) = self.value else { return Err(self.wanted("an object")) };
        let outcome = |(key, value): (&String, _)| read(key, &self.step(Step::Key(key), value));
        fields.iter().map(outcome).collect::<Vec<_>>().into_iter().collect()
    }

    /// A string.
    pub(super) fn text(&self) -> Read<&'a str> {
        self.value.as_str().ok_or_else(|| self.wanted_text("a string"))
    }

    /// A string of one of the spellings.
    pub(super) fn one_of<T: Copy>(&self, spellings: &[(&str, T)]) -> Read<T> {
        let text = self.value.as_str();
        let found = spellings.iter().find(|(spelling, _)| Some(*spelling) == text);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let spellings: Vec<&str> = spellings.iter().map(|(spelling, _)| *spelling).collect();
            self.wanted_text(&format!("one of {}", spellings.join(", ")))
        })
    }

    /// true or false.
    pub(super) fn boolean(&self) -> Read<bool> {
        self.value.as_bool().ok_or_else(|| self.wanted("true or false"))
    }

    /// A whole number within bounds, both included.
    pub(super) fn number<T: TryFrom<u64>>(&self, lowest: u64, highest: u64) -> Read<T> {
        let number = self.value.as_u64().filter(|number| (lowest..=highest).contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| self.wanted(&format!("a number from {lowest} to {highest}")))
    }

    /// A string that `parse` understands; `what` says what it should be.
    pub(super) fn parsed<T>(&self, what: &str, parse: impl FnOnce(&str) -> Option<T>) -> Read<T> {
        self.value.as_str().and_then(parse).ok_or_else(|| self.wanted_text(what))
    }

    pub(super) fn is_list(&self) -> bool {
        self.value.is_array()
    }

    pub(super) fn is_number(&self) -> bool {
        self.value.is_number()
    }
}

impl fmt::Display for At<'_> {
    /// `spec.ingress[0].from`, `metadata.annotations[fabric.io/ip]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((parent, step)) = self.path else { return Ok(()) };
        parent.fmt(f)?;
        match step {
            Step::Field(field) if parent.path.is_none() => f.write_str(field),
            Step::Field(field) => write!(f, ".{field}"),
            Step::Key(key) => write!(f, "[{key}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

use policy::manifest::{Source, admit};
use serde_json::json;

use super::*;

/// A namespace in a form that `digest` stands for.
fn namespace(name: &str, digest: u64) -> Found {
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace",
                          "metadata": {"name": name, "labels": {"form": digest.to_string()}}});
    let object = admit(&Source::file("x.yaml", 1), manifest).object.expect("a sound manifest");
    Found { object, digest, place: "x.yaml#2".to_owned() }
}

fn reference(name: &str) -> ObjectRef {
    namespace(name, 0).object.reference()
}

/// A book, and what a reader of its changes knows.
#[derive(Default)]
struct Reader {
    book: Book,
    known: BTreeMap<String, Object>,
}

impl Reader {
    /// Reads a file; the edits as text, and the files to be read again.
    fn reads(&mut self, file: &str, objects: Vec<Found>, unread: Vec<Unread>) -> (Vec<String>, Vec<String>) {
        let mut changes = Changes::default();
        let contents = Contents { objects, unread, problems: Vec::new() };
        let again = self.book.apply(&file.into(), contents, &mut changes);
        (self.edit(changes), again.iter().map(ToString::to_string).collect())
    }

    fn removes(&mut self, file: &str) -> (Vec<String>, Vec<String>) {
        let mut changes = Changes::default();
        let again = self.book.remove(&file.into(), &mut changes);
        (self.edit(changes), again.iter().map(ToString::to_string).collect())
    }

    fn edit(&mut self, changes: Changes) -> Vec<String> {
        let edits = changes.into_edits().into_iter().map(|edit| match edit {
            Edit::Put(object) => {
                let name = object.reference().name.to_string();
                self.known.insert(name.clone(), object);
                format!("+{name}")
            }
            Edit::Remove(reference) => {
                let name = reference.name.to_string();
                assert!(self.known.remove(&name).is_some(), "{name} goes, but was not there");
                format!("-{name}")
            }
        });
        edits.collect()
    }
}

fn said(edits: &[&str], again: &[&str]) -> (Vec<String>, Vec<String>) {
    let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    (own(edits), own(again))
}

#[test]
fn what_is_as_it_was_is_no_edit() {
    let mut reader = Reader::default();
    assert_eq!(
        reader.reads("a", vec![namespace("x", 1), namespace("y", 1)], vec![]),
        said(&["+x", "+y"], &[])
    );
    assert_eq!(reader.reads("a", vec![namespace("y", 2), namespace("x", 1)], vec![]), said(&["+y"], &[]));
    assert_eq!(reader.reads("a", vec![namespace("z", 1)], vec![]), said(&["+z", "-x", "-y"], &[]));
    assert_eq!(reader.removes("a"), said(&["-z"], &[]));
    assert_eq!(reader.removes("a"), said(&[], &[]));
}

#[test]
fn the_first_of_two_in_a_file_is_in_force() {
    let mut reader = Reader::default();
    reader.reads("a", vec![namespace("x", 1), namespace("x", 2)], vec![]);
    assert_eq!(reader.known["x"], namespace("x", 1).object);
    let problems: Vec<_> = reader.book.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "x.yaml#2: Namespace x: the object is in this file before, and that one is in force; remove one of them"
        ]
    );
}

#[test]
fn a_file_whose_object_comes_into_force_is_read_again() {
    let mut reader = Reader::default();
    reader.reads("a", vec![namespace("x", 1)], vec![]);
    assert_eq!(reader.reads("b", vec![namespace("x", 2)], vec![]), said(&[], &[]));
    assert_eq!(reader.reads("c", vec![namespace("x", 3)], vec![]), said(&[], &[]));
    assert_eq!(reader.reads("a", vec![], vec![]), said(&[], &["b"]));
    // It lacks the object by now, so the next one's comes into force.
    assert_eq!(reader.reads("b", vec![], vec![]), said(&[], &["c"]));
    assert_eq!(reader.reads("c", vec![namespace("x", 3)], vec![]), said(&["+x"], &[]));
    assert_eq!(reader.removes("c"), said(&["-x"], &[]));
}

#[test]
fn an_object_that_another_file_has_in_force_is_told_in_that_form_even_if_it_went_back() {
    let mut reader = Reader::default();
    reader.reads("b", vec![namespace("x", 1)], vec![]);
    assert_eq!(reader.reads("a", vec![namespace("x", 2)], vec![]), said(&["+x"], &[]));
    assert_eq!(reader.removes("a"), said(&[], &["b"]));
    assert_eq!(reader.reads("b", vec![namespace("x", 1)], vec![]), said(&["+x"], &[]));
    assert_eq!(reader.known["x"], namespace("x", 1).object);
}

#[test]
fn a_shadowed_object_that_goes_is_no_edit() {
    let mut reader = Reader::default();
    reader.reads("a", vec![namespace("x", 1)], vec![]);
    reader.reads("b", vec![namespace("x", 2)], vec![]);
    assert_eq!(reader.book.problems().len(), 1);
    assert_eq!(reader.removes("b"), said(&[], &[]));
    assert!(reader.book.problems().is_empty());
}

#[test]
fn a_document_that_cannot_be_read_at_all_keeps_what_the_file_lost() {
    let mut reader = Reader::default();
    reader.reads("a", vec![namespace("x", 1), namespace("y", 1)], vec![]);
    assert_eq!(reader.reads("a", vec![namespace("y", 2)], vec![Unread::Anything]), said(&["+y"], &[]));
    assert_eq!(reader.reads("a", vec![], vec![Unread::Anything]), said(&[], &[]));
    assert_eq!(reader.reads("a", vec![namespace("x", 1)], vec![]), said(&["-y"], &[]));
    assert_eq!(reader.removes("a"), said(&["-x"], &[]));
}

#[test]
fn a_refused_object_keeps_itself_only() {
    let mut reader = Reader::default();
    reader.reads("a", vec![namespace("x", 1), namespace("y", 1)], vec![]);
    let refused = Unread::Object(reference("x"));
    assert_eq!(reader.reads("a", vec![], vec![refused.clone()]), said(&["-y"], &[]));
    assert_eq!(reader.reads("a", vec![], vec![refused]), said(&[], &[]));
    assert_eq!(reader.reads("a", vec![], vec![]), said(&["-x"], &[]));
}

#[test]
fn a_misspelt_kind_keeps_the_object_of_that_name() {
    let mut reader = Reader::default();
    let named = |name: &str| Unread::Named { namespace: None, name: name.to_owned() };
    reader.reads("a", vec![namespace("x", 1), namespace("y", 1)], vec![]);
    assert_eq!(reader.reads("a", vec![], vec![named("x")]), said(&["-y"], &[]));
    assert_eq!(
        reader.reads("a", vec![], vec![named("x"), named("z")]),
        said(&[], &[]),
        "as long as it is so"
    );
    assert_eq!(reader.reads("a", vec![], vec![named("z")]), said(&["-x"], &[]));
}

#[test]
fn what_always_stood_beside_an_object_does_not_keep_it() {
    let mut reader = Reader::default();
    let deployment = Unread::Named { namespace: None, name: "x".to_owned() };
    reader.reads("a", vec![namespace("x", 1)], vec![deployment.clone()]);
    assert_eq!(reader.reads("a", vec![], vec![deployment]), said(&["-x"], &[]));
}

#[test]
fn a_file_that_cannot_be_read_keeps_all_and_is_one_problem() {
    let mut reader = Reader::default();
    reader.reads("a", vec![namespace("x", 1)], vec![]);
    let problem = Problem {
        source: "a".to_owned(),
        object: None,
        field: String::new(),
        message: "not UTF-8".to_owned(),
    };
    reader.book.unreadable(&"a".into(), problem.clone());
    assert_eq!(reader.book.problems(), [problem]);
    assert_eq!(reader.reads("a", vec![namespace("x", 1)], vec![]), said(&[], &[]));
    assert!(reader.book.problems().is_empty());
}

//! A lab with one namespace, `f`, and questions between its pods by their names.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Bed, Finding, Question, ask, object};
use crate::oracle::Answer;

/// Between two questions.
const PACE: Duration = Duration::from_millis(3);
/// For an answer.
const PATIENCE: Duration = Duration::from_millis(800);
/// The Network.
const CIDRS: [&str; 2] = ["10.70.0.0/16", "fd70::/64"];
/// The port that policies of these tests open.
pub const OPEN: u16 = 8080;

/// The addresses of a place by its number.
#[must_use]
pub fn ips(place: u16) -> [IpAddr; 2] {
    let [high, low] = place.to_be_bytes();
    [format!("10.70.{high}.{low}").parse().unwrap(), format!("fd70::{place:x}").parse().unwrap()]
}

/// A pod of the namespace.
#[must_use]
pub fn pod(name: &str, node: &str, place: u16, labels: Value) -> Value {
    object::pod(&format!("f/{name}"), node, labels, &ips(place))
}

/// A lab with the namespace `f` and these objects beside.
#[must_use]
pub fn lab(purpose: &str, nodes: usize, objects: Vec<Value>) -> Bed {
    lab_with(purpose, nodes, json!({}), objects)
}

/// As [`lab`], with fields for the agents.
#[must_use]
pub fn lab_with(purpose: &str, nodes: usize, config: Value, objects: Vec<Value>) -> Bed {
    let own = [object::network(&CIDRS), object::namespace("f", json!({}), json!({}))];
    let mut bed = Bed::up(purpose, nodes, config, own.into_iter().chain(objects).collect());
    bed.applied();
    bed
}

/// A question by the names of both ends.
#[must_use]
pub fn question(bed: &Bed, from: &str, to: &str, v4: bool, protocol: u8, port: u16) -> Question {
    let like: IpAddr = if v4 { "0.0.0.0".parse().unwrap() } else { "::".parse().unwrap() };
    let (from_address, to_address) = (bed.place(from).address(like), bed.place(to).address(like));
    Question { from: from.to_owned(), from_address, to_address, protocol, port }
}

/// What comes of questions.
#[must_use]
pub fn asked(bed: &Bed, questions: &[Question]) -> Vec<Finding> {
    ask(bed, questions, PACE, |_| PATIENCE)
}

/// Every question has this answer.
pub fn assert_all(bed: &Bed, questions: &[Question], wanted: Answer) {
    for (question, finding) in questions.iter().zip(asked(bed, questions)) {
        assert_eq!(finding.answer(), Some(wanted), "{question}: {finding:?}");
    }
}

//! The interface as others see it: JSON.

use fabric_api::{Problem, State, Status, World};

#[test]
fn a_status_is_this_json_and_back() {
    let text = include_str!("status.json");
    let status: Status = serde_json::from_str(text).expect("a status");
    assert_eq!(status.state, State::Degraded);
    assert_eq!(format!("{}\n", serde_json::to_string_pretty(&status).expect("JSON")), text);
    let kinds = status.world.by_kind().map(|(_, number)| number);
    assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_reader_takes_what_another_version_says() {
    let status: Status = serde_json::from_str(r#"{"node": "n1", "moods": ["fine"]}"#).expect("a status");
    assert_eq!(status, Status { node: "n1".to_owned(), ..Status::default() });
    let world: World = serde_json::from_str("{}").expect("a world");
    assert_eq!(world, World::default());
}

#[test]
fn a_problem_reads_from_the_outside_in() {
    let whole = Problem {
        source: "a.yaml#1".to_owned(),
        object: None,
        field: String::new(),
        message: "bad".to_owned(),
    };
    assert_eq!(whole.to_string(), "a.yaml#1: bad");
    let part = Problem { object: Some("Pod x/y".to_owned()), field: "spec.z".to_owned(), ..whole };
    assert_eq!(part.to_string(), "a.yaml#1: Pod x/y: spec.z: bad");
}

use super::*;
use crate::serve::sample::sample;

#[test]
fn a_status_reads_like_this() {
    assert_eq!(status(&sample(), Duration::from_secs(8_500)), include_str!("tests/sample.txt"));
}

#[test]
fn an_agent_that_has_just_begun_reads_like_this() {
    let begun = Status {
        attachments: Vec::new(),
        audited: Vec::new(),
        denied: Vec::new(),
        drops: Default::default(),
        flows: Default::default(),
        leases: Vec::new(),
        paths: Vec::new(),
        problems: Vec::new(),
        policy: Default::default(),
        pools: Vec::new(),
        punts: Vec::new(),
        state: fabric_api::State::Starting,
        store: fabric_api::Store { synced: false, ..sample().store },
        switch: fabric_api::Switch { bridge: "br-fabric".to_owned(), ..Default::default() },
        waiting_for: vec!["the first list of the store".to_owned(), "Open vSwitch".to_owned()],
        world: Default::default(),
        ..sample()
    };
    assert_eq!(status(&begun, Duration::from_secs(1_003)), include_str!("tests/begun.txt"));
}

#[test]
fn an_age_has_two_units_at_most() {
    let ages = [0, 59, 60, 3_599, 3_600, 86_399, 86_400, 900_000].map(|seconds| Age(seconds).to_string());
    let texts =
        ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "23 h 59 min", "1 d 0 h", "10 d 10 h"];
    assert_eq!(ages, texts);
}

//! The flow-mods of the recorded vectors: match and actions decode, print as `ovs-ofctl` prints
//! them, are read back from that text, and become the same bytes again.

// Helpers of tests may fail like tests.
#![allow(clippy::unwrap_used)]

use openflow::action::{decode_instructions, encode_instructions, same_actions};
use openflow::{Flow, FlowFlags, Match, Reader, Writer};

#[derive(serde::Deserialize)]
struct Vector {
    cmd: String,
    version: u8,
    #[serde(rename = "type")]
    kind: u8,
    hex: String,
    text: String,
}

const FLOW_MOD: u8 = 14;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn vectors() -> Vec<Vector> {
    let all = include_str!("vectors/openflow.jsonl").lines();
    let all = all.map(|line| serde_json::from_str::<Vector>(line).unwrap());
    all.filter(|v| v.kind == FLOW_MOD).collect()
}

/// The match and the instructions of a flow-mod, whose fixed part is 48 bytes long.
fn parts(message: &[u8]) -> &[u8] {
    &message[48..]
}

#[test]
fn flow_mods_become_the_same_bytes() {
    let vectors = vectors();
    assert!(vectors.len() >= 250, "only {} flow-mods", vectors.len());
    for v in &vectors {
        let message = bytes(&v.hex);
        let mut r = Reader::new(parts(&message));
        let matches = Match::decode(&mut r).unwrap_or_else(|e| panic!("{}: {e}", v.cmd));
        let actions = decode_instructions(&mut r, v.version).unwrap_or_else(|e| panic!("{}: {e}", v.cmd));
        assert!(!format!("{actions:?}").contains("Raw"), "{}: {actions:?}", v.cmd);
        let mut w = Writer::new();
        matches.encode(&mut w, v.version);
        encode_instructions(&mut w, &actions, v.version);
        assert_eq!(w.as_slice(), parts(&message), "{} as {matches} {actions:?}", v.cmd);
    }
}

#[test]
fn flow_mods_print_as_recorded_and_are_read_back() {
    // For a match on `ct_nw_src` and `tp_dst` without their protocols `ovs-ofctl` prints an error.
    for v in vectors().iter().filter(|v| !v.text.contains("decode error")) {
        let message = bytes(&v.hex);
        let mut r = Reader::new(parts(&message));
        let flow = Flow {
            table: message[24],
            priority: u16::from_be_bytes([message[30], message[31]]),
            cookie: u64::from_be_bytes(message[8..16].try_into().unwrap()),
            idle_timeout: u16::from_be_bytes([message[26], message[27]]),
            hard_timeout: u16::from_be_bytes([message[28], message[29]]),
            flags: FlowFlags(u16::from_be_bytes([message[44], message[45]])),
            matches: Match::decode(&mut r).unwrap(),
            actions: decode_instructions(&mut r, v.version).unwrap(),
        };
        let recorded = v.text.split_once("actions=").unwrap().1.trim_end();
        let mut printed = String::new();
        openflow::action::write_actions(&mut printed, &flow.actions).unwrap();
        assert_eq!(printed, recorded, "{}", v.cmd);
        let rule = flow.matches.to_string();
        assert!(v.text.contains(&rule), "{rule} is not in {}", v.text);
        let text = flow.to_string();
        let again: Flow = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(again.to_string(), text);
        assert!(same_actions(&again.actions, &flow.actions), "{text}: {again:?}, {flow:?}");
        assert_eq!(again, Flow { actions: again.actions.clone(), ..flow }, "{text}");
    }
}

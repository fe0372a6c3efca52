//! What `ovs-ofctl` and `ovs-vswitchd` 3.1 said to each other, message by message: each decodes, prints as
//! `ovs-ofctl ofp-print` prints it, and encodes to the same bytes; kinds that are not modelled survive as they are.
#![allow(clippy::expect_used, clippy::panic)] // a failed expectation is a failed test

use openflow::message::{Body, Message, Reply, Request};
use serde::Deserialize;

/// Messages of OpenFlow 1.3 and 1.5 in the recording whose kinds are modelled.
const MODELLED: usize = 434;
/// The others.
const RAW: usize = 41;

#[derive(Deserialize)]
struct Vector {
    cmd: String,
    version: u8,
    hex: String,
    text: String,
}

fn vectors() -> impl Iterator<Item = Vector> {
    include_str!("vectors/openflow.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Vector>(line).expect("a vector per line"))
        .filter(|vector| matches!(vector.version, 4 | 6))
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex digits")).collect()
}

fn is_raw(message: &Message) -> bool {
    match &message.body {
        Body::Raw { .. } => true,
        Body::Error(error) => Message::decode(&error.data).is_ok_and(|quoted| is_raw(&quoted)),
        Body::MultipartRequest(request) => matches!(request.body, Request::Raw { .. }),
        Body::MultipartReply(reply) => matches!(reply.body, Reply::Raw { .. }),
        _ => false,
    }
}

#[test]
fn every_recorded_message_survives() {
    let mut modelled = 0;
    let mut raw = 0;
    let mut wrong = Vec::new();
    for vector in vectors() {
        let wire = bytes(&vector.hex);
        let message = match Message::decode(&wire) {
            Ok(message) => message,
            Err(error) => {
                wrong.push(format!("{}: {error}\n{}", vector.cmd, vector.text));
                continue;
            }
        };
        let again = message.encode();
        if again != wire {
            wrong.push(format!(
                "{}\n{}\n  was {}\n  is  {}",
                vector.cmd,
                vector.text,
                vector.hex,
                hex(&again)
            ));
        }
        if is_raw(&message) {
            raw += 1;
            continue;
        }
        modelled += 1;
        let text = message.to_string();
        if text != vector.text {
            wrong.push(format!("{}\n{}\n  was\n{}\n  is\n{text}", vector.cmd, vector.hex, vector.text));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n\n"));
    assert_eq!((modelled, raw), (MODELLED, RAW));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

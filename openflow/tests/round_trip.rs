//! Whatever flow: its text is read back, its bytes are read back, and the two agree.

// Helpers of tests may fail like tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common {
    pub mod flows;
}

use common::flows::{Rng, flow};
use openflow::action::{canonical_actions, decode_instructions, encode_instructions};
use openflow::{Flow, FlowMod, FlowTable, Match, OF13, OF15, Reader, Writer};
use proptest::prelude::*;

fn generated(seed: u64) -> Flow {
    let text = flow(&mut Rng::new(seed));
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// The flow as its bytes say it.
fn through_bytes(flow: &Flow, version: u8) -> Flow {
    let mut w = Writer::new();
    flow.matches.encode(&mut w, version);
    encode_instructions(&mut w, &flow.actions, version);
    let mut r = Reader::new(w.as_slice());
    let matches = Match::decode(&mut r).unwrap();
    let actions = decode_instructions(&mut r, version).unwrap();
    Flow { matches, actions, ..flow.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_is_read_back(seed: u64) {
        let flow = generated(seed);
        let text = flow.to_string();
        let again: Flow = text.parse().unwrap();
        prop_assert_eq!(again.to_string(), text);
        prop_assert_eq!(canonical(again), canonical(flow));
    }

    #[test]
    fn bytes_are_read_back(seed: u64) {
        let flow = generated(seed);
        let read = through_bytes(&flow, OF15);
        prop_assert_eq!(canonical(read.clone()), canonical(flow.clone()));
        prop_assert_eq!(&read, &through_bytes(&read, OF15));
        let old = through_bytes(&flow, OF13);
        prop_assert_eq!(&old, &through_bytes(&old, OF13));
    }

    /// A switch that holds what was asked for needs no change.
    #[test]
    fn a_dump_of_the_same_flows_is_no_difference(seed: u64) {
        let desired: FlowTable = (0..8).map(|n| generated(seed.wrapping_add(n))).collect();
        let installed: FlowTable = desired.iter().map(|flow| through_bytes(flow, OF15)).collect();
        prop_assert_eq!(FlowTable::diff(&installed, &desired), Vec::<FlowMod>::new());
    }

    #[test]
    fn no_flow_text_panics(seed: u64, cut in 0usize..300, noise in "\\PC{0,4}") {
        let mut text = flow(&mut Rng::new(seed));
        if let Some((at, _)) = text.char_indices().nth(cut) {
            text.truncate(at);
        }
        let _ = (text.clone() + &noise).parse::<Flow>();
        let _ = (noise + &text).parse::<Flow>();
    }
}

fn canonical(flow: Flow) -> Flow {
    Flow { actions: canonical_actions(flow.actions), ..flow }
}

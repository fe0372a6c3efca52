use proptest::prelude::*;

use super::{
    Action, ActionError, Controller, Ct, RawAction, canonical_actions, decode_actions, decode_instructions,
    encode_actions, encode_instructions, parse_actions, parse_actions_for, port, same_actions, write_actions,
};
use crate::field::{Field, Subfield};
use crate::wire::{DecodeError, Reader, Writer};
use crate::{OF13, OF15};

fn encode(actions: &[Action], version: u8) -> Vec<u8> {
    let mut w = Writer::new();
    encode_actions(&mut w, actions, version);
    w.into_vec()
}

fn decode(bytes: &[u8], version: u8) -> Result<Vec<Action>, DecodeError> {
    decode_actions(&mut Reader::new(bytes), version)
}

fn text(actions: &[Action]) -> String {
    let mut text = String::new();
    write_actions(&mut text, actions).unwrap();
    text
}

#[test]
fn names_that_stand_for_other_actions_become_them() {
    for (given, printed) in [
        ("drop", "drop"),
        ("strip_vlan", "pop_vlan"),
        ("enqueue:2:5", "set_queue:5,output:2,pop_queue"),
        ("mod_nw_tos:16", "set_field:4->ip_dscp"),
        ("mod_vlan_vid:7,mod_vlan_pcp:3", "push_vlan:0x8100,set_field:4103->vlan_vid,set_field:3->vlan_pcp"),
        ("set_tunnel:0x5", "set_field:0x5->tun_id"),
        ("controller", "CONTROLLER:65535"),
        ("controller(max_len=9)", "CONTROLLER:9"),
        ("7", "output:7"),
        ("LOCAL, normal", "LOCAL,NORMAL"),
        ("ct", "ct()"),
        ("resubmit(in_port,9)", "resubmit(,9)"),
        ("ct(nat(src))", "ct(nat(src))"),
        ("ct(nat(dst=[fd00::1]-[fd00::9]:80-90,hash))", "ct(nat(dst=[fd00::1]-[fd00::9]:80-90,hash))"),
    ] {
        let parsed = parse_actions(given).unwrap_or_else(|e| panic!("{given}: {e}"));
        assert_eq!(text(&parsed), printed);
    }
    let udp = "udp,dl_vlan=5".parse().unwrap();
    let parsed = parse_actions_for("mod_tp_dst:53,mod_vlan_vid:7", &udp).unwrap();
    assert_eq!(text(&parsed), "set_field:53->udp_dst,set_field:4103->vlan_vid");
}

#[test]
fn wrong_text_says_what_would_be_right() {
    let error = |given: &str| parse_actions(given).unwrap_err();
    assert_eq!(error("fly:3"), ActionError::Unknown("fly".into()));
    assert_eq!(error("drop,output:1"), ActionError::DropAndMore);
    for bad in [
        "output:nowhere",
        "resubmit(,)",
        "resubmit(1,2,tc)",
        "load:256->reg0[0..7]",
        "load:->reg0",
        "move:reg0[]->reg1[0]",
        "ct(force)",
        "ct(nat(src=1.2.3.4,dst=1.2.3.4))",
        "ct(nat(random))",
        "ct(nat(src=10.0.0.9-10.0.0.1))",
        "ct(nat(src=10.0.0.1:9-1))",
        "ct(nat(src=10.0.0.1-fd00::1))",
        "ct(zone=reg0[0..40])",
        "push_vlan:0x0800",
        "conjunction(1,3/2)",
        "conjunction(1)",
        "note:1",
        "check_pkt_larger(9)->reg0[0..1]",
        "goto_table:256",
        "multipath(a,1,hrw,4,0,reg0)",
        "multipath(eth_src,1,hrw,0,0,reg0[])",
        "bundle(eth_src,0,hrw,ofport)",
        "sample(probability=0)",
        "learn(load:300->reg0[0..7])",
        "learn(reg0[0..3]=reg1[])",
        "mod_nw_tos:3",
        "mod_vlan_vid:4096",
        "set_field:1->nosuch",
        "set_field:1/2->nw_proto",
        "controller(meter_id=x)",
        "raw_action:0102",
        "enqueue:1",
    ] {
        assert!(parse_actions(bad).is_err(), "{bad} is taken");
    }
    assert!("drop".parse::<Action>().is_err() && "exit,exit".parse::<Action>().is_err());
    let deep = format!("{}exit{}", "clone(".repeat(40), ")".repeat(40));
    assert_eq!(parse_actions(&deep), Err(ActionError::TooDeep));
}

#[test]
fn a_plain_controller_action_is_an_output() {
    let plain = Action::Controller(Controller { max_len: 128, ..Controller::default() });
    let output = Action::Output { port: port::CONTROLLER, max_len: 128 };
    assert_eq!(encode(std::slice::from_ref(&plain), OF15), encode(std::slice::from_ref(&output), OF15));
    assert!(same_actions(&[plain], &[output]));
}

#[test]
fn what_a_switch_shows_otherwise_counts_as_the_same() {
    for (ours, shown) in [
        ("load:0x10->NXM_NX_REG0[4..11]", "set_field:0x100/0xff0->reg0"),
        ("load:0x5->NXM_NX_REG0[]", "set_field:0x5->reg0"),
        ("note:11.22", "note:11.22.00.00.00.00"),
        ("goto_table:5,output:1", "output:1,goto_table:5"),
        ("ct(commit,exec(load:0x1->NXM_NX_CT_MARK[]))", "ct(commit,exec(set_field:0x1->ct_mark))"),
    ] {
        let (ours, shown) = (parse_actions(ours).unwrap(), parse_actions(shown).unwrap());
        assert_ne!(ours, shown);
        assert!(same_actions(&ours, &shown), "{} and {}", text(&ours), text(&shown));
    }
    assert!(!same_actions(&[Action::Exit], &[]));
}

#[test]
fn masked_fields_become_loads_of_runs_in_openflow_13() {
    let actions = [Action::set_masked(Field::REG3, 0x0f05_u32, 0xff0f_u32)];
    let found = decode(&encode(&actions, OF13), OF13).unwrap();
    assert_eq!(text(&found), "load:0x5->NXM_NX_REG3[0..3],load:0xf->NXM_NX_REG3[8..15]");
    let label = [Action::set_masked(Field::CT_LABEL, u128::MAX, u128::MAX >> 1)];
    let found = decode(&encode(&label, OF13), OF13).unwrap();
    assert_eq!(found.len(), 2);
}

#[test]
fn unknown_actions_and_instructions_stay_as_they_are() {
    let bytes = [
        &[0xff, 0xff, 0, 16, 0, 0, 0x23, 0x20, 0x7f, 0xff, 1, 2, 3, 4, 5, 6][..],
        &[0x12, 0x34, 0, 8, 9, 9, 9, 9],
        &[0xff, 0xff, 0, 8, 0xde, 0xad, 0xbe, 0xef],
    ]
    .concat();
    let actions = decode(&bytes, OF15).unwrap();
    assert!(actions.iter().all(|a| matches!(a, Action::Raw(RawAction { instruction: false, .. }))));
    assert_eq!(encode(&actions, OF15), bytes);
    assert_eq!(parse_actions(&text(&actions)).unwrap(), actions);

    let bytes = [0x77, 0x77, 0, 8, 1, 2, 3, 4];
    let found = decode_instructions(&mut Reader::new(&bytes), OF15).unwrap();
    let mut w = Writer::new();
    encode_instructions(&mut w, &found, OF15);
    assert_eq!(w.as_slice(), bytes);
    assert_eq!(parse_actions(&text(&found)).unwrap(), found);
}

#[test]
fn a_known_action_with_an_unknown_field_stays_as_it_is() {
    // move:NXM_NX_TUN_METADATA0[0..7]->NXM_NX_REG0[0..7]
    let bytes =
        [0, 28, 0, 24, 0, 8, 0, 0, 0, 0, 0, 0, 0x00, 0x01, 0x50, 0x04, 0x00, 0x01, 0x00, 0x04, 0, 0, 0, 0];
    let actions = decode(&bytes, OF15).unwrap();
    assert!(matches!(actions[..], [Action::Raw(_)]));
    assert_eq!(encode(&actions, OF15), bytes);
}

#[test]
fn bad_actions_are_named() {
    let error = |bytes: &[u8]| decode(bytes, OF15).unwrap_err();
    assert_eq!(error(&[0]), DecodeError::MissingData("action"));
    assert_eq!(error(&[0, 0, 0, 0, 0, 0, 0, 0]), DecodeError::BadLength { what: "action", length: 0 });
    assert_eq!(
        error(&[0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0]),
        DecodeError::BadLength { what: "action", length: 12 }
    );
    assert_eq!(error(&[0, 0, 0, 16, 0, 0, 0, 0]), DecodeError::MissingData("action"));
    assert_eq!(
        error(&[0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        DecodeError::BadLength { what: "group", length: 16 }
    );
    let mut reader = Reader::new(&[0, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let goto = decode_instructions(&mut reader, OF15).unwrap_err();
    assert_eq!(goto, DecodeError::BadLength { what: "instruction", length: 16 });
}

#[test]
fn nesting_has_an_end() {
    let mut actions = vec![Action::Exit];
    for _ in 0..40 {
        actions = vec![Action::Clone(actions)];
    }
    assert_eq!(decode(&encode(&actions, OF15), OF15), Err(DecodeError::TooDeep("actions")));
}

#[test]
fn a_meter_is_an_instruction_or_an_action() {
    let actions = parse_actions("meter:3,output:1").unwrap();
    for version in [OF13, OF15] {
        let mut w = Writer::new();
        encode_instructions(&mut w, &actions, version);
        let found = decode_instructions(&mut Reader::new(w.as_slice()), version).unwrap();
        assert_eq!(found, actions);
    }
}

#[test]
fn whole_fields_are_set_without_a_mask() {
    let ct = Ct { commit: true, exec: vec![Action::set(Field::CT_MARK, 1u8)], ..Ct::default() };
    let bytes = encode(&[Action::Ct(ct.clone())], OF15);
    assert_eq!(decode(&bytes, OF15).unwrap(), [Action::Ct(ct)]);
    let load = Action::Load { dst: Subfield::whole(Field::REG1), value: 7 };
    assert_eq!(decode(&encode(&[load], OF15), OF15).unwrap(), [Action::set(Field::REG1, 7u8)]);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), version in prop_oneof![Just(OF13), Just(OF15)]) {
        let _ = decode(&bytes, version);
        let _ = decode_instructions(&mut Reader::new(&bytes), version);
    }

    /// Random bytes behind the header of a known kind: what decodes is stable from then on.
    #[test]
    fn what_decodes_is_stable(
        kind in prop_oneof![(0u16..30).prop_map(|n| (None, n)), (0u16..52).prop_map(|n| (Some(0x2320u32), n))],
        mut body in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..80),
        version in prop_oneof![Just(OF13), Just(OF15)],
    ) {
        let mut w = Writer::new();
        match kind {
            (None, n) => { w.u16(n); w.u16(0); }
            (Some(vendor), n) => { w.u16(0xffff); w.u16(0); w.u32(vendor); w.u16(n); }
        }
        let length = (w.len() + body.len()).next_multiple_of(8);
        body.resize(length - w.len(), 0);
        w.bytes(&body);
        w.patch_u16(2, u16::try_from(length).unwrap());
        if let Ok(actions) = decode(w.as_slice(), version) {
            let bytes = encode(&actions, version);
            let again = decode(&bytes, version).unwrap();
            prop_assert_eq!(canonical_actions(again.clone()), canonical_actions(actions.clone()));
            prop_assert_eq!(encode(&again, version), bytes);
            prop_assert_eq!(text(&again), text(&actions));
        }
    }

    #[test]
    fn no_text_panics(text in "[a-z_]{1,10}[:(=][a-z0-9A-Z_,.\\[\\]()>=/-]{0,24}\\)?") {
        let _ = parse_actions(&text);
    }
}

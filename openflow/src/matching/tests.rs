use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::{Match, NXM};
use crate::field::Field;
use crate::wire::{DecodeError, Reader, Writer};
use crate::{OF13, OF15};

fn fields(matches: &Match, version: u8) -> Vec<u8> {
    let mut w = Writer::new();
    matches.encode_fields(&mut w, version);
    w.into_vec()
}

#[test]
fn order_and_spelling_do_not_matter() {
    let a =
        Match::new().with(Field::TCP_DST, 80u16).with(Field::ETH_TYPE, 0x0800u16).with(Field::IP_PROTO, 6u8);
    assert_eq!(a, "tp_dst=80,tcp".parse().unwrap());
    assert_eq!(a.to_string(), "tcp,tp_dst=80");
    assert_eq!(a.get(Field::TCP_DST), Some((80, 0xffff)));
    assert_eq!(a.get(Field::UDP_DST), None);
    assert_eq!(a.exact(Field::IP_PROTO), Some(6));
}

#[test]
fn values_lie_within_masks_and_a_zero_mask_removes() {
    let net = Match::new().with_mask(Field::IPV4_DST, Ipv4Addr::new(10, 1, 2, 3), 0xffff_0000u32);
    assert_eq!(net.get(Field::IPV4_DST), Some((0x0a01_0000, 0xffff_0000)));
    assert_eq!(net.clone().with_mask(Field::IPV4_DST, 0u8, 0u8), Match::new());
    assert_eq!(net.without(Field::IPV4_DST), Match::new());
}

#[test]
fn wide_registers_are_narrow_ones() {
    let wide = Match::new().with(Field::XREG1, 0x1_0000_0002u64);
    assert_eq!(wide, Match::new().with(Field::REG2, 1u8).with(Field::REG3, 2u8));
    assert_eq!(wide.get(Field::XREG1), Some((0x1_0000_0002, u128::from(u64::MAX))));
    assert_eq!(wide.get(Field::XXREG0), Some((0x1_0000_0002, u128::from(u64::MAX))));
    assert_eq!(wide.get(Field::XXREG1), None);
    assert_eq!(fields(&wide, OF15)[..4], [0x80, 0x01, 0x02, 0x08]);
    assert_eq!(fields(&wide, OF13)[..4], [0x00, 0x01, 0x04, 0x04]);
}

#[test]
fn names_for_parts_of_the_tag_add_up() {
    let tag = Match::new().with(Field::DL_VLAN, 5u8).with(Field::DL_VLAN_PCP, 3u8);
    assert_eq!(tag, Match::new().with(Field::VLAN_TCI, 0x7005u16));
    assert_eq!(tag, Match::new().with(Field::VLAN_PCP, 3u8).with(Field::VLAN_VID, 0x1005u16));
    assert_eq!(tag.to_string(), "dl_vlan=5,dl_vlan_pcp=3");
    let none = Match::new().with(Field::VLAN_TCI, 0u8);
    assert_eq!(none, Match::new().with(Field::DL_VLAN, 0xffffu16));
    assert_eq!(Match::decode_fields(&fields(&none, OF15)).unwrap(), none);
    assert_eq!(tag.without(Field::DL_VLAN).get(Field::VLAN_TCI), Some((0x6000, 0xe000)));
}

#[test]
fn ports_have_one_numbering() {
    let local = Match::new().with(Field::IN_PORT_NXM, 0xfffeu16);
    assert_eq!(local, Match::new().with(Field::IN_PORT, crate::port::LOCAL));
    assert_eq!(fields(&local, NXM), [0, 0, 0, 2, 0xff, 0xfe]);
    assert_eq!(local, "in_port=LOCAL".parse().unwrap());
}

#[test]
fn a_match_covers_what_is_within_it() {
    let wide: Match = "ip,nw_dst=10.0.0.0/8".parse().unwrap();
    let narrow: Match = "tcp,nw_dst=10.1.0.0/16".parse().unwrap();
    assert!(wide.covers(&narrow) && !narrow.covers(&wide) && Match::new().covers(&wide));
    let other: Match = "ip,nw_dst=11.0.0.0/8".parse().unwrap();
    assert!(!wide.covers(&other));
}

#[test]
fn unknown_fields_keep_their_place_and_bytes() {
    // in_port, an experimenter's field, a tun_metadata0 of 4 bytes with a mask, metadata.
    let bytes = [
        &[0x80, 0x00, 0x00, 0x04, 0, 0, 0, 7][..],
        &[0xff, 0xff, 0x02, 0x06, 0xde, 0xad, 0xbe, 0xef, 1, 2],
        &[0x00, 0x01, 0x51, 0x08, 1, 2, 3, 4, 0xff, 0xff, 0, 0],
        &[0x80, 0x00, 0x04, 0x08, 0, 0, 0, 0, 0, 0, 0, 9],
    ]
    .concat();
    let matches = Match::decode_fields(&bytes).unwrap();
    assert_eq!(matches.raw().len(), 2);
    assert_eq!(fields(&matches, OF15), bytes);
    assert_eq!(matches.to_string().parse::<Match>().unwrap().to_string(), matches.to_string());
    assert!(!matches.fits(|field| if field == Field::IN_PORT { 7 } else { 9 }));
}

#[test]
fn bad_matches_are_named() {
    let decode = |bytes: &[u8]| Match::decode(&mut Reader::new(bytes)).unwrap_err();
    assert_eq!(decode(&[0]), DecodeError::MissingData("Match.type"));
    assert_eq!(decode(&[0, 0, 0, 4]), DecodeError::BadValue { what: "Match.type", value: 0 });
    assert_eq!(decode(&[0, 1, 0, 3, 0, 0, 0, 0]), DecodeError::BadLength { what: "Match.length", length: 3 });
    assert_eq!(decode(&[0, 1, 0, 9, 0, 0, 0, 0]), DecodeError::MissingData("Match.fields"));
    assert_eq!(decode(&[0, 1, 0, 4]), DecodeError::MissingData("Match.padding"));
    let within = DecodeError::MissingData("Match.fields").within("FlowMod.match");
    assert_eq!(within.to_string(), "the bytes end inside FlowMod.match");
    // eth_type of one byte
    let short = [0, 1, 0, 9, 0x80, 0, 0x0a, 1, 8, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(decode(&short), DecodeError::BadLength { what: "field value", length: 1 });
    // an experimenter's header without the experimenter
    assert_eq!(
        Match::decode_fields(&[0xff, 0xff, 0, 2, 0, 0, 0, 0]).unwrap_err(),
        DecodeError::BadLength { what: "field header", length: 2 }
    );
}

fn any_match() -> impl Strategy<Value = Match> {
    let entry = (0..Field::all().count(), any::<u128>(), any::<u128>(), any::<bool>());
    proptest::collection::vec(entry, 0..12).prop_map(|entries| {
        entries.into_iter().fold(Match::new(), |all, (at, value, mask, exact)| {
            let field = Field::all().nth(at).unwrap();
            match exact || !field.maskable() {
                true => all.with(field, value & field.bits_mask()),
                false => all.with_mask(field, value, mask),
            }
        })
    })
}

proptest! {
    #[test]
    fn every_match_is_read_back(matches in any_match()) {
        // OXM cannot speak of a priority of a tag that may be absent.
        let matches = match matches.get(Field::VLAN_TCI) {
            Some((_, mask)) if mask & 0xe000 != 0 => matches.without(Field::VLAN_TCI),
            _ => matches,
        };
        for version in [OF13, OF15] {
            let again = Match::decode_fields(&fields(&matches, version)).unwrap();
            prop_assert_eq!(&again, &matches, "version {}", version);
        }
        let mut w = Writer::new();
        matches.encode(&mut w, OF15);
        let mut r = Reader::new(w.as_slice());
        prop_assert_eq!(Match::decode(&mut r).unwrap(), matches);
        prop_assert!(r.is_empty());
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..96)) {
        let _ = Match::decode(&mut Reader::new(&bytes));
        if let Ok(matches) = Match::decode_fields(&bytes) {
            let bytes = fields(&matches, OF15);
            prop_assert_eq!(Match::decode_fields(&bytes).unwrap().to_string(), matches.to_string());
        }
    }

    #[test]
    fn no_text_panics(text in "[a-z_]{1,9}(=|,)[a-z0-9/.:x+-]{0,12}(,ip)?") {
        let _ = text.parse::<Match>();
    }
}

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::registry::FIELDS;
use super::{Field, FieldError, Format, Mac, MaskRule, Subfield, format_masked, parse_masked};

fn text(field: Field, value: u128, mask: u128) -> String {
    let mut text = String::new();
    format_masked(&mut text, field, value, mask).unwrap();
    text
}

#[test]
fn names_and_code_points_are_unique() {
    let mut names = BTreeSet::new();
    let mut codes = BTreeSet::new();
    for field in Field::all() {
        assert!(names.insert(field.name()), "{field} is named twice");
        for code in FIELDS[usize::from(field.0)].codes {
            assert!(codes.insert((code.class, code.id, code.experimenter)), "{} is given twice", code.name);
            assert!(names.insert(code.name), "{} is named twice", code.name);
            assert_eq!(Field::by_code(code.class, code.id, code.experimenter), Some(field));
            assert_eq!(Field::by_name(code.name), Some(field));
        }
        assert_eq!(Field::by_name(field.name()), Some(field));
        assert!(usize::from(field.bits()) <= field.bytes() * 8, "{field}");
    }
    assert_eq!(Field::by_name(""), None);
}

#[test]
fn widths_of_addresses_and_ports_follow_their_form() {
    for field in Field::all() {
        let expected = match field.format() {
            Format::Ethernet => 6,
            Format::Ipv4 | Format::Port | Format::PacketType => 4,
            Format::Ipv6 => 16,
            Format::Port16 => 2,
            _ => field.bytes(),
        };
        assert_eq!(field.bytes(), expected, "{field}");
    }
}

#[test]
fn registers_are_numbered() {
    assert_eq!(Field::reg(3), Field::REG3);
    assert_eq!(Field::REG15.reg_number(), Some(15));
    assert_eq!(Field::XREG0.reg_number(), None);
    assert_eq!(Field::TUN_ID.reg_number(), None);
}

#[test]
fn the_code_point_depends_on_the_version() {
    let name = |field: Field, version| field.code(version).map(|c| c.name);
    assert_eq!(name(Field::ETH_SRC, 0), Some("NXM_OF_ETH_SRC"));
    assert_eq!(name(Field::ETH_SRC, 4), Some("OXM_OF_ETH_SRC"));
    assert_eq!(name(Field::TCP_FLAGS, 4), Some("ONFOXM_ET_TCP_FLAGS"));
    assert_eq!(name(Field::TCP_FLAGS, 6), Some("OXM_OF_TCP_FLAGS"));
    assert_eq!(name(Field::DP_HASH, 6), Some("NXM_NX_DP_HASH"));
    assert_eq!(name(Field::METADATA, 0), Some("OXM_OF_METADATA"));
    assert_eq!(name(Field::DL_VLAN, 6), None);
}

#[test]
fn ethernet_addresses_are_read_and_written() {
    let mac: Mac = "02:00:00:0a:0B:c".parse().unwrap();
    assert_eq!(mac.to_string(), "02:00:00:0a:0b:0c");
    assert_eq!(Mac::from_u64(mac.to_u64()), mac);
    assert!(Mac::BROADCAST.is_multicast() && !mac.is_multicast());
    for bad in [
        "",
        "02:00:00:00:00",
        "02:00:00:00:00:00:00",
        "02:00:00:00:00:+1",
        "g2:00:00:00:00:00",
        "002:0:0:0:0:0",
    ] {
        assert!(bad.parse::<Mac>().is_err(), "{bad}");
    }
}

#[test]
fn subfields_are_read_and_written() {
    for (given, printed) in [
        ("NXM_NX_REG0[]", "NXM_NX_REG0[]"),
        ("reg0", "NXM_NX_REG0[]"),
        ("reg0[4..11]", "NXM_NX_REG0[4..11]"),
        ("reg0[0..31]", "NXM_NX_REG0[]"),
        ("xreg1[63]", "OXM_OF_PKT_REG1[63]"),
    ] {
        assert_eq!(given.parse::<Subfield>().unwrap().to_string(), printed);
    }
    for bad in
        ["reg0[", "reg0[32]", "reg0[5..4]", "reg0[0..32]", "reg0[-1]", "reg99[]", "[]", "reg0[0..65535]"]
    {
        assert!(bad.parse::<Subfield>().is_err(), "{bad}");
    }
}

#[test]
fn values_are_written_as_ofctl_writes_them() {
    for (field, given, printed) in [
        (Field::IPV4_DST, "10.0.0.0/8", "10.0.0.0/8"),
        (Field::IPV4_DST, "10.0.0.0/255.0.255.0", "10.0.0.0/255.0.255.0"),
        (Field::IPV6_SRC, "fd00::/16", "fd00::/16"),
        (Field::ETH_SRC, "02:00:00:00:00:00/ff:ff:00:00:00:00", "02:00:00:00:00:00/ff:ff:00:00:00:00"),
        (Field::TCP_DST, "0x50/0xfff0", "80/0xfff0"),
        (Field::TCP_FLAGS, "+syn-ack", "+syn-ack"),
        (Field::TCP_FLAGS, "0x12", "syn|ack"),
        (Field::CT_STATE, "+new+trk", "+new+trk"),
        (Field::IP_FRAG, "not_later", "not_later"),
        (Field::IP_FRAG, "later", "later"),
        (Field::IN_PORT, "local", "LOCAL"),
        (Field::IN_PORT, "65534", "LOCAL"),
        (Field::REG0, "0", "0"),
        (Field::REG0, "010", "0x8"),
        (Field::PACKET_TYPE, "(1,0x800)", "(1,0x800)"),
    ] {
        let (value, mask) = parse_masked(field, given).unwrap_or_else(|e| panic!("{given}: {e}"));
        assert_eq!(text(field, value, mask), printed);
    }
}

#[test]
fn values_that_do_not_fit_are_refused_by_name() {
    let error = |field, given| parse_masked(field, given).unwrap_err().to_string();
    assert_eq!(error(Field::TCP_DST, "65536"), "`65536` has more than the 16 bits of tcp_dst");
    assert_eq!(error(Field::IP_PROTO, "6/7"), "nw_proto cannot have a mask");
    assert!(error(Field::IPV4_SRC, "10.0.0.256").contains("an IPv4 address or prefix"));
    assert!(error(Field::IPV6_SRC, "fd00::/129").contains("an IPv6 address or prefix"));
    for bad in ["+new+new", "+", "new|", "+none", "", "-+trk"] {
        assert!(matches!(parse_masked(Field::CT_STATE, bad), Err(FieldError::BadValue { .. })), "{bad}");
    }
}

fn any_field() -> impl Strategy<Value = Field> {
    (0..FIELDS.len()).prop_map(|i| Field(u8::try_from(i).unwrap()))
}

proptest! {
    #[test]
    fn any_value_is_read_back(field in any_field(), value: u128, mask: u128, exact: bool) {
        let exact = exact || FIELDS[usize::from(field.0)].mask == MaskRule::Exact;
        // Flags and fragments have names for their meaningful bits only, and flags with a mask of
        // all of these are written without it.
        let (meaningful, whole) = match field.format() {
            Format::CtState => (0xff, 0xff),
            Format::TunnelFlags => (1, field.full_mask()),
            Format::TcpFlags => (0xfff, field.full_mask()),
            Format::Frag => return Ok(()),
            Format::Port16 | Format::Port => (0xfeff, field.full_mask()),
            _ => (field.full_mask(), field.full_mask()),
        };
        let mask = if exact { whole } else { mask & meaningful };
        let value = value & mask & meaningful;
        let text = text(field, value, mask);
        if !text.starts_with("0/0") {
            let read = parse_masked(field, &text).map(|(value, mask)| (value, mask & meaningful));
            prop_assert_eq!(read, Ok((value, mask & meaningful)), "{}", text);
        }
    }

    #[test]
    fn no_text_panics(field in any_field(), text in "\\PC{0,24}") {
        let _ = parse_masked(field, &text);
        let _ = text.parse::<Subfield>();
        let _ = text.parse::<Mac>();
    }
}

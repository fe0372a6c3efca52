use super::*;
use proptest::prelude::*;

const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

fn id() -> Uuid {
    ID.parse().unwrap()
}

fn read(json: &str) -> Result<Datum, String> {
    serde_json::from_str(json).map_err(|why| why.to_string())
}

#[test]
fn values_are_written_and_read_as_rfc_7047_says() {
    let cases: &[(&str, Datum)] = &[
        ("0", 0.into()),
        ("-9223372036854775808", i64::MIN.into()),
        ("9223372036854775807", i64::MAX.into()),
        ("1.5", Datum::scalar(Atom::Real(Real::new(1.5).unwrap()))),
        ("true", true.into()),
        ("\"a\\nb\\u0001\"", "a\nb\u{1}".into()),
        ("[\"set\",[]]", Datum::empty()),
        ("[\"set\",[1,2]]", vec![2, 1].into()),
        ("[\"map\",[]]", Datum::empty_map()),
        ("[\"map\",[[\"a\",\"b\"]]]", Datum::from_pairs([("a", "b")])),
        ("[\"map\",[[1,[\"named-uuid\",\"x\"]]]]", Datum::from_pairs([(1, Atom::NamedUuid("x".into()))])),
        ("[\"uuid\",\"550e8400-e29b-41d4-a716-446655440000\"]", id().into()),
        ("[\"named-uuid\",\"row1\"]", Datum::scalar(Atom::NamedUuid("row1".into()))),
    ];
    for (json, datum) in cases {
        assert_eq!(read(json).as_ref(), Ok(datum), "{json}");
        assert_eq!(serde_json::to_string(datum).unwrap(), *json);
    }
}

#[test]
fn a_set_of_one_is_the_atom_itself() {
    assert_eq!(read("[\"set\",[7]]"), read("7"));
    let uuid = format!("[\"uuid\",\"{ID}\"]");
    assert_eq!(read(&format!("[\"set\",[{uuid}]]")), read(&uuid));
}

#[test]
fn what_is_no_value_is_named() {
    let cases = [
        ("9223372036854775808", "integer 9223372036854775808 does not fit"),
        ("[]", "ends before its tag"),
        ("[\"set\"]", "ends before its set"),
        ("[\"set\",[],1]", "more elements than a set needs"),
        ("[\"set\",[1,1]]", "set holds 1 twice"),
        ("[\"set\",[[\"set\",[]]]]", "expected atom, found set"),
        ("[\"map\",[[1,2],[1,3]]]", "map holds key 1 twice"),
        ("[\"map\",[[1]]]", "invalid length 1"),
        ("[\"bag\",[]]", "\"bag\" is no kind of value"),
        ("[7,[]]", "expected the tag of a value"),
        ("[\"uuid\",\"550e8400\"]", "\"550e8400\" is not a UUID"),
        ("[\"uuid\",7]", "expected a UUID"),
        ("[\"named-uuid\",\"1x\"]", "\"1x\" is not a valid name"),
        ("{}", "expected an atom, a set or a map"),
        ("null", "expected an atom, a set or a map"),
        ("1e999", "number out of range"),
    ];
    for (json, wanted) in cases {
        let why = read(json).expect_err(json);
        assert!(why.contains(wanted), "{json}: {why}");
    }
}

#[test]
fn what_the_server_would_hang_up_on_is_not_written() {
    let nul = serde_json::to_string(&Datum::from("a\0b")).unwrap_err();
    assert!(nul.to_string().contains("NUL"), "{nul}");
    let name = serde_json::to_string(&Atom::NamedUuid("no good".into())).unwrap_err();
    assert!(name.to_string().contains("no good"), "{name}");
    assert_eq!(Real::new(f64::NAN), Err(ValueError::NotFinite));
    assert_eq!(Real::new(-0.0), Real::new(0.0));
}

#[test]
fn uuids_are_read_strictly() {
    assert_eq!(ID.to_uppercase().parse(), Ok(id()));
    assert_eq!(id().to_string(), ID);
    for bad in ["", "550e8400-e29b-41d4-a716-44665544000", "550e8400e29b-41d4-a716-4466554400000"] {
        assert_eq!(bad.parse::<Uuid>(), Err(ValueError::BadUuid(bad.into())));
    }
    // Thirty-six bytes, but not thirty-six characters.
    assert!("550e8400-e29b-41d4-a716-4466554400é".parse::<Uuid>().is_err());
}

#[test]
fn values_become_types_of_rust_or_say_why_not() {
    use std::collections::{BTreeMap, BTreeSet};
    assert_eq!(i64::from_datum(&7.into()), Ok(7));
    assert_eq!(Option::<String>::from_datum(&Datum::empty()), Ok(None));
    assert_eq!(Option::<String>::from_datum(&"x".into()), Ok(Some("x".into())));
    assert_eq!(BTreeSet::from_datum(&vec![3, 1].into()), Ok(BTreeSet::from([1_i64, 3])));
    let map = BTreeMap::from([("a".to_owned(), 1_i64)]);
    assert_eq!(BTreeMap::from_datum(&map.clone().into()), Ok(map));
    assert_eq!(BTreeMap::<String, String>::from_datum(&Datum::empty()), Ok(BTreeMap::new()));
    let why = Option::<i64>::from_datum(&vec![1, 2].into()).unwrap_err();
    assert_eq!(why.to_string(), "expected at most one integer, found set");
    let why = BTreeSet::<i64>::from_datum(&"x".into()).unwrap_err();
    assert_eq!(why.to_string(), "expected set of integer, found string");
    let why = bool::from_datum(&Datum::empty_map()).unwrap_err();
    assert_eq!(why.to_string(), "expected boolean, found map");
}

#[test]
fn sets_and_maps_do_not_mix_in_a_difference() {
    let why = Datum::from(1).apply_difference(&Datum::from_pairs([(1, 2)])).unwrap_err();
    assert_eq!(why.to_string(), "expected integer, found map");
}

pub(crate) fn atom() -> impl Strategy<Value = Atom> {
    prop_oneof![
        any::<i64>().prop_map(Atom::Integer),
        (-1e300..1e300).prop_map(|value| Atom::Real(Real::new(value).unwrap())),
        any::<bool>().prop_map(Atom::Boolean),
        "[^\0]{0,12}".prop_map(Atom::String),
        any::<[u8; 16]>().prop_map(|bytes| Atom::Uuid(Uuid::from_bytes(bytes))),
        "[A-Za-z_][A-Za-z0-9_]{0,8}".prop_map(Atom::NamedUuid),
    ]
}

pub(crate) fn datum() -> impl Strategy<Value = Datum> {
    prop_oneof![
        proptest::collection::vec(atom(), 0..6).prop_map(Datum::from),
        proptest::collection::vec((atom(), atom()), 0..6).prop_map(Datum::from_pairs),
    ]
}

/// A difference as ovsdb-server(7) describes it, made the slow way.
fn difference(old: &Datum, new: &Datum) -> Datum {
    match (old.as_set(), new.as_set(), old.as_map(), new.as_map()) {
        (Some(old), Some(new), _, _) => {
            let gone = old.iter().filter(|atom| !new.contains(atom));
            let come = new.iter().filter(|atom| !old.contains(atom));
            gone.chain(come).cloned().collect()
        }
        (_, _, Some(old), Some(new)) => {
            let has = |map: &[(Atom, Atom)], key: &Atom| map.iter().any(|(k, _)| k == key);
            let gone = old.iter().filter(|(key, _)| !has(new, key));
            let come = new.iter().filter(|pair| !old.contains(pair));
            Datum::from_pairs(gone.chain(come).cloned())
        }
        _ => unreachable!("a column does not change its form"),
    }
}

fn small_set() -> impl Strategy<Value = Datum> {
    proptest::collection::vec(0..8_i64, 0..8).prop_map(Datum::from)
}

fn small_map() -> impl Strategy<Value = Datum> {
    proptest::collection::vec((0..6_i64, 0..3_i64), 0..6).prop_map(Datum::from_pairs)
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(datum in datum()) {
        let json = serde_json::to_vec(&datum).unwrap();
        let read: Datum = serde_json::from_slice(&json).unwrap();
        prop_assert_eq!(read, datum);
    }

    #[test]
    fn no_text_is_a_panic(text in "[\\[\\]{}\",:a-z0-9.eE+\\\\ -]{0,60}", bytes: Vec<u8>) {
        serde_json::from_str::<Datum>(&text).ok();
        serde_json::from_slice::<Datum>(&bytes).ok();
        text.parse::<Uuid>().ok();
    }

    #[test]
    fn a_difference_leads_from_old_to_new(
        (old, new) in prop_oneof![(small_set(), small_set()), (small_map(), small_map())],
    ) {
        let mut datum = old.clone();
        datum.apply_difference(&difference(&old, &new)).unwrap();
        prop_assert_eq!(datum, new);
    }
}

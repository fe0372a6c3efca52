use super::*;

#[test]
fn references_are_written_as_people_write_them() {
    let pod = PodRef::new("default", "a");
    assert_eq!(pod.to_string(), "default/a");
    assert_eq!("default/a".parse(), Ok(pod.clone()));
    assert_eq!(ObjectRef::from(&pod).to_string(), "Pod default/a");
    assert_eq!(ObjectRef::cluster(Kind::IpClaim, "0af40105").to_string(), "IPClaim 0af40105");
    for wrong in ["", "a", "/a", "a/", "a/b/c"] {
        assert_eq!(wrong.parse::<PodRef>(), Err(ParsePodRefError(wrong.to_owned())));
    }
}

#[test]
fn a_kind_is_known_by_version_and_name() {
    for kind in Kind::ALL {
        assert_eq!(Kind::of_manifest(kind.api_version(), kind.as_str()), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
    assert_eq!(Kind::of_manifest("v1", "NetworkPolicy"), None);
    assert_eq!(Kind::of_manifest("extensions/v1beta1", "NetworkPolicy"), None);
}

#[test]
fn names_order_and_hash_as_their_text() {
    let mut names = std::collections::BTreeSet::from([Name::from("b"), Name::from("a".to_owned())]);
    assert!(names.contains("a"));
    assert_eq!(names.pop_first().unwrap(), "a");
    assert_eq!(format!("{:>3}|{:?}", Name::from("b"), Name::from("b")), "  b|\"b\"");
}

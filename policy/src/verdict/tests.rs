use super::*;

#[test]
fn a_reason_has_one_spelling_and_a_hash_that_stays() {
    let unknown = Because::UnknownSubject(IpAddr::from([10, 1, 0, 5]));
    assert_eq!(Because::NoIsolation.to_string(), "no isolation");
    assert_eq!(unknown.to_string(), "nobody known at 10.1.0.5");
    assert!(unknown.is_provisional() && !Because::NoIsolation.is_provisional());
    // Cookies on switches carry these: another number means that a restart rewrites every flow.
    assert_eq!(Because::NoIsolation.stable_hash(), HASH_OF_NO_ISOLATION);
    assert_ne!(unknown.stable_hash(), Because::NoIsolation.stable_hash());
}

const HASH_OF_NO_ISOLATION: u64 = 0xadc4_26c1_86ab_88ea;

#[test]
fn a_judgement_survives_json() {
    let region = Region::whole(crate::address::Family::V6);
    let judgement = Judgement {
        verdict: Verdict::Deny,
        region,
        because: Because::UnknownSubject([0; 4].into()),
        audit: None,
    };
    let text = serde_json::to_string(&judgement).unwrap();
    assert_eq!(serde_json::from_str::<Judgement>(&text).unwrap(), judgement);
}

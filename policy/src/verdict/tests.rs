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

#[test]
fn a_rule_counts_by_what_it_says() {
    let rule = |rule: u16, fingerprint| Because::Rule {
        policy: ObjectRef::namespaced(crate::name::Kind::NetworkPolicy, "a", "p"),
        direction: Direction::Ingress,
        rule,
        name: None,
        fingerprint,
    };
    assert_eq!(rule(1, 7).stable_hash(), rule(2, 7).stable_hash(), "its place makes no difference");
    assert_ne!(rule(1, 7).stable_hash(), rule(1, 8).stable_hash());
    assert_eq!(rule(2, 7).to_string(), "NetworkPolicy a/p: ingress rule 2");
    assert_eq!(rule(2, 7).policy().map(ToString::to_string).as_deref(), Some("NetworkPolicy a/p"));
    let tenants = Because::Tenants { own: Tenant::Common, other: Tenant::Named("red".into()) };
    assert_eq!(tenants.to_string(), "tenants: the common group does not meet tenant red");
    assert!(tenants.policy().is_none() && !tenants.is_provisional());
    assert!(Because::UnknownPeer([10, 1, 0, 1].into()).is_provisional());
}

#[test]
fn one_end_that_denies_is_enough() {
    let judgement = |verdict| {
        let region = Region::whole(crate::address::Family::V4);
        Some(Judgement { verdict, region, because: Because::NoIsolation, audit: None })
    };
    let verdict = |egress, ingress| Conversation { egress, ingress }.verdict();
    assert_eq!(verdict(None, None), Verdict::Allow);
    assert_eq!(verdict(judgement(Verdict::Allow), None), Verdict::Allow);
    assert_eq!(verdict(judgement(Verdict::Allow), judgement(Verdict::Deny)), Verdict::Deny);
    assert_eq!(verdict(judgement(Verdict::Deny), judgement(Verdict::Allow)), Verdict::Deny);
}

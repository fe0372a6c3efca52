//! Which address a container gets, which it keeps, and what becomes of those that nobody has any more.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::net::IpAddr;
use std::time::Duration;

use fabric_core::node::*;
use policy::Object;
use serde_json::{Value, json};
use support::neighbours::{Neighbours, ip, member, namespace, network, node, pod, request};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// What an error says to try again later for.
fn later(result: Result<Vec<IpAddr>, RequestError>) -> String {
    match result {
        Err(RequestError::TryAgain(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn refused(result: Result<Vec<IpAddr>, RequestError>) -> String {
    match result {
        Err(RequestError::NoAddress(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn pools() -> Value {
    json!({"cidrs": ["10.1.0.0/24", "fd00:1::/64"], "default": true})
}

#[test]
fn a_member_of_a_stateful_set_keeps_its_addresses_over_restart_and_node_change() {
    let mut cluster = Neighbours::new(pools());
    cluster.put(member("db-0", "u1"));
    let first = cluster.add(0, "c1", "db-0", "u1").unwrap();
    assert_eq!(first.len(), 2);
    cluster.del(0, "c1");
    assert!(first.iter().all(|ip| cluster.claim(*ip).is_some_and(|claim| claim.is_idle())));
    // Another sandbox of the same pod, another life of the pod, and one on another node.
    assert_eq!(cluster.add(0, "c2", "db-0", "u1").unwrap(), first);
    cluster.del(0, "c2");
    cluster.put(member("db-0", "u2"));
    assert_eq!(cluster.add(0, "c3", "db-0", "u2").unwrap(), first);
    cluster.del(0, "c3");
    cluster.put(member("db-0", "u3"));
    assert_eq!(cluster.add(1, "c4", "db-0", "u3").unwrap(), first);
    let claim = cluster.claim(first[0]).unwrap();
    assert_eq!((claim.node.as_str(), claim.owner.as_str()), ("n2", "c4/eth0"));
}

#[test]
fn five_members_keep_theirs_while_three_of_them_are_away() {
    let mut cluster = Neighbours::new(json!({"cidrs": ["10.1.0.0/28"], "default": true}));
    let mut had = Vec::new();
    for n in 0..5 {
        cluster.put(member(&format!("db-{n}"), &format!("u{n}")));
        had.push(cluster.add(n % 2, &format!("c{n}"), &format!("db-{n}"), &format!("u{n}")).unwrap());
    }
    for n in 2..5 {
        cluster.del(n % 2, &format!("c{n}"));
        cluster.remove(&member(&format!("db-{n}"), &format!("u{n}")));
    }
    // Others come meanwhile, as many as there is room for.
    for n in 0..8 {
        let name = format!("web-{n}");
        cluster.put(pod(&name, &name, json!({})));
        let got = cluster.add(0, &name, &name, &name).unwrap();
        assert!(!had.contains(&got), "{got:?} is kept for another");
    }
    cluster.put(pod("web-8", "web-8", json!({})));
    let why = refused(cluster.add(0, "web-8", "web-8", "web-8"));
    assert!(why.contains("3 kept for pods that are away"), "{why}");
    for (n, had) in had.iter().enumerate().skip(2) {
        cluster.put(member(&format!("db-{n}"), &format!("v{n}")));
        let got = cluster.add((n + 1) % 2, &format!("d{n}"), &format!("db-{n}"), &format!("v{n}"));
        assert_eq!(got.unwrap(), *had, "on the other node");
    }
}

#[test]
fn an_address_that_nobody_comes_back_for_is_given_back_after_an_hour() {
    let mut cluster = Neighbours::new(pools());
    cluster.put(member("db-0", "u1"));
    let had = cluster.add(0, "c1", "db-0", "u1").unwrap();
    cluster.pass(3 * HOUR);
    cluster.del(0, "c1");
    cluster.remove(&member("db-0", "u1"));
    cluster.pass(HOUR - MINUTE);
    assert!(cluster.claim(had[0]).is_some());
    // Whether or not the agent was restarted meanwhile.
    cluster.restart(0);
    cluster.pass(2 * MINUTE);
    assert!(had.iter().all(|ip| cluster.claim(*ip).is_none()));
}

#[test]
fn a_successor_waits_until_the_container_of_its_predecessor_is_gone() {
    let mut cluster = Neighbours::new(pools());
    cluster.put(member("db-0", "u1"));
    let had = cluster.add(0, "c1", "db-0", "u1").unwrap();
    cluster.put(member("db-0", "u2"));
    for (node, container) in [(0, "c2"), (1, "c3")] {
        let why = later(cluster.add(node, container, "db-0", "u2"));
        assert!(why.contains("pod shop/db-0 on node n1") && why.contains("c1/eth0"), "{why}");
        cluster.del(node, container);
    }
    assert_eq!(cluster.claim(had[0]).unwrap().owner, "c1/eth0");
    cluster.del(0, "c1");
    assert_eq!(cluster.add(1, "c3", "db-0", "u2").unwrap(), had);
}

#[test]
fn what_a_killed_agent_left_is_taken_over_and_given_back() {
    let mut cluster = Neighbours::new(pools());
    cluster.put(member("db-0", "u1"));
    let had = cluster.add(0, "c1", "db-0", "u1").unwrap();
    // The agent dies, and what it had made with it.
    cluster.nodes[0].rows.retain(|name, _| name.len() != 14);
    cluster.nodes[0].wires.clear();
    cluster.restart(0);
    cluster.put(member("db-0", "u2"));
    assert_eq!(cluster.add(0, "c2", "db-0", "u2").unwrap(), had);
    cluster.nodes[0].rows.retain(|name, _| name.len() != 14);
    cluster.restart(0);
    cluster.remove(&member("db-0", "u2"));
    cluster.pass(Duration::from_secs(3));
    assert!(cluster.claim(had[0]).unwrap().is_idle(), "seconds after the pod went, not at the next compare");
}

#[test]
fn a_fixed_address_is_to_be_had_when_the_old_container_is_gone() {
    let mut cluster = Neighbours::new(pools());
    let fixed = || json!({"fabric.io/ip": "10.1.0.9"});
    cluster.put(pod("web-a", "u1", fixed()));
    let had = cluster.add(0, "c1", "web-a", "u1").unwrap();
    assert_eq!(had[0], ip("10.1.0.9"));
    // The same pod, in a new sandbox.
    let why = later(cluster.add(0, "c2", "web-a", "u1"));
    assert!(why.contains("10.1.0.9") && why.contains("shop/web-a"), "{why}");
    // Another pod, while the old one lives.
    cluster.put(pod("web-b", "u2", fixed()));
    let why = refused(cluster.add(1, "c3", "web-b", "u2"));
    assert!(why.contains("held by pod shop/web-a on node n1"), "{why}");
    // While it ends.
    let Object::Pod(ending) = pod("web-a", "u1", fixed()) else { panic!("a pod") };
    cluster.put(Object::Pod(policy::Pod { terminating: true, ..ending }));
    let why = later(cluster.add(1, "c3", "web-b", "u2"));
    assert!(why.contains("held by pod shop/web-a on node n1"), "{why}");
    cluster.remove(&pod("web-a", "u1", fixed()));
    later(cluster.add(1, "c3", "web-b", "u2"));
    cluster.del(0, "c1");
    assert_eq!(cluster.add(1, "c3", "web-b", "u2").unwrap()[0], ip("10.1.0.9"), "it does not rest");
}

#[test]
fn a_node_that_is_gone_for_good_gives_its_claims_back_and_one_that_is_away_does_not() {
    let mut cluster = Neighbours::new(pools());
    cluster.put(pod("web", "u1", json!({})));
    cluster.put(member("db-0", "u2"));
    let plain = cluster.add(1, "c1", "web", "u1").unwrap();
    let kept = cluster.add(1, "c2", "db-0", "u2").unwrap();
    // n2 is unreachable: nothing happens, whatever becomes of its pods.
    cluster.remove(&pod("web", "u1", json!({})));
    let n2 = cluster.nodes.pop().unwrap();
    cluster.pass(HOUR);
    assert!(cluster.claim(plain[0]).is_some() && cluster.claim(kept[0]).is_some());
    // Its Node object goes, and comes back in time.
    cluster.remove(&node("n2"));
    cluster.pass(MINUTE - Duration::from_secs(5));
    cluster.put(node("n2"));
    cluster.pass(5 * MINUTE);
    assert!(cluster.claim(plain[0]).is_some());
    cluster.put(member("db-0", "u3"));
    let why = later(cluster.add(0, "c3", "db-0", "u3"));
    assert!(why.contains("delete its Node object"), "{why}");
    cluster.del(0, "c3");
    // And for good.
    cluster.remove(&node("n2"));
    cluster.pass(2 * MINUTE);
    assert!(plain.iter().all(|ip| cluster.claim(*ip).is_none()));
    assert!(cluster.claim(kept[0]).unwrap().is_idle(), "its pod may come back elsewhere");
    assert_eq!(cluster.add(0, "c3", "db-0", "u3").unwrap(), kept);
    // It comes back after all, and its containers run: it says so.
    cluster.nodes.push(n2);
    cluster.put(node("n2"));
    cluster.hear();
    cluster.restart(1);
    cluster.pass(MINUTE);
    let problems = cluster.problems(1);
    let dispute = |problem: &String| {
        problem.contains("c2/eth0") && problem.contains("held by pod shop/db-0 on node n1")
    };
    assert!(problems.iter().any(dispute), "{problems:?}");
    assert!(
        cluster.claim(plain[0]).is_some_and(|claim| claim.owner == "c1/eth0"),
        "nobody had taken that one"
    );
    cluster.del(1, "c2");
    assert!(cluster.problems(1).is_empty());
    assert_eq!(cluster.claim(kept[0]).unwrap().owner, "c3/eth0");
}

#[test]
fn a_network_that_grows_is_used_at_once_and_one_that_shrinks_takes_nothing_from_who_has_it() {
    let small = json!({"cidrs": ["10.1.0.0/24"], "ranges": ["10.1.0.8-10.1.0.9"], "default": true});
    let mut cluster = Neighbours::new(small.clone());
    for n in 0..3 {
        cluster.put(pod(&format!("a{n}"), &format!("u{n}"), json!({})));
    }
    cluster.add(0, "c0", "a0", "u0").unwrap();
    cluster.add(1, "c1", "a1", "u1").unwrap();
    let why = refused(cluster.add(0, "c2", "a2", "u2"));
    assert!(why.contains("10.1.0.8-10.1.0.9") && why.contains("2 held"), "{why}");
    cluster.put(network(json!({"cidrs": ["10.1.0.0/24"], "ranges": ["10.1.0.8-10.1.0.12"],
        "exclude": ["10.1.0.10-10.1.0.11"], "default": true})));
    assert_eq!(cluster.add(0, "c2", "a2", "u2").unwrap(), [ip("10.1.0.12")], "all but what is excluded");
    assert!(cluster.problems(0).is_empty());
    cluster.put(network(small));
    assert!(cluster.claim(ip("10.1.0.12")).is_some());
    let problems = cluster.problems(0);
    assert!(problems.iter().any(|p| p.contains("10.1.0.12") && p.contains("shop/a2")), "{problems:?}");
    cluster.put(network(json!({"cidrs": ["10.9.0.0/24"], "default": true})));
    assert_eq!(cluster.problems(0).len(), 2, "{:?}", cluster.problems(0));
    let view = cluster.nodes[0].node.status(cluster.nodes[0].now);
    assert!(view.attachments.iter().all(|attachment| attachment.ready));
}

#[test]
fn a_workload_picks_within_its_own_list() {
    let mut cluster =
        Neighbours::new(json!({"cidrs": ["10.1.0.0/24"], "exclude": ["10.1.0.64/26"], "default": true}));
    let list = || json!({"fabric.io/ip-range": "10.1.0.70-10.1.0.71,10.1.0.80"});
    let mut got = Vec::new();
    for n in 0..3 {
        let name = format!("web-{n}");
        cluster.put(pod(&name, &name, list()));
        got.extend(cluster.add(n % 2, &name, &name, &name).unwrap());
    }
    got.sort();
    assert_eq!(got, [ip("10.1.0.70"), ip("10.1.0.71"), ip("10.1.0.80")]);
    cluster.put(pod("web-3", "u", list()));
    let why = refused(cluster.add(0, "c3", "web-3", "u"));
    for name in ["web-0", "web-1", "web-2"] {
        assert!(why.contains(&format!("held by pod shop/{name} on node n")), "{why}");
    }
    cluster.put(pod("web-4", "v", json!({"fabric.io/ip-range": "10.2.0.1-10.2.0.2"})));
    let why = refused(cluster.add(0, "c4", "web-4", "v"));
    assert!(why.contains("10.2.0.1-10.2.0.2 is not in Network pods (10.1.0.0/24)"), "{why}");
    // Also where there are others that are in it.
    cluster.put(pod("web-5", "w", json!({"fabric.io/ip-range": "10.1.0.90,10.2.0.1"})));
    let why = refused(cluster.add(0, "c5", "web-5", "w"));
    assert!(why.contains("10.2.0.1 is not in"), "{why}");
}

#[test]
fn the_pods_word_goes_before_the_namespaces_and_that_before_the_default() {
    let closed = json!({"name": "closed", "cidrs": ["10.3.0.0/24"],
        "allowedNamespaces": {"matchLabels": {"name": "vault"}}});
    let mut cluster = Neighbours::with(vec![
        network(pools()),
        network(json!({"name": "blue", "cidrs": ["10.2.0.0/24"]})),
        network(closed),
        namespace("shop", json!({})),
    ]);
    let of = |addresses: &[IpAddr], net: &str| addresses[0].to_string().starts_with(net);
    cluster.put(pod("a", "a", json!({})));
    assert!(of(&cluster.add(0, "a", "a", "a").unwrap(), "10.1."));
    cluster.put(namespace("shop", json!({"fabric.io/network": "blue"})));
    cluster.put(pod("b", "b", json!({})));
    assert!(of(&cluster.add(0, "b", "b", "b").unwrap(), "10.2."));
    cluster.put(pod("c", "c", json!({"fabric.io/network": "pods"})));
    assert!(of(&cluster.add(0, "c", "c", "c").unwrap(), "10.1."));
    cluster.put(pod("d", "d", json!({"fabric.io/network": "closed"})));
    let Err(RequestError::Invalid(why)) = cluster.add(0, "d", "d", "d") else { panic!("it is not allowed") };
    assert!(why.contains("closed") && why.contains("shop"), "{why}");
    cluster.put(pod("e", "e", json!({"fabric.io/network": "blue", "fabric.io/ip": "10.1.0.9"})));
    let why = refused(cluster.add(0, "e", "e", "e"));
    assert!(why.contains("not in Network blue"), "{why}");
}

#[test]
fn the_use_of_every_pool_is_told() {
    let mut cluster = Neighbours::new(json!({"cidrs": ["10.1.0.0/28", "fd00:1::/64"], "default": true,
        "exclude": ["10.1.0.14"]}));
    let pool = |cluster: &Neighbours, family| {
        let model = &cluster.nodes[0];
        model.node.status(model.now).pools.into_iter().find(|pool| pool.family == family).unwrap()
    };
    let empty = pool(&cluster, policy::Family::V4);
    assert_eq!((empty.size, empty.free), (12, 12), "without both edges, the gateway and what is excluded");
    cluster.put(member("db-0", "u1"));
    cluster.put(pod("a", "a", json!({})));
    cluster.put(pod("b", "b", json!({"fabric.io/ip": "10.1.0.14"})));
    for (container, name, uid) in [("c1", "db-0", "u1"), ("c2", "a", "a"), ("c3", "b", "b")] {
        cluster.add(0, container, name, uid).unwrap();
    }
    let used = pool(&cluster, policy::Family::V4);
    assert_eq!((used.claimed, used.free), (3, 10), "one of the three is none to hand out");
    cluster.del(0, "c1");
    cluster.del(0, "c2");
    let used = pool(&cluster, policy::Family::V4);
    assert_eq!((used.claimed, used.retained, used.resting, used.free), (1, 1, 1, 10));
    let used = pool(&cluster, policy::Family::V6);
    assert_eq!((used.size, used.free), ((1 << 64) - 2, (1 << 64) - 5));
    cluster.nodes[0].silent.insert(support::model::Room::Store);
    cluster.nodes[0].request(Request::Attach(request("c4", "a", "a")));
    assert_eq!(pool(&cluster, policy::Family::V4).pending, 1);
}

#[test]
fn what_an_ipam_plugin_gives_is_all_that_the_container_has() {
    let mut cluster = Neighbours::new(pools());
    let given = |cluster: &mut Neighbours, container: &str, pod: &str, ips: &[&str]| {
        let ips = ips.iter().map(|text| ip(text)).collect();
        let ipam = Some("host-local".to_owned());
        cluster.request(0, AttachRequest { ips, ipam, ..request(container, pod, "u") })
    };
    cluster.put(member("db-0", "u"));
    assert_eq!(
        given(&mut cluster, "c1", "db-0", &["10.1.0.7"]).unwrap(),
        [ip("10.1.0.7")],
        "and none of IPv6"
    );
    cluster.del(0, "c1");
    assert_eq!(cluster.claim(ip("10.1.0.7")), None, "the plugin decides who has it next");
    let why = refused(given(&mut cluster, "c2", "db-0", &["10.9.0.7"]));
    assert!(why.contains("10.9.0.7 is not in Network pods"), "{why}");
    let Err(RequestError::Invalid(why)) = given(&mut cluster, "c3", "db-0", &["10.1.0.7", "10.1.0.8"]) else {
        panic!("two of a family")
    };
    assert!(why.contains("10.1.0.7 and 10.1.0.8"), "{why}");
    cluster.put(pod("web", "u", json!({"fabric.io/ip": "10.1.0.9"})));
    let Err(RequestError::Invalid(why)) = given(&mut cluster, "c4", "web", &["10.1.0.7"]) else {
        panic!("the annotation says otherwise")
    };
    assert!(why.contains("10.1.0.9") && why.contains("host-local gave 10.1.0.7"), "{why}");
}

#[test]
fn a_container_that_went_while_the_agent_was_away_is_not_waited_for_where_its_pod_is_gone() {
    let mut cluster = Neighbours::new(pools());
    cluster.put(member("db-0", "u1"));
    cluster.put(pod("web", "u2", json!({})));
    let kept = cluster.add(0, "c1", "db-0", "u1").unwrap();
    let plain = cluster.add(0, "c2", "web", "u2").unwrap();
    // Both containers go while the agent is away; the switch has lost their devices.
    for row in cluster.nodes[0].rows.values_mut().filter(|row| row.external_ids.contains_key("fabric.pod")) {
        row.ofport = None;
        row.error = Some("could not open network device".into());
    }
    cluster.remove(&pod("web", "u2", json!({})));
    cluster.restart(0);
    cluster.pass(Duration::from_secs(2));
    assert!(plain.iter().all(|ip| cluster.claim(*ip).is_none()), "its pod is gone");
    assert_eq!(cluster.claim(kept[0]).unwrap().owner, "c1/eth0", "its pod lives: the device may come back");
    later(cluster.add(0, "c3", "db-0", "u1"));
    assert_eq!(cluster.add(0, "c3", "db-0", "u1").unwrap(), kept, "its pod has a new sandbox");
}

#[test]
fn a_fixed_address_is_of_either_family_or_of_both() {
    let mut cluster = Neighbours::new(pools());
    let cases = [
        ("four", "10.1.0.9", "10.1.0.9", None),
        ("six", "fd00:1::9", "fd00:1::9", None),
        ("both", "fd00:1::8, 10.1.0.8", "10.1.0.8", Some("fd00:1::8")),
    ];
    for (name, asked, one, other) in cases {
        cluster.put(pod(name, name, json!({"fabric.io/ip": asked})));
        let got = cluster.add(0, name, name, name).unwrap();
        assert_eq!(got.len(), 2, "of the other family it has one that was picked");
        assert!(
            got.contains(&ip(one)) && other.is_none_or(|other| got.contains(&ip(other))),
            "{name}: {got:?}"
        );
    }
}

#[test]
fn a_store_that_does_not_answer_is_asked_once() {
    let mut cluster = Neighbours::new(pools());
    cluster.put(member("db-0", "u1"));
    cluster.put(pod("web", "u2", json!({})));
    let left = cluster.add(0, "c1", "db-0", "u1").unwrap();
    let running = cluster.add(0, "c2", "web", "u2").unwrap();
    // One container goes while the agent is away, and the claims of another are lost.
    cluster.nodes[0]
        .rows
        .retain(|_, row| row.external_ids.get("fabric.container").is_none_or(|id| id != "c1"));
    cluster.remove(&member("db-0", "u1"));
    cluster.store.borrow_mut().retain(|ip, _| !running.contains(ip));
    cluster.nodes[0].silent.insert(support::model::Room::Store);
    cluster.restart(0);
    for _ in 0..50 {
        cluster.put(node("n3"));
        cluster.pass(Duration::from_secs(2));
        cluster.remove(&node("n3"));
        cluster.del(0, "c1");
    }
    assert_eq!(cluster.nodes[0].waiting(), 4, "each address once");
    cluster.nodes[0].wake(support::model::Room::Store);
    cluster.hear();
    assert!(left.iter().all(|ip| cluster.claim(*ip).is_some_and(|claim| claim.is_idle())));
    assert!(running.iter().all(|ip| cluster.claim(*ip).is_some_and(|claim| claim.owner == "c2/eth0")));
}

#[test]
fn a_claim_may_say_that_it_waits_since_any_time() {
    let mut cluster = Neighbours::new(pools());
    cluster.put(member("db-0", "u1"));
    let kept = cluster.add(0, "c1", "db-0", "u1").unwrap();
    cluster.del(0, "c1");
    let ahead = policy::Timestamp(u64::MAX - 10_000);
    cluster.store.borrow_mut().values_mut().for_each(|claim| claim.since = Some(ahead));
    cluster.hear();
    cluster.pass(5 * HOUR);
    assert!(cluster.claim(kept[0]).unwrap().is_idle());
}

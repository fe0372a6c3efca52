use fabric_cni::protocol::{Add, Bandwidth, Check, Gc};

use super::*;

fn key() -> Key {
    Key { container_id: "c1".into(), ifname: "eth0".into() }
}

fn add() -> Add {
    Add {
        key: key(),
        netns: "/run/netns/x".into(),
        network: "fabric".into(),
        pod: Some(protocol::PodRef { namespace: "shop".into(), name: "web".into(), uid: "u".into() }),
        ips: vec!["10.0.0.9".parse().unwrap()],
        mac: Some("0a:58:0a:00:00:09".parse().unwrap()),
        mtu: Some(1400),
        bandwidth: Some(Bandwidth::default()),
        ipam: None,
        routers: Vec::new(),
    }
}

fn refused(add: Add) -> Error {
    request(protocol::Request::Add(Box::new(add))).unwrap_err()
}

#[test]
fn an_add_keeps_everything() {
    let Request::Attach(attach) = request(protocol::Request::Add(Box::new(add()))).unwrap() else {
        panic!("not an attach request")
    };
    assert_eq!(attach.key.container_id, "c1");
    assert_eq!(attach.network, "fabric");
    assert_eq!(attach.pod.unwrap().name, "web");
    assert_eq!(attach.mac, Some(Mac([0x0a, 0x58, 0x0a, 0, 0, 9])));
    assert_eq!((attach.mtu, attach.ips.len()), (Some(1400), 1));
}

#[test]
fn limits_are_told_by_direction_and_none_is_no_limit() {
    let bandwidth = Some(Bandwidth { egress_rate: 1000, ..Bandwidth::default() });
    let Request::Attach(attach) =
        request(protocol::Request::Add(Box::new(Add { bandwidth, ..add() }))).unwrap()
    else {
        panic!("not an attach request")
    };
    assert_eq!(attach.rates, Rates { out: Some(1000), into: None });
}

#[test]
fn a_lease_has_two_requests() {
    let ipam = Some("dhcp".to_owned());
    let routers = vec!["10.100.0.1".parse().unwrap()];
    let first = protocol::Request::Prepare(Box::new(Add { ipam: ipam.clone(), ips: Vec::new(), ..add() }));
    assert_eq!(Asked::of(&first), Asked::Attach);
    let Request::Prepare(prepare) = request(first).unwrap() else { panic!("not its beginning") };
    assert_eq!((prepare.ipam.as_deref(), prepare.ips.len()), (Some("dhcp"), 0));
    let second = protocol::Request::Add(Box::new(Add { ipam, routers: routers.clone(), ..add() }));
    let Request::Complete { request, routers: told } = request(second).unwrap() else {
        panic!("not its end")
    };
    assert_eq!((request.ips.len(), told), (1, routers));
}

#[test]
fn names_that_could_reach_elsewhere_are_refused() {
    for (container_id, ifname, netns) in [
        ("../c", "eth0", "/n"),
        ("", "eth0", "/n"),
        ("c1", "../x", "/n"),
        ("c1", "", "/n"),
        ("c1", "eth0", "n"),
    ] {
        let key = Key { container_id: container_id.into(), ifname: ifname.into() };
        let check = Check { key: key.clone(), netns: netns.into(), mac: None, addresses: Vec::new() };
        assert_eq!(request(protocol::Request::Check(check)).unwrap_err().code, Code::ENVIRONMENT);
        assert_eq!(refused(Add { key, netns: netns.into(), ..add() }).code, Code::ENVIRONMENT);
    }
    let key = Key { container_id: "a b".into(), ifname: "eth0".into() };
    assert!(request(protocol::Request::Gc(Gc { network: "f".into(), valid: vec![key] })).is_err());
    for mac in ["01:00:00:00:00:01", "00:00:00:00:00:00"] {
        assert_eq!(refused(Add { mac: Some(mac.parse().unwrap()), ..add() }).code, Code::CONFIG);
    }
}

#[test]
fn failures_have_the_number_of_their_request() {
    let number = |asked, error| answer(asked, Err(error)).unwrap_err().code;
    let text = || "x".to_owned();
    assert_eq!(number(Asked::Attach, RequestError::NotReady(text())), Code::TRY_AGAIN);
    assert_eq!(number(Asked::Status, RequestError::NotReady(text())), Code::NOT_AVAILABLE);
    assert_eq!(number(Asked::Attach, RequestError::TryAgain(text())), Code::TRY_AGAIN);
    assert_eq!(number(Asked::Attach, RequestError::Invalid(text())), Code::CONFIG);
    assert_eq!(number(Asked::Attach, RequestError::NoAddress(text())), Code::NO_ADDRESS);
    assert_eq!(number(Asked::Other, RequestError::Unknown(text())), Code::UNKNOWN_CONTAINER);
    assert_eq!(number(Asked::Other, RequestError::Failed(text())), Code::FAILED);
}

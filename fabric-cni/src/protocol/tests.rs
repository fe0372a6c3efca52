use super::*;

fn key() -> Key {
    Key { container_id: "c1".into(), ifname: "eth0".into() }
}

#[test]
fn requests_survive_a_round_trip() {
    let add = Add {
        key: key(),
        netns: "/run/netns/x".into(),
        network: "fabric".into(),
        pod: Some(PodRef { namespace: "shop".into(), name: "web".into(), uid: "u".into() }),
        ips: vec!["10.0.0.9".parse().unwrap()],
        mac: Some(Mac([2, 0, 0, 0, 0, 1])),
        mtu: Some(1450),
        bandwidth: Some(Bandwidth { ingress_rate: 1, ..Bandwidth::default() }),
        ipam: None,
        routers: vec!["10.0.0.1".parse().unwrap()],
    };
    let check =
        Check { key: key(), netns: "/n".into(), mac: None, addresses: vec!["10.0.0.9/32".parse().unwrap()] };
    for request in [
        Request::Add(Box::new(add.clone())),
        Request::Prepare(Box::new(add)),
        Request::Del(key()),
        Request::Check(check),
        Request::Gc(Gc { network: "fabric".into(), valid: vec![key()] }),
        Request::Status,
    ] {
        let line = encode_request(request.clone()).unwrap();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(decode_request(&line).unwrap(), request);
    }
}

#[test]
fn the_form_on_the_wire_is_fixed() {
    let line = encode_request(Request::Del(key())).unwrap();
    assert_eq!(
        String::from_utf8(line).unwrap(),
        "{\"protocol\":1,\"request\":{\"del\":{\"containerId\":\"c1\",\"ifname\":\"eth0\"}}}\n"
    );
    let line = encode_answer(Answer::Error(Error::new(Code::NO_ADDRESS, "pool blue is full"))).unwrap();
    assert_eq!(
        String::from_utf8(line).unwrap(),
        "{\"protocol\":1,\"answer\":{\"error\":{\"code\":100,\"msg\":\"no address available\",\
         \"details\":\"pool blue is full\"}}}\n"
    );
}

#[test]
fn another_protocol_is_told_apart_from_nonsense() {
    for other in [0, PROTOCOL + 1] {
        let error = decode_answer(format!("{{\"protocol\":{other},\"reply\":{{}}}}").as_bytes()).unwrap_err();
        assert_eq!(error.code, Code::PROTOCOL);
    }
    for line in [&b""[..], b"{}", b"{\"protocol\":1}", b"\xff", b"{\"protocol\":1,\"answer\":{\"sorry\":{}}}"]
    {
        assert_eq!(decode_answer(line).unwrap_err().code, Code::DECODE);
    }
}

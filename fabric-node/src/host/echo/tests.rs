use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The packet that answers a request: its addresses the other way round, another type, and no other change.
fn answer(request: &[u8]) -> Vec<u8> {
    let mut answer = request.to_vec();
    if request[0] >> 4 == 4 {
        answer[12..16].copy_from_slice(&request[16..20]);
        answer[16..20].copy_from_slice(&request[12..16]);
        answer[20] = ECHO_REPLY;
    } else {
        answer[8..24].copy_from_slice(&request[24..40]);
        answer[24..40].copy_from_slice(&request[8..24]);
        answer[40] = ECHO_REPLY_V6;
    }
    answer
}

#[test]
fn a_request_has_its_size_and_must_not_be_fragmented() {
    let v4 = request(ip("10.0.0.1"), ip("10.0.0.2"), 1500, 7).unwrap();
    assert_eq!((v4.len(), &v4[2..4], v4[6] & 0x40), (1500, &1500_u16.to_be_bytes()[..], 0x40));
    let v6 = request(ip("fd00::1"), ip("fd00::2"), 1500, 7).unwrap();
    assert_eq!((v6.len(), &v6[4..6]), (1500, &1460_u16.to_be_bytes()[..]));
    assert_eq!(request(ip("10.0.0.1"), ip("10.0.0.2"), 35, 7), None);
    assert_eq!(request(ip("10.0.0.1"), ip("fd00::2"), 1500, 7), None);
}

#[test]
fn an_answer_tells_the_peer_the_size_and_the_token() {
    let token = 0x0123_4567_89ab_cdef;
    let v4 = answer(&request(ip("10.0.0.1"), ip("10.0.0.2"), 1300, token).unwrap());
    assert_eq!(read_v4(&v4), Some(Heard::Answer { from: ip("10.0.0.2"), size: 1300, token }));
    let v6 = answer(&request(ip("fd00::1"), ip("fd00::2"), 1300, token).unwrap());
    let IpAddr::V6(from) = ip("fd00::2") else { panic!() };
    assert_eq!(read_v6(from, &v6[40..]), Some(Heard::Answer { from: from.into(), size: 1300, token }));
}

#[test]
fn an_error_tells_whose_packet_did_not_fit() {
    let quoted = request(ip("10.0.0.1"), ip("10.0.0.2"), 1500, 7).unwrap();
    let mut error = Vec::new();
    let ip4 = PacketBuilder::ipv4([10, 0, 0, 254], [10, 0, 0, 1], HOPS);
    ip4.icmpv4_raw(UNREACHABLE, TOO_BIG, [0, 0, 5, 0x14]).write(&mut error, &quoted[..28]).unwrap();
    assert_eq!(read_v4(&error), Some(Heard::TooBig { to: ip("10.0.0.2"), mtu: 1300 }));
    let quoted = request(ip("fd00::1"), ip("fd00::2"), 1500, 7).unwrap();
    let error = [&[TOO_BIG_V6, 0, 0, 0, 0, 0, 5, 0x14], &quoted[..60]].concat();
    let IpAddr::V6(router) = ip("fd00::fe") else { panic!() };
    assert_eq!(read_v6(router, &error), Some(Heard::TooBig { to: ip("fd00::2"), mtu: 1300 }));
}

#[test]
fn whatever_else_comes_is_nothing() {
    let request = request(ip("10.0.0.1"), ip("10.0.0.2"), 100, 7).unwrap();
    assert_eq!(read_v4(&request), None);
    let mut error = Vec::new();
    let ip4 = PacketBuilder::ipv4([10, 0, 0, 254], [10, 0, 0, 1], HOPS);
    ip4.icmpv4_raw(UNREACHABLE, TOO_BIG, [0; 4]).write(&mut error, &request).unwrap();
    for length in 0..20 + 8 + 20 {
        assert_eq!(read_v4(&error[..length]), None, "{length}");
    }
    assert_eq!(read_v6(Ipv6Addr::LOCALHOST, &[TOO_BIG_V6, 0, 0, 0, 0, 0, 5, 0x14]), None);
    assert_eq!(read_v6(Ipv6Addr::LOCALHOST, &[]), None);
}

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, CacheInfo};
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol, RouteType};

use super::*;
use crate::uplinks::belongings::Device;

fn device(index: u32) -> Device {
    Device { index, name: "eth1".to_owned(), mac: vec![2, 0, 0, 0, 5, 1] }
}

fn address(index: u32, ip: IpAddr, valid: u32) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    (message.header.index, message.header.prefix_len) = (index, 24);
    let mut info = CacheInfo::default();
    (info.ifa_preferred, info.ifa_valid) = (valid, valid);
    message.attributes = vec![
        AddressAttribute::Address(ip),
        AddressAttribute::Label("eth1".to_owned()),
        AddressAttribute::Flags(AddressFlags::Permanent | AddressFlags::Noprefixroute),
        AddressAttribute::CacheInfo(info),
    ];
    message
}

fn default_route(index: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.kind = RouteType::Unicast;
    message.header.protocol = RouteProtocol::Dhcp;
    message.attributes = vec![
        RouteAttribute::Oif(index),
        RouteAttribute::Gateway(rtnetlink::packet_route::route::RouteAddress::Inet(Ipv4Addr::new(
            10, 5, 0, 254,
        ))),
        RouteAttribute::Priority(100),
    ];
    message
}

fn record() -> Record {
    let four = address(7, Ipv4Addr::new(10, 5, 0, 1).into(), u32::MAX);
    let six = address(7, Ipv6Addr::new(0xfd05, 0, 0, 0, 0, 0, 0, 1).into(), 600);
    let other = address(8, Ipv4Addr::new(10, 6, 0, 1).into(), u32::MAX);
    let dump = vec![
        RouteNetlinkMessage::NewAddress(four),
        RouteNetlinkMessage::NewAddress(six),
        RouteNetlinkMessage::NewAddress(other),
        RouteNetlinkMessage::NewRoute(default_route(7)),
        RouteNetlinkMessage::NewRoute(default_route(8)),
    ];
    let belongings = Belongings::sort_out(&device(7), dump).unwrap();
    let moment = Moment { boot: "b1".to_owned(), uptime: 1_000 };
    Record { nic: "eth1".to_owned(), opened: 7, device: 9, moment, belongings }
}

#[test]
fn what_is_written_is_read() {
    let record = record();
    assert_eq!((record.belongings.addresses.len(), record.belongings.routes.len()), (2, 1));
    let text = record.to_text().unwrap();
    assert_eq!(Record::from_text(&text).unwrap(), record);
    for part in ["\"10.5.0.1/24\"", "\"fd05::1/24\"", "\"default via 10.5.0.254 metric 100\""] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn time_takes_from_lifetimes_and_a_boot_takes_all() {
    let record = record();
    let at = |boot: &str, uptime| record.alive_at(&Moment { boot: boot.to_owned(), uptime });
    let valid = |belongings: &Belongings| -> Vec<u32> {
        let attributes = belongings.addresses.iter().flat_map(|address| &address.attributes);
        attributes
            .filter_map(|attribute| match attribute {
                AddressAttribute::CacheInfo(info) => Some(info.ifa_valid),
                _ => None,
            })
            .collect()
    };
    assert_eq!(valid(&at("b1", 1_000)), [u32::MAX, 600]);
    assert_eq!(valid(&at("b1", 1_100)), [u32::MAX, 500]);
    assert_eq!(valid(&at("b1", 1_600)), [u32::MAX]);
    assert_eq!(at("b2", 1_100), Belongings::default());
}

#[test]
fn nonsense_is_refused_and_does_no_harm() {
    let text = record().to_text().unwrap();
    for bad in ["", "{}", "[]", &text.replace("eth1", "").replace("addresses", "adresses")] {
        assert!(Record::from_text(bad).is_err(), "{bad}");
    }
    // Messages that are cut anywhere, or are no digits.
    let message = text.split("\"message\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    for length in 0..message.len() {
        let _ = Record::from_text(&text.replace(message, &message[..length]));
    }
    assert!(Record::from_text(&text.replace(message, "zz")).is_err());
    assert!(Record::from_text(&text.replace(message, "00")).is_err());
}

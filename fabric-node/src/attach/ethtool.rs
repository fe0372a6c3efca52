//! Switching off checksum offload, by the kernel's ethtool family
//! (`Documentation/networking/ethtool-netlink.rst`, `FEATURES_SET`; Linux 5.6 or newer).

use std::io;

use rtnetlink::sys::Socket;

use crate::netlink::{open_generic, receive};

// linux/netlink.h, linux/genetlink.h, linux/ethtool_netlink.h
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST_ACK: u16 = 1 | 4;
const NLA_F_NESTED: u16 = 1 << 15;
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;

/// What a veth leaves to hardware that does not exist; segmentation offload depends on it and goes too.
const CHECKSUMS: [&str; 2] = ["tx-checksum-ip-generic", "tx-checksum-sctp"];

/// Makes the device of this index, in the namespace of the calling thread, compute the
/// checksums of what it sends.
pub fn compute_checksums(index: u32) -> io::Result<()> {
    let socket = open_generic()?;
    let family = family(&socket)?;
    let mut body = Vec::new();
    nest(&mut body, ETHTOOL_A_FEATURES_HEADER, |header| {
        attribute(header, ETHTOOL_A_HEADER_DEV_INDEX, &index.to_ne_bytes());
    });
    nest(&mut body, ETHTOOL_A_FEATURES_WANTED, |wanted| {
        nest(wanted, ETHTOOL_A_BITSET_BITS, |bits| {
            for name in CHECKSUMS {
                // A bit that is named without a value is off.
                nest(bits, ETHTOOL_A_BITSET_BITS_BIT, |bit| {
                    attribute(bit, ETHTOOL_A_BITSET_BIT_NAME, &text(name));
                });
            }
        });
    });
    exchange(&socket, family, ETHTOOL_MSG_FEATURES_SET, &body).map(|_| ())
}

/// The number under which this kernel knows the ethtool family.
fn family(socket: &Socket) -> io::Result<u16> {
    let mut body = Vec::new();
    attribute(&mut body, CTRL_ATTR_FAMILY_NAME, &text("ethtool"));
    let answer = exchange(socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &body)?;
    // `nlmsghdr` and `genlmsghdr`.
    let mut rest = answer.get(20..).unwrap_or_default();
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        if kind == CTRL_ATTR_FAMILY_ID {
            return u16_at(rest, 4).ok_or_else(|| io::ErrorKind::InvalidData.into());
        }
        rest = rest.get(usize::from(length).max(4).next_multiple_of(4)..).unwrap_or_default();
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Sends one request, waits for its acknowledgement, and gives the answer before it, where there is one.
fn exchange(socket: &Socket, family: u16, command: u8, body: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(20 + body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut message = Vec::with_capacity(20 + body.len());
    message.extend(length.to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend(NLM_F_REQUEST_ACK.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(body);
    socket.send(&message, 0)?;
    let mut answer = Vec::new();
    loop {
        let datagram = receive(socket)?;
        if u16_at(&datagram, 4) != Some(NLMSG_ERROR) {
            answer = datagram;
            continue;
        }
        let code = datagram.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
        return match code {
            Some(0) => Ok(answer),
            Some(code) => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
            None => Err(io::ErrorKind::InvalidData.into()),
        };
    }
}

fn nest(out: &mut Vec<u8>, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    fill(&mut inner);
    attribute(out, kind | NLA_F_NESTED, &inner);
}

/// `struct nlattr` with its padding. All that is written here is far shorter than 64 KiB.
fn attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    out.extend(length.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn text(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

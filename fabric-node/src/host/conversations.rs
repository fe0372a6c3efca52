//! Ending what the kernel's connection tracking knows of conversations whose pods are to leave under another address than
//! they did: the kernel would go on giving them the source that they began with.
//!
//! Spoken by netlink to ctnetlink (`linux/netfilter/nfnetlink_conntrack.h`), which knows no way to end the conversations
//! of one source: all are read, and those concerned are named in turn. Twice, since packets that were on their way to the
//! host when it was told may begin one again.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use rtnetlink::sys::Socket;
use tokio::sync::mpsc;

use crate::netlink;

/// Times at which the conversations are looked for, after the host was told.
const LOOKS: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(2)];

/// `NFNL_SUBSYS_CTNETLINK` with `IPCTNL_MSG_CT_NEW`, `IPCTNL_MSG_CT_GET` and `IPCTNL_MSG_CT_DELETE`.
const NEW: u16 = 0x0100;
const GET: u16 = 0x0101;
const DELETE: u16 = 0x0102;
/// `NLM_F_REQUEST`, `NLM_F_ACK`, `NLM_F_DUMP`.
const REQUEST: u16 = 0x01;
const ACKNOWLEDGED: u16 = 0x04;
const DUMP: u16 = 0x300;
/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `AF_INET`, `AF_INET6`.
const FAMILIES: [u8; 2] = [2, 10];
/// `CTA_TUPLE_ORIG`, `CTA_TUPLE_REPLY`, `CTA_ID`, `CTA_ZONE`; in a tuple `CTA_TUPLE_IP`, and there the source and the
/// destination of each family.
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ID: u16 = 12;
const ZONE: u16 = 18;
const ADDRESSES: u16 = 1;
const SOURCES: [u16; 2] = [1, 3];
const DESTINATIONS: [u16; 2] = [2, 4];
/// Flags in the type of an attribute (`NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`).
const ATTRIBUTE_FLAGS: u16 = 0xc000;
/// Bytes of a message's header, and of that of the subsystem.
const HEADER: usize = 16;
const SUBHEADER: usize = 4;

/// The address that pods leave under, where they have one of their own.
pub type Leaving = BTreeMap<IpAddr, Option<IpAddr>>;

/// Ends conversations as it is told to, until nobody tells any more.
pub async fn run(mut told: mpsc::Receiver<Leaving>) {
    while let Some(mut leaving) = told.recv().await {
        let mut passed = Duration::ZERO;
        for look in LOOKS {
            tokio::time::sleep(look.saturating_sub(passed)).await;
            passed = look;
            while let Ok(more) = told.try_recv() {
                leaving.extend(more);
            }
            // Opened here: the namespace is that of this thread.
            let socket = netlink::open_netfilter();
            let pods = leaving.clone();
            let ended = tokio::task::spawn_blocking(move || end(&socket?, &pods)).await;
            match ended.unwrap_or_else(|error| Err(io::Error::other(error))) {
                Ok(0) => {}
                Ok(ended) => {
                    tracing::info!(ended, "conversations begin anew: their pods leave under another address");
                }
                Err(error) => tracing::warn!(
                    "connection tracking: {error}; conversations of pods whose egress address has changed keep the source \
                     that they began with: is the kernel's nf_conntrack_netlink available?"
                ),
            }
        }
    }
}

/// Ends the conversations that such pods have opened under another source; how many.
fn end(socket: &Socket, pods: &Leaving) -> io::Result<usize> {
    let mut ended = 0;
    for family in FAMILIES {
        for request in read(socket, family)?.iter().filter_map(|found| found.deletion(family, pods)) {
            socket.send(&request, 0)?;
            // One that has ended by itself meanwhile is no fault.
            let _ = answers(socket)?;
            ended += 1;
        }
    }
    Ok(ended)
}

fn read(socket: &Socket, family: u8) -> io::Result<Vec<Tracked>> {
    socket.send(&message(GET, REQUEST | DUMP, family, &[]), 0)?;
    let mut found = Vec::new();
    loop {
        let datagram = netlink::receive(socket)?;
        for (kind, body) in messages(&datagram) {
            match kind {
                NEW => found.extend(body.get(SUBHEADER..).and_then(Tracked::read)),
                ERROR => return Err(failure(body).unwrap_or_else(|| io::ErrorKind::InvalidData.into())),
                DONE => return Ok(found),
                _ => {}
            }
        }
    }
}

/// Waits for the acknowledgement of a request; the error that it tells.
fn answers(socket: &Socket) -> io::Result<Option<io::Error>> {
    loop {
        let datagram = netlink::receive(socket)?;
        if let Some((_, body)) = messages(&datagram).find(|(kind, _)| *kind == ERROR) {
            return Ok(failure(body));
        }
    }
}

fn failure(body: &[u8]) -> Option<io::Error> {
    let code = i32::from_ne_bytes(body.first_chunk().copied()?);
    (code != 0).then(|| io::Error::from_raw_os_error(-code))
}

/// A conversation, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tracked {
    /// Who opened it.
    source: IpAddr,
    /// Where answers go.
    answered_to: IpAddr,
    /// The attributes that name it, as the kernel gave them.
    name: Vec<u8>,
}

impl Tracked {
    fn read(body: &[u8]) -> Option<Tracked> {
        let find = |wanted: u16| attributes(body).find(|(kind, _)| *kind == wanted);
        let tuple = |wanted: u16, ends: [u16; 2]| {
            let (_, tuple) = find(wanted)?;
            let (_, addresses) = attributes(tuple).find(|(kind, _)| *kind == ADDRESSES)?;
            attributes(addresses).find(|(kind, _)| ends.contains(kind)).and_then(|(_, bytes)| address(bytes))
        };
        let source = tuple(ORIGINAL, SOURCES)?;
        let answered_to = tuple(REPLY, DESTINATIONS)?;
        let mut name = Vec::new();
        for kind in [ORIGINAL, ID, ZONE] {
            if let Some((_, value)) = find(kind) {
                let nested = if kind == ORIGINAL { 0x8000 } else { 0 };
                attribute(&mut name, kind | nested, value);
            }
        }
        Some(Tracked { source, answered_to, name })
    }

    /// The request to end it, where one of the pods has opened it and leaves otherwise by now.
    fn deletion(&self, family: u8, pods: &Leaving) -> Option<Vec<u8>> {
        let wanted = pods.get(&self.source)?;
        let changed = self.answered_to != self.source && Some(self.answered_to) != *wanted;
        changed.then(|| message(DELETE, REQUEST | ACKNOWLEDGED, family, &self.name))
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

fn message(kind: u16, flags: u16, family: u8, attributes: &[u8]) -> Vec<u8> {
    let length = HEADER + SUBHEADER + attributes.len();
    let mut bytes = u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // Sequence and sender, of which the kernel makes nothing; then version 0 and no resource.
    bytes.extend([0; 8]);
    bytes.extend([family, 0, 0, 0]);
    bytes.extend(attributes);
    bytes
}

fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend(u16::try_from(4 + value.len()).unwrap_or(u16::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The messages of a datagram: kind, and what follows the header.
fn messages(datagram: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    pieces(datagram, HEADER, |header| {
        let length = u32::from_ne_bytes(header.first_chunk().copied()?);
        Some((usize::try_from(length).ok()?, u16::from_ne_bytes(header.get(4..6)?.try_into().ok()?)))
    })
}

/// The attributes of a message or of another attribute: kind without flags, and value.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    pieces(bytes, 4, |header| {
        let length = u16::from_ne_bytes(header.first_chunk().copied()?);
        let kind = u16::from_ne_bytes(header.get(2..4)?.try_into().ok()?);
        Some((usize::from(length), kind & !ATTRIBUTE_FLAGS))
    })
}

/// What stands one behind another, each with a header that tells its length, at multiples of 4.
fn pieces(
    mut rest: &[u8],
    header: usize,
    read: fn(&[u8]) -> Option<(usize, u16)>,
) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = read(rest.get(..header)?)?;
        let piece = rest.get(header..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let (mut addresses, mut tuple) = (Vec::new(), Vec::new());
        attribute(&mut addresses, SOURCES[0], &source);
        attribute(&mut addresses, DESTINATIONS[0], &destination);
        attribute(&mut tuple, 0x8000 | ADDRESSES, &addresses);
        attribute(&mut tuple, 0x8002, &[0, 0, 0, 0]);
        tuple
    }

    fn tracked(answered_to: [u8; 4]) -> Vec<u8> {
        let mut body = Vec::new();
        attribute(&mut body, 0x8000 | ORIGINAL, &tuple([10, 0, 0, 5], [203, 0, 113, 9]));
        attribute(&mut body, 0x8000 | REPLY, &tuple([203, 0, 113, 9], answered_to));
        attribute(&mut body, ID, &[0, 0, 0, 7]);
        body
    }

    #[test]
    fn only_what_left_under_another_source_is_ended() {
        let pod: IpAddr = [10, 0, 0, 5].into();
        let egress: IpAddr = [203, 0, 113, 200].into();
        let ends = |answered_to: [u8; 4], leaving: Leaving| {
            let tracked = Tracked::read(&tracked(answered_to)).unwrap();
            assert_eq!((tracked.source, tracked.answered_to), (pod, answered_to.into()));
            tracked.deletion(2, &leaving).is_some()
        };
        let under = |wanted: Option<IpAddr>| Leaving::from([(pod, wanted)]);
        assert!(ends([203, 0, 113, 1], under(Some(egress))), "the node's address");
        assert!(ends([203, 0, 113, 200], under(None)), "an egress address that is not asked for any more");
        assert!(!ends([203, 0, 113, 200], under(Some(egress))));
        assert!(!ends([10, 0, 0, 5], under(Some(egress))), "its own address");
        assert!(!ends([203, 0, 113, 1], Leaving::new()), "another pod's");
    }

    #[test]
    fn what_is_cut_short_ends_the_reading() {
        let whole = tracked([203, 0, 113, 1]);
        for length in 0..whole.len() {
            let _ = Tracked::read(&whole[..length]);
        }
        let datagram = message(NEW, 0, 2, &whole);
        assert_eq!(messages(&datagram).count(), 1);
        assert_eq!(messages(&datagram[..datagram.len() - 1]).count(), 0);
        assert_eq!(messages(&[0; 32]).take(10).count(), 0, "a length of nothing");
    }
}

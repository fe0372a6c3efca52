//! One cell of the table of who reaches whom, and the table.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use super::bed::{Net, Place};
use crate::lab::node::BRIDGE_FABRIC;
use crate::traffic;

/// Bytes of a TCP conversation in each direction.
pub const MEGABYTE: usize = 1_000_000;
/// Protocols of a cell, as its columns are called.
const COLUMNS: [&str; 3] = ["TCP", "UDP", "ICMP"];

/// Who talks to whom, and as whom the far end has to see it.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    /// Who opens the conversation.
    pub from: &'a Place,
    /// With whom.
    pub to: &'a Place,
    /// Whose address the far end sees.
    pub seen: &'a Place,
}

/// What a cell came to: for IPv4 and IPv6 the fault of each column, where there is one.
#[derive(Debug)]
pub struct Measured<'a> {
    /// The cell.
    pub cell: Cell<'a>,
    /// How long it took.
    pub took: Duration,
    faults: [[Option<String>; 3]; 2],
}

impl Measured<'_> {
    /// What does not work, a line each.
    pub fn faults(&self) -> impl Iterator<Item = String> + '_ {
        let Cell { from, to, .. } = self.cell;
        let cells = to.addresses.iter().zip(&self.faults);
        cells.flat_map(move |(address, faults)| {
            let faults = COLUMNS.iter().zip(faults);
            faults.filter_map(move |(column, fault)| {
                let fault = fault.as_ref()?;
                Some(format!(
                    "{} ({}) to {} ({address}), {column}: {fault}",
                    from.kind(),
                    from.name,
                    to.kind()
                ))
            })
        })
    }
}

/// Measures a cell with real packets: 1 MB of TCP each way, a small datagram and one that fills the path's MTU each way,
/// an echo that fills it; none may be cut.
#[must_use]
pub fn measure(cell: Cell<'_>) -> Measured<'_> {
    let began = std::time::Instant::now();
    let mtu = mtu(cell.from).min(mtu(cell.to));
    let of = |n: usize| {
        let Some((address, seen)) = cell.to.addresses.get(n).zip(cell.seen.addresses.get(n)) else {
            return [const { None }; 3];
        };
        [tcp(cell, *address, *seen), udp(cell, *address, *seen, mtu), icmp(cell, *address, mtu)]
    };
    let faults = [of(0), of(1)];
    Measured { cell, took: began.elapsed(), faults }
}

/// MTU of the interface that a place's packets within the cluster take: bytes.
fn mtu(place: &Place) -> usize {
    let device = if place.net == Net::Wire { BRIDGE_FABRIC } else { &place.device };
    traffic::mtu(&place.netns, device).unwrap()
}

fn tcp(cell: Cell<'_>, address: IpAddr, seen: IpAddr) -> Option<String> {
    match traffic::exchange(&cell.from.netns, &cell.to.netns, address, MEGABYTE) {
        Ok(exchange) if !exchange.is_whole() || exchange.arrived.bytes != MEGABYTE => {
            Some(format!("bytes were lost or changed: {exchange:?}"))
        }
        Ok(exchange) if exchange.seen == seen => None,
        Ok(exchange) => Some(format!("seen as {} and not as {seen}", exchange.seen)),
        Err(error) => Some(error.to_string()),
    }
}

/// The kernel sets "don't fragment" on datagrams that fit the interface.
fn udp(cell: Cell<'_>, address: IpAddr, seen: IpAddr, mtu: usize) -> Option<String> {
    for bytes in [100, traffic::largest_echo(mtu, address)] {
        match traffic::datagrams(&cell.from.netns, &cell.to.netns, address, bytes) {
            Ok(source) if source == seen => {}
            Ok(source) => return Some(format!("seen as {source} and not as {seen}")),
            Err(error) => return Some(error.to_string()),
        }
    }
    None
}

fn icmp(cell: Cell<'_>, address: IpAddr, mtu: usize) -> Option<String> {
    let bytes = traffic::largest_echo(mtu, address);
    let echo = traffic::echo(&cell.from.netns, address, bytes).unwrap();
    (!echo.status.success())
        .then(|| format!("no echo of {mtu} bytes: {}", String::from_utf8_lossy(&echo.stdout).trim()))
}

/// The table, for people.
#[must_use]
pub fn table(cells: &[Measured<'_>]) -> String {
    let columns = COLUMNS.map(|column| format!("{column:<5}")).concat();
    let mut text = format!("{:<18} {:<18} {:<40} {:<16}{:<16}\n", "FROM", "TO", "SEEN AS", "IPv4", "IPv6");
    let _ = writeln!(text, "{:<78} {columns} {columns}", "");
    for Measured { cell, faults, .. } in cells {
        let seen = cell.seen.addresses.map(|address| address.to_string()).join(" ");
        let _ = write!(text, "{:<18} {:<18} {seen:<40} ", cell.from.kind(), cell.to.kind());
        for family in faults {
            for fault in family {
                let _ = write!(text, "{:<5}", if fault.is_none() { "ok" } else { "FAIL" });
            }
            text.push(' ');
        }
        text.push('\n');
    }
    text
}

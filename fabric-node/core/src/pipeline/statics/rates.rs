//! What a pod may send and receive, held by meters of the switch.
//!
//! Out of the pod, the flows of Guard that let its addresses through count what they let through: ARP and neighbour
//! discovery pass uncounted, so that a pod that sends too much does not lose its neighbours. Into it, flows of Output
//! count what its end has allowed: what is denied takes nothing from the pod. What the switch copies to everybody on a
//! VLAN is not counted for those who hear it.
//!
//! A meter drops what is above its rate, so TCP holds the rate only if what it could not send while it waited for a
//! retransmission is not lost to it: a burst of more than the 200 ms that Linux waits at the least. Measured with OVS
//! 3.1 in userspace at 10, 50 and 200 Mbit/s: with a burst of 50 ms, TCP gets a quarter of the rate; with 200 ms, 90 to
//! 96 %, with 400 ms, 91 to 100 %. With traffic both ways, acknowledgements would be dropped among the rest, and TCP got
//! 75 to 98 %. So large frames pass a meter of their own first, and leave the small ones some room in that of all: 92 to
//! 101 % over five seconds, both ways at once. Headers are 4 to 6 % of a full frame, and meters count them; the meter of
//! large frames is set that much higher, so that the figure is what reaches the applications. Small frames are headers
//! for a third and more, so that they carry no more than the figure either when they fill the meter of all.
//!
//! A queue on the port (HTB) loses nothing, but holds the pod's own acknowledgements up behind what it receives, which
//! halved what it could send; and in userspace the switch sends to all ports by one socket, whose buffer one full queue
//! takes from all pods.

use openflow::message::{BURST, Band, BandKind, KBPS, MeterCommand, MeterConfig, MeterMod};
use openflow::{Action, Flow, Match};

use super::super::fields::{flags, go, set_flags};
use super::super::site::LocalPod;
use super::super::vocabulary::{
    COUNTED, Kind, LARGE, REG_OUTPUT, RateMeters, SMALL_LENGTH, Table, large, priority, rate_in, rate_out,
};
use super::flow;

/// Kilobits of burst that the slowest pod gets: ten full frames.
const LEAST_BURST: u32 = 120;
/// Above the figure, of which so many hundredths are the headers of large frames, and the rest is for small ones.
const HEADERS: u64 = 4;
const ROOM: u64 = 16;

/// The meters of a pod's rates; one that exists already gets the rate.
pub fn rate_meters(pod: &LocalPod) -> Vec<MeterMod> {
    let limits = [(rate_out(pod.zone), pod.rates.out), (rate_in(pod.zone), pod.rates.into)];
    let meters = limits.into_iter().filter_map(|(ids, rate)| Some((ids, rate?)));
    meters
        .flat_map(|(ids, rate)| [(ids.large, more(rate, HEADERS)), (ids.all, more(rate, HEADERS + ROOM))])
        .flat_map(|(id, rate)| rate_meter(id, rate))
        .collect()
}

/// Notes the size of what the pod sends, where that counts.
pub fn size_sent(pod: &LocalPod) -> Option<Action> {
    pod.rates.out.map(|_| size())
}

/// Notes the size of what is on its way to the pod, where that counts.
pub fn size_received(pod: &LocalPod) -> Option<Action> {
    pod.rates.into.map(|_| size())
}

/// What counts the packets that the pod sends, and which: nothing counts any where nothing limits it.
pub fn counts_sent(pod: &LocalPod) -> Vec<(Match, Vec<Action>)> {
    if pod.rates.out.is_none() {
        return vec![(Match::new(), Vec::new())];
    }
    by_size(rate_out(pod.zone)).into_iter().map(|(size, count)| (flags(size, LARGE), count)).collect()
}

/// Counts what goes to the pod, before it is sent.
pub fn count_received(pod: &LocalPod) -> Vec<Flow> {
    if pod.rates.into.is_none() {
        return Vec::new();
    }
    let counted = by_size(rate_in(pod.zone)).into_iter().map(|(size, mut actions)| {
        let matches = flags(size, LARGE | COUNTED).with(REG_OUTPUT, pod.port);
        actions.extend([set_flags(COUNTED, COUNTED), go(Table::Output)]);
        flow(Kind::Pod, u64::from(pod.zone), Table::Output, priority::FIRST, matches, actions)
    });
    counted.collect()
}

/// What counts large frames and others, by the bit that tells them apart.
fn by_size(meters: RateMeters) -> [(u32, Vec<Action>); 2] {
    let all = Action::Meter(meters.all);
    [(LARGE, vec![Action::Meter(meters.large), all.clone()]), (0, vec![all])]
}

fn size() -> Action {
    Action::CheckPktLarger { dst: large(), bytes: SMALL_LENGTH }
}

fn rate_meter(id: u32, bits: u64) -> [MeterMod; 2] {
    let kilobits = |bits: u64| u32::try_from(bits.div_ceil(1000)).unwrap_or(u32::MAX);
    let (rate, burst) = (kilobits(bits).max(1), kilobits(bits / 5 * 2).max(LEAST_BURST));
    let meter =
        MeterConfig { id, flags: KBPS | BURST, bands: vec![Band { kind: BandKind::Drop, rate, burst }] };
    [MeterCommand::Add, MeterCommand::Modify].map(|command| MeterMod { command, meter: meter.clone() })
}

/// So many hundredths more.
fn more(bits: u64, hundredths: u64) -> u64 {
    bits.saturating_add((bits / 100).saturating_mul(hundredths))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(bits: u64) -> (u32, u32) {
        let [added, changed] = rate_meter(7, bits);
        assert_eq!((added.command, changed.command), (MeterCommand::Add, MeterCommand::Modify));
        assert_eq!(added.meter, changed.meter);
        let [band] = added.meter.bands[..] else { panic!("one band") };
        (band.rate, band.burst)
    }

    #[test]
    fn headers_come_on_top_and_then_small_frames_and_a_burst_is_two_fifths_of_a_second() {
        assert_eq!(more(10_000_000, HEADERS), 10_400_000);
        assert_eq!(more(u64::MAX, HEADERS + ROOM), u64::MAX);
        assert_eq!(band(10_400_000), (10_400, 4_160));
    }

    #[test]
    fn a_slow_pod_can_send_a_few_full_frames_at_once_and_the_fastest_has_the_largest_number() {
        assert_eq!(band(0), (1, LEAST_BURST));
        assert_eq!(band(1), (1, LEAST_BURST));
        assert_eq!(band(u64::MAX), (u32::MAX, u32::MAX));
    }
}

//! What a pod may send and receive, held by meters of the switch.
//!
//! Out of the pod, the flows of Guard that let its addresses through count what they let through: ARP and neighbour
//! discovery pass uncounted, so that a pod that sends too much does not lose its neighbours. Into it, a flow of Output
//! counts what its end has allowed: what is denied takes nothing from the pod. What the switch copies to everybody on a
//! VLAN is not counted for those who hear it.
//!
//! A meter drops what is above its rate, so TCP holds the rate only if what it could not send while it waited for a
//! retransmission is not lost to it: a burst of at least the 200 ms that Linux waits at the least. Measured with OVS 3.1
//! in userspace and 10, 50 and 200 Mbit/s: with 50 ms of burst, TCP gets a quarter of the rate; with 200 ms, 90 to 96 %,
//! with 400 ms, 91 to 100 % one way and 88 to 98 % both ways at once. Headers are 4 to 6 % of a full frame, and a meter
//! counts them; it is set that much higher, so that the figure is what reaches the applications.
//!
//! A queue on the port (HTB) loses nothing, but holds the pod's own acknowledgements up behind what it receives, which
//! halved what it could send; and in userspace the switch sends to all ports by one socket, whose buffer one full queue
//! takes from all pods.

use openflow::message::{BURST, Band, BandKind, KBPS, MeterCommand, MeterConfig, MeterMod};
use openflow::{Action, Flow};

use super::super::fields::{flags, go, set_flags};
use super::super::site::LocalPod;
use super::super::vocabulary::{COUNTED, Kind, REG_OUTPUT, Table, priority, rate_in, rate_out};
use super::flow;

/// Kilobits of burst that the slowest pod gets: ten full frames.
const LEAST_BURST: u32 = 120;

/// The meters of a pod's rates; one that exists already gets the rate.
pub fn rate_meters(pod: &LocalPod) -> Vec<MeterMod> {
    let limits = [(rate_out(pod.zone), pod.rates.out), (rate_in(pod.zone), pod.rates.into)];
    limits.into_iter().filter_map(|(id, rate)| Some(rate_meter(id, rate?))).flatten().collect()
}

/// Counts what the pod sends.
pub fn count_sent(pod: &LocalPod) -> Option<Action> {
    pod.rates.out.map(|_| Action::Meter(rate_out(pod.zone)))
}

/// Counts what goes to the pod, before it is sent.
pub fn count_received(pod: &LocalPod) -> Option<Flow> {
    pod.rates.into?;
    let matches = flags(0, COUNTED).with(REG_OUTPUT, pod.port);
    let actions = vec![Action::Meter(rate_in(pod.zone)), set_flags(COUNTED, COUNTED), go(Table::Output)];
    Some(flow(Kind::Pod, u64::from(pod.zone), Table::Output, priority::FIRST, matches, actions))
}

fn rate_meter(id: u32, bits: u64) -> [MeterMod; 2] {
    let kilobits = |bits: u64| u32::try_from(bits.div_ceil(1000)).unwrap_or(u32::MAX);
    let rate = kilobits(bits.saturating_add(bits / 25)).max(1);
    let burst = kilobits(bits / 5 * 2).max(LEAST_BURST);
    let meter =
        MeterConfig { id, flags: KBPS | BURST, bands: vec![Band { kind: BandKind::Drop, rate, burst }] };
    [MeterCommand::Add, MeterCommand::Modify].map(|command| MeterMod { command, meter: meter.clone() })
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
    fn headers_come_on_top_and_a_burst_is_two_fifths_of_a_second() {
        assert_eq!(band(10_000_000), (10_400, 4_000));
    }

    #[test]
    fn a_slow_pod_can_send_a_few_full_frames_at_once_and_the_fastest_has_the_largest_number() {
        assert_eq!(band(0), (1, LEAST_BURST));
        assert_eq!(band(1), (1, LEAST_BURST));
        assert_eq!(band(u64::MAX), (u32::MAX, u32::MAX));
    }
}

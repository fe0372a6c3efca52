//! Measurements by `ping` from inside a pod.

use std::net::IpAddr;
use std::process::Command;

use crate::lab::command::command;
use crate::lab::node::{OUTSIDE, addresses};
use crate::lab::record::PodRecord;
use crate::lab::{Lab, LabError, interrupt, netns};

/// Echoes after the first one.
const LATER: usize = 9;

/// Round trips of one conversation, milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Of the first packet, unless it was lost.
    pub first: Option<f64>,
    /// Median of those after it.
    pub later: Option<f64>,
    /// Packets sent.
    pub sent: usize,
    /// Packets answered.
    pub answered: usize,
}

/// Who answers whom: names of the columns, and for each row its name and the families
/// that answered in each column (`None` on the diagonal).
#[derive(Debug, Clone, PartialEq)]
pub struct Reach {
    /// Names of the peers.
    pub columns: Vec<String>,
    /// Rows: a pod, and what it reached.
    pub rows: Vec<(String, Vec<Option<String>>)>,
}

/// The address of a pod in a family.
pub fn address(pod: &PodRecord, family: u8) -> Option<IpAddr> {
    pod.ips().into_iter().find(|ip| ip.is_ipv4() == (family == 4))
}

/// Pings a peer some times in one conversation.
///
/// # Errors
/// Where `ping` cannot be run.
pub fn round_trips(lab: &Lab, from: &PodRecord, to: &PodRecord, family: u8) -> Result<Round, LabError> {
    interrupt::check()?;
    let sent = LATER + 1;
    let Some(address) = address(to, family) else {
        return Ok(Round { first: None, later: None, sent: 0, answered: 0 });
    };
    let count = sent.to_string();
    let mut ping = ping(address);
    ping.args(["-c", &count, "-i", "0.05"]);
    let output = lab.exec_pod(&from.pod, &mut ping)?;
    let times = times(&String::from_utf8_lossy(&output.stdout));
    let mut later: Vec<f64> =
        times.iter().filter(|(sequence, _)| *sequence > 1).map(|(_, time)| *time).collect();
    later.sort_by(f64::total_cmp);
    let first = times.iter().find(|(sequence, _)| *sequence == 1).map(|(_, time)| *time);
    Ok(Round { first, later: later.get(later.len() / 2).copied(), sent, answered: times.len() })
}

/// Sequence numbers and times in what `ping` printed.
fn times(text: &str) -> Vec<(u32, f64)> {
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split(' ').next().map(str::to_owned)
    };
    let lines = text.lines().filter(|line| !line.contains("DUP!"));
    lines
        .filter_map(|line| {
            Some((field(line, "icmp_seq=")?.parse().ok()?, field(line, "time=")?.parse().ok()?))
        })
        .collect()
}

fn ping(to: IpAddr) -> Command {
    let to = to.to_string();
    command(["ping", "-n", "-W", "1", to.as_str()])
}

/// Pings every pod from every pod, and from each the node it is on and the world outside.
///
/// # Errors
/// Where `ping` cannot be run.
pub fn reach(lab: &Lab, pods: &[PodRecord]) -> Result<Reach, LabError> {
    interrupt::check()?;
    let names = pods.iter().map(|pod| pod.pod.clone());
    let columns = names.chain(["own node".to_owned(), "outside".to_owned()]).collect();
    let rows = std::thread::scope(|scope| {
        let threads: Vec<_> = pods.iter().map(|pod| scope.spawn(|| row(lab, pod, pods))).collect();
        let rows = threads.into_iter().map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        rows.collect::<Result<Vec<_>, LabError>>()
    })?;
    Ok(Reach { columns, rows })
}

type Row = (String, Vec<Option<String>>);

fn row(lab: &Lab, from: &PodRecord, pods: &[PodRecord]) -> Result<Row, LabError> {
    let own = lab.node(&from.node)?.addresses();
    let mut cells = Vec::new();
    for to in pods {
        let targets = [4, 6].into_iter().filter_map(|family| address(to, family));
        let cell = || answered(from, targets.collect::<Vec<_>>());
        cells.push(if to.pod == from.pod { None } else { Some(cell()?) });
    }
    for targets in [own, addresses(OUTSIDE)] {
        let has = |target: &IpAddr| address(from, if target.is_ipv4() { 4 } else { 6 }).is_some();
        cells.push(Some(answered(from, targets.into_iter().filter(has).collect())?));
    }
    Ok((from.pod.clone(), cells))
}

/// The families over which there was an answer.
fn answered(from: &PodRecord, targets: Vec<IpAddr>) -> Result<String, LabError> {
    let mut families = Vec::new();
    for target in targets {
        let output = netns::output_in(&from.netns, ping(target).args(["-c", "1"]), &[])?;
        families.push(match (output.status.success(), target.is_ipv4()) {
            (true, true) => "4",
            (true, false) => "6",
            (false, _) => "-",
        });
    }
    Ok(families.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_what_ping_prints() {
        let text = "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.\n\
            64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.605 ms\n\
            64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.700 ms (DUP!)\n\
            64 bytes from 10.0.0.1: icmp_seq=3 ttl=64 time=12 ms\n";
        assert_eq!(times(text), [(1, 0.605), (3, 12.0)]);
    }
}

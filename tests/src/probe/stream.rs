//! A TCP connection that iperf3 keeps busy, with what was sent again second by second.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::bed::Bed;
use crate::lab::command::command;
use crate::lab::netns;
use crate::trial::wait;

/// A hundredth of what the switch could carry: the processor is for what the test does meanwhile. The kernel keeps to it
/// packet by packet: whoever makes up for a pause by a burst loses packets to that.
const RATE: &str = "10M";
/// Longer than any test; it is ended before.
const SECONDS: &str = "600";

/// A second of the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Seconds.
    pub seconds: usize,
    /// Seconds in which nothing was carried.
    pub silent: usize,
    /// Bytes.
    pub bytes: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
}

/// The connection; it ends when this is dropped.
#[derive(Debug)]
pub struct Stream {
    server: Child,
    client: Child,
    /// Bytes and retransmitted segments of each second.
    log: Arc<Mutex<Vec<(u64, u64)>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    /// Starts it between two pods and returns once it carries bytes.
    #[must_use]
    pub fn start(bed: &Bed, from: &str, to: &str) -> Self {
        let (from, to) = (bed.place(from), bed.place(to));
        let ip = to.addresses.iter().find(|ip| ip.is_ipv4()).unwrap().to_string();
        let mut server = command(["iperf3", "-s", "-1", "-B", &ip]);
        let server = netns::spawn_in(&to.netns, server.stdout(Stdio::null())).unwrap();
        wait("iperf3 listens", Duration::from_secs(10), || {
            let listening = netns::output_in(&to.netns, &mut command(["ss", "-Hltn", "sport = :5201"]), &[]);
            !listening.unwrap().stdout.is_empty()
        });
        let mut client = command([
            "iperf3",
            "-c",
            &ip,
            "--fq-rate",
            RATE,
            "-t",
            SECONDS,
            "-i",
            "1",
            "-f",
            "k",
            "--forceflush",
        ]);
        let mut client = netns::spawn_in(&from.netns, client.stdout(Stdio::piped())).unwrap();
        let (log, output) = (Arc::default(), client.stdout.take().unwrap());
        let its_log = Arc::clone(&log);
        let reader = thread::spawn(move || read(output, &its_log));
        let stream = Self { server, client, log, reader: Some(reader) };
        stream.wait(Duration::from_secs(1));
        stream
    }

    /// Seconds that it has lasted.
    #[must_use]
    pub fn seconds(&self) -> usize {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Bytes and retransmitted segments of each second from one on.
    #[must_use]
    pub fn since(&self, second: usize) -> Vec<(u64, u64)> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.get(second..).unwrap_or_default().to_vec()
    }

    /// Waits until it has lasted this long.
    pub fn wait(&self, lasted: Duration) {
        let seconds = usize::try_from(lasted.as_secs()).unwrap_or(usize::MAX);
        wait("iperf3 carries bytes", lasted + Duration::from_secs(10), || self.seconds() >= seconds);
    }

    /// Ends it: what it carried before and after that second.
    #[must_use]
    pub fn finish(self, second: usize) -> (Total, Total) {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (before, after) = log.split_at(second.min(log.len()));
        (total(before), total(after))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        for child in [&mut self.client, &mut self.server] {
            // Those that have ended already need neither.
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(reader) = self.reader.take() {
            // One that panicked has said so.
            let _ = reader.join();
        }
    }
}

fn total(seconds: &[(u64, u64)]) -> Total {
    let mut total = Total { seconds: seconds.len(), ..Total::default() };
    for (bytes, retransmitted) in seconds {
        total.bytes += bytes;
        total.retransmitted += retransmitted;
        total.silent += usize::from(*bytes == 0);
    }
    total
}

fn read(output: ChildStdout, log: &Mutex<Vec<(u64, u64)>>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some(second) = second(&line) {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(second);
        }
    }
}

/// `[  5]   1.00-2.00   sec  1220 KBytes  9994 Kbits/sec    0   1.55 MBytes`: bytes and retransmitted segments. Lines of
/// the sum at the end name who it is of.
fn second(line: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = line.split("sec").next()?.split_whitespace().collect();
    let (begin, end) = words.last()?.split_once('-')?;
    let length = end.parse::<f64>().ok()? - begin.parse::<f64>().ok()?;
    if length > 2.0 || line.contains("sender") || line.contains("receiver") {
        return None;
    }
    let rest: Vec<&str> = line.split_once("sec")?.1.split_whitespace().collect();
    let [amount, unit, _, _, again, ..] = rest[..] else { return None };
    let factor: u64 = match unit {
        "Bytes" => 1,
        "KBytes" => 1 << 10,
        "MBytes" => 1 << 20,
        "GBytes" => 1 << 30,
        _ => return None,
    };
    let whole: u64 = amount.split('.').next()?.parse().ok()?;
    let some = u64::from(amount.bytes().any(|byte| matches!(byte, b'1'..=b'9')));
    Some(((whole * factor).max(some), again.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::second;

    #[test]
    fn seconds_are_read_and_sums_passed_over() {
        let line = "[  5]   1.00-2.00   sec  1.25 MBytes  10486 Kbits/sec    3   1.55 MBytes       ";
        assert_eq!(second(line), Some((1 << 20, 3)));
        assert_eq!(
            second("[  5]   2.00-3.00   sec  0.00 Bytes  0.00 Kbits/sec    0   1.55 MBytes"),
            Some((0, 0))
        );
        assert_eq!(
            second("[  5]   0.00-9.00   sec  9.5 MBytes  8486 Kbits/sec    3             sender"),
            None
        );
        assert_eq!(second("[ ID] Interval           Transfer     Bitrate         Retr  Cwnd"), None);
    }
}

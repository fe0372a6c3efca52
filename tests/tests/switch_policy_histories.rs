//! Generated histories on real switches: edit, probe, edit, probe. What is measured equals what the oracle says; nothing
//! of a new conversation that is forbidden arrives once the agents have reported the edit applied; established ones stop
//! within a second; those that stay allowed lose nothing.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use fabric_tests::frames::segment::TCP;
use fabric_tests::oracle::{Answer, Cluster};
use fabric_tests::probe::ask::UDP;
use fabric_tests::probe::history::{Author, CIDRS, Edit, TCP_PORTS, UDP_PORTS, addresses, steady_policy};
use fabric_tests::probe::stream::Stream;
use fabric_tests::probe::{Bed, Finding, Outcome, Question, Shower, Talk, ask, object, serve};
use fabric_tests::traffic::counter;
use serde_json::{Value, json};

/// Edits of a history.
const EDITS: usize = 14;
/// Between two questions.
const PACE: Duration = Duration::from_millis(2);
/// A conversation that is denied gets this long, and one that is allowed.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(4));
/// The kernel sends a SYN again after 1 s: an answer below this took none.
const NO_RETRANSMISSION: Duration = Duration::from_millis(900);
/// On a machine that is busy with other things, one first packet in so many may be lost, one message of those that
/// follow, and one segment of a stream.
const LOSSES: (usize, u64, u64) = (100, 500, 250);
/// Bytes of a full segment of the streams.
const SEGMENT: u64 = 1_398;
/// Established conversations that are forbidden stop within this after the edit was written.
const STOP: Duration = Duration::from_secs(1);
/// A witness may be so much behind; for so long at least nothing is heard of those that have stopped.
const SILENCE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(600));
/// For so long a switch may be busy with a port that comes or goes.
const PORTS_CHANGE: Duration = Duration::from_millis(500);
/// Established conversations at most.
const TALKS: usize = 24;

#[test]
fn what_is_measured_is_what_the_oracle_says_after_every_edit() {
    let seeds = std::env::var("FABRIC_SEEDS").unwrap_or_else(|_| "1,2,4".to_owned());
    for seed in seeds.split(',').map(|seed| seed.trim().parse().unwrap()) {
        println!("FABRIC_SEEDS={seed}");
        History::begin(seed).run();
    }
}

/// Every conversation that is probed, with what the oracle says of it.
type Matrix = BTreeMap<Question, Answer>;

/// One history under way.
struct History {
    bed: Bed,
    author: Author,
    shower: Shower,
    talks: Vec<Talk>,
    /// Forbidden, and so to be silent: with the moment from which on they must be.
    silenced: Vec<(Talk, Instant)>,
    matrix: Matrix,
    figures: Figures,
}

/// What is told at the end.
#[derive(Debug, Default)]
struct Figures {
    edits: usize,
    /// When each was written, and whether a port came or went by it.
    written: Vec<(Instant, bool)>,
    probes: usize,
    applied: Vec<Duration>,
    stopped: Vec<Duration>,
    talks: usize,
    messages: u64,
    /// Datagrams that did not come back.
    lost: u64,
    slowest: Duration,
    /// Answers that took a retransmission.
    late: usize,
}

impl History {
    fn begin(seed: u64) -> Self {
        let mut author = Author::new(seed);
        let mut objects = author.beginning();
        objects.push(object::network(&CIDRS));
        objects.extend(steady());
        let mut bed = Bed::up("swhist", 2, json!({}), objects);
        println!("  begins applied after {:?}", bed.applied());
        let matrix = matrix(&bed.cluster);
        serve(&bed, matrix.keys());
        let shower = Shower::start();
        Self { bed, author, shower, talks: vec![], silenced: vec![], matrix, figures: Figures::default() }
    }

    fn run(mut self) {
        let streams = [("steady/s", "steady/t"), ("steady/s", "steady/u")];
        let streams = streams.map(|(from, to)| Stream::start(&self.bed, from, to));
        self.measure("the beginning");
        self.talk();
        for stream in &streams {
            stream.wait(Duration::from_secs(5));
        }
        let (marks, calm_twice) = (streams.each_ref().map(Stream::seconds), self.received_twice());
        for number in 1..=EDITS {
            let edit = self.author.edit();
            println!("  {number}: {edit}");
            let seconds = streams.each_ref().map(Stream::seconds);
            self.edit(edit);
            let again = streams.iter().zip(seconds).map(|(stream, second)| {
                stream.since(second).iter().map(|(_, again)| *again).collect::<Vec<_>>()
            });
            let applied = self.figures.applied.last().copied().unwrap_or_default();
            println!(
                "  applied after {applied:?}; sent again, second by second: {:?}",
                again.collect::<Vec<_>>()
            );
        }
        let twice = self.received_twice() - calm_twice;
        let (calm, edited): (Vec<_>, Vec<_>) =
            streams.into_iter().zip(marks).map(|(stream, mark)| stream.finish(mark)).unzip();
        println!("  iperf3 without edits: {calm:?}, {calm_twice} segments arrived twice");
        println!("  iperf3 with edits: {edited:?}, {twice} segments arrived twice");
        let kept: Vec<Talk> = std::mem::take(&mut self.talks);
        for talk in kept {
            self.finish(talk);
        }
        println!("  shower: {} packets\n  {}", self.shower.sent(), self.figures);
        assert!(
            self.figures.late * LOSSES.0 <= self.figures.probes,
            "first packets were lost: {}",
            self.figures
        );
        let late: Vec<Duration> =
            self.figures.stopped.iter().copied().filter(|after| *after > STOP).collect();
        assert!(late.is_empty(), "forbidden conversations stopped after {late:?}");
        assert!(
            self.figures.lost * LOSSES.1 <= self.figures.messages,
            "messages were lost: {}",
            self.figures
        );
        // A segment that was sent again and arrived twice was late, as on a busy machine, and not lost.
        let again: u64 = edited.iter().map(|total| total.retransmitted).sum();
        let segments = edited.iter().map(|total| total.bytes / SEGMENT).sum::<u64>();
        let lost = again.saturating_sub(twice);
        println!("  {lost} of {segments} segments lost with edits");
        assert!(lost * LOSSES.2 <= segments, "{lost} of {segments} segments were lost");
        assert!(edited.iter().all(|total| total.silent == 0), "{edited:?}");
    }

    /// Segments of the streams' sender that their receivers said to have got twice (RFC 2883).
    fn received_twice(&self) -> u64 {
        let sender = &self.bed.place("steady/s").netns;
        let counters = ["TCPDSACKRecv", "TCPDSACKOfoRecv"];
        counters.iter().map(|name| counter(sender, "TcpExt", name).unwrap()).sum()
    }

    fn edit(&mut self, edit: Edit) {
        let before = std::mem::take(&mut self.matrix);
        let places: BTreeMap<String, usize> =
            self.bed.places.iter().map(|(name, place)| (name.clone(), place.witness.noted())).collect();
        let denied = |matrix: &Matrix| -> BTreeSet<Question> {
            matrix.iter().filter(|(_, answer)| **answer == Answer::Deny).map(|(q, _)| q.clone()).collect()
        };
        let old = denied(&before);
        self.leave_pods(&edit);
        let written = Instant::now();
        self.figures.written.push((written, matches!(edit, Edit::Born(_) | Edit::Dead(_))));
        self.write(edit.clone());
        let after = matrix(&self.bed.cluster);
        let new = denied(&after);
        self.shower.set(&self.bed, old.union(&new).filter(|question| after.contains_key(question)));
        let took = self.bed.applied();
        let applied = Instant::now();
        self.figures.applied.push(took);
        self.shower.set(&self.bed, &new);
        self.matrix = after;
        let served: BTreeSet<IpAddr> = before.keys().map(|question| question.to_address).collect();
        let fresh: Vec<&Question> =
            self.matrix.keys().filter(|question| !served.contains(&question.to_address)).collect();
        serve(&self.bed, fresh);
        let forbidden = self.forbidden_talks();
        self.measure(&format!("{edit}"));
        self.shower_held(&places, (&old, &new), (written, applied), &edit);
        std::thread::sleep((applied + SILENCE.0 + SILENCE.1).saturating_duration_since(Instant::now()));
        self.talks_stopped(forbidden, (written, applied), &places, &edit);
        self.talk();
        self.figures.edits += 1;
    }

    /// A pod that goes has ended its conversations, and others theirs with it.
    fn leave_pods(&mut self, edit: &Edit) {
        let Edit::Dead(pod) = edit else { return };
        let gone = self.bed.place(pod).addresses.clone();
        let of_pod = |question: &Question| {
            gone.contains(&question.from_address) || gone.contains(&question.to_address)
        };
        let (ended, kept) =
            std::mem::take(&mut self.talks).into_iter().partition(|talk| of_pod(&talk.question));
        self.talks = kept;
        ended.into_iter().for_each(|talk: Talk| self.finish(talk));
        self.silenced.retain(|(talk, _)| !of_pod(&talk.question));
        let left: Vec<Question> = matrix(&self.bed.cluster)
            .into_iter()
            .filter(|(question, answer)| *answer == Answer::Deny && !of_pod(question))
            .map(|(question, _)| question)
            .collect();
        self.shower.set(&self.bed, &left);
    }

    fn write(&mut self, edit: Edit) {
        match edit {
            Edit::Put(object) => self.bed.put(object),
            Edit::Remove(kind, namespace, name) => self.bed.remove(kind, &namespace, &name),
            Edit::Born(object) => self.bed.add_pod(object),
            Edit::Dead(pod) => self.bed.remove_pod(&pod),
        }
    }

    /// Asks everything, and holds the answers against the oracle's.
    fn measure(&mut self, when: &str) {
        let questions: Vec<Question> = self.matrix.keys().cloned().collect();
        let mut findings: BTreeMap<Question, Finding> = self.asked(&questions).into_iter().collect();
        // Whoever is allowed and hears nothing tries again, as TCP does by itself.
        let unheard = |(question, finding): &(&Question, &Finding)| {
            self.matrix[*question] == Answer::Allow && finding.outcome == Outcome::Silent
        };
        let again: Vec<Question> =
            findings.iter().filter(unheard).map(|(question, _)| question.clone()).collect();
        self.figures.late += again.len();
        again.iter().for_each(|question| println!("  asked again: {question}: {:?}", findings[question]));
        findings.extend(self.asked(&again));
        let mut faults = Vec::new();
        for (question, finding) in &findings {
            let wanted = self.matrix[question];
            if finding.answer() != Some(wanted) {
                faults.push(format!("{question}: wanted {wanted}, found {finding:?}"));
            }
            if let Outcome::Reached(after) = finding.outcome {
                self.figures.slowest = self.figures.slowest.max(after);
                self.figures.late += usize::from(after >= NO_RETRANSMISSION);
            }
        }
        self.figures.probes += questions.len();
        assert!(
            faults.is_empty(),
            "after {when}\n{} of {}:\n{}",
            faults.len(),
            questions.len(),
            faults.join("\n")
        );
    }

    fn asked(&self, questions: &[Question]) -> Vec<(Question, Finding)> {
        let findings = ask(&self.bed, questions, PACE, |question| match self.matrix[question] {
            Answer::Deny => PATIENCE.0,
            Answer::Allow if question.protocol == UDP => PATIENCE.0,
            Answer::Allow => PATIENCE.1,
        });
        questions.iter().cloned().zip(findings).collect()
    }

    /// What was sent throughout did not arrive where it must not.
    fn shower_held(
        &self,
        places: &BTreeMap<String, usize>,
        (old, new): (&BTreeSet<Question>, &BTreeSet<Question>),
        (written, applied): (Instant, Instant),
        edit: &Edit,
    ) {
        let mut faults = Vec::new();
        for (name, place) in &self.bed.places {
            for seen in place.witness.since(places.get(name).copied().unwrap_or_default()) {
                let Some((question, sent)) = seen.mark.and_then(|mark| self.shower.origin(mark)) else {
                    continue;
                };
                let open = match (old.contains(&*question), new.contains(&*question)) {
                    (true, true) => true,
                    (false, true) => sent > applied,
                    (true, false) => seen.at < written,
                    (false, false) => false,
                };
                if open {
                    let since = sent.saturating_duration_since(written);
                    faults
                        .push(format!("{question}: sent {since:?} after the edit was written, and arrived"));
                }
            }
        }
        assert!(
            faults.is_empty(),
            "{edit}, applied {:?} after it was written: {} packets:\n{}",
            applied - written,
            faults.len(),
            faults.join("\n")
        );
    }

    /// Conversations that the edit forbids.
    fn forbidden_talks(&mut self) -> Vec<Talk> {
        let allowed = |talk: &Talk| self.matrix.get(&talk.question) == Some(&Answer::Allow);
        let (kept, forbidden) = std::mem::take(&mut self.talks).into_iter().partition(allowed);
        self.talks = kept;
        forbidden
    }

    /// Those that were forbidden have stopped in time, and those that were before are still silent.
    fn talks_stopped(
        &mut self,
        forbidden: Vec<Talk>,
        (written, applied): (Instant, Instant),
        places: &BTreeMap<String, usize>,
        edit: &Edit,
    ) {
        // One that is allowed again may go on.
        let matrix = &self.matrix;
        self.silenced.retain(|(talk, _)| matrix.get(&talk.question) == Some(&Answer::Deny));
        self.silenced.extend(forbidden.into_iter().map(|talk| (talk, applied + SILENCE.0)));
        let mut faults = Vec::new();
        for (talk, from) in &self.silenced {
            let mut last: Option<Instant> = None;
            let mut late = Vec::new();
            for address in [talk.question.from_address, talk.question.to_address] {
                let place = self.bed.place_of(address);
                let seen = place.witness.since(places.get(&place.name).copied().unwrap_or_default());
                let of_talk: Vec<Instant> =
                    seen.iter().filter(|seen| talk.has(seen)).map(|seen| seen.at).collect();
                last = last.max(of_talk.last().copied());
                late.push(of_talk.iter().filter(|at| *at > from).count());
            }
            if let Some(last) = last {
                let after = last.saturating_duration_since(written);
                self.figures.stopped.push(after);
                if last > *from {
                    faults.push(format!(
                        "{} from {}: {} packets back and {} there that are late, the last {after:?} after it",
                        talk.question, talk.port, late[0], late[1]
                    ));
                }
            }
        }
        assert!(faults.is_empty(), "after {edit}\n{}", faults.join("\n"));
        // Long enough silent.
        let excess = self.silenced.len().saturating_sub(TALKS);
        self.silenced.drain(..excess);
    }

    /// Opens further conversations that are allowed.
    fn talk(&mut self) {
        let open: BTreeSet<&Question> = self.talks.iter().map(|talk| &talk.question).collect();
        let allowed: Vec<&Question> = self
            .matrix
            .iter()
            .filter(|(question, answer)| **answer == Answer::Allow && !open.contains(question))
            .map(|(question, _)| question)
            .collect();
        let wanted = TALKS.saturating_sub(open.len());
        let step = (allowed.len() / wanted.max(1)).max(1);
        let talks: Vec<Talk> = allowed
            .iter()
            .step_by(step)
            .take(wanted)
            .map(|question| Talk::open(&self.bed, question))
            .collect();
        self.figures.talks += talks.len();
        self.talks.extend(talks);
    }

    /// A conversation that stayed allowed was never interrupted.
    fn finish(&mut self, talk: Talk) {
        let question = talk.question.clone();
        let progress = talk.finish();
        self.figures.messages += progress.sent;
        if question.protocol == UDP {
            self.figures.lost += u64::try_from(progress.out.len()).unwrap_or_default();
        }
        // A userspace datapath whose ports change forwards nothing for a moment.
        let ports_change = |sent: &Instant| {
            let mut written = self.figures.written.iter();
            written.any(|(written, ports)| *ports && *sent >= *written && *sent < *written + PORTS_CHANGE)
        };
        let in_a_row = progress
            .out
            .iter()
            .any(|(number, sent)| progress.out.contains_key(&(number + 1)) && !ports_change(sent));
        let whole = if question.protocol == UDP { !in_a_row } else { progress.longest < STOP };
        let lost: Vec<String> =
            progress.out.iter().map(|(number, sent)| self.after_edit(*number, *sent)).collect();
        assert!(whole, "{question} stayed allowed: {progress:?}\n{}\n{}", lost.join("\n"), self.dropped());
    }

    /// When a message was sent, for people.
    fn after_edit(&self, message: u64, sent: Instant) -> String {
        let edit = self.figures.written.iter().rposition(|(written, _)| *written <= sent);
        match edit.and_then(|edit| Some((edit, self.figures.written.get(edit)?))) {
            Some((edit, (written, _))) => {
                format!("{message}: sent {:?} after edit {}", sent - *written, edit + 1)
            }
            None => format!("{message}: sent before any edit"),
        }
    }

    /// What the switches say of packets that they dropped for reasons of their own, and the kernel of those that came
    /// while a switch was busy with other things.
    fn dropped(&self) -> String {
        let nodes = self.bed.lab().nodes().iter();
        let told = nodes.map(|node| {
            let coverage = self.bed.trial.on_node(&node.name, &["ovs-appctl", "coverage/show"]);
            let lines = coverage.lines().filter(|line| line.contains("drop") || line.contains("upcall"));
            let sockets = self.bed.trial.on_node(&node.name, &["ss", "--packet", "--memory", "--no-header"]);
            let full = sockets.lines().filter(|line| line.contains(",d") && !line.contains(",d0)"));
            let told: Vec<&str> = lines.chain(full).map(str::trim).collect();
            format!("{}:\n{}\n", node.name, told.join("\n"))
        });
        told.collect()
    }
}

/// Pods that stay allowed whatever happens, by a policy that selects them.
fn steady() -> Vec<Value> {
    let pods = [("steady/s", "n1", 201), ("steady/t", "n1", 202), ("steady/u", "n2", 203)];
    let pods = pods.map(|(name, node, place)| object::pod(name, node, json!({}), &addresses(place)));
    let namespace = object::namespace("steady", json!({ "name": "steady" }), json!({}));
    [namespace, steady_policy(0)].into_iter().chain(pods).collect()
}

fn matrix(cluster: &Cluster) -> Matrix {
    let mut matrix = Matrix::new();
    for (protocol, ports) in [(TCP, TCP_PORTS), (UDP, UDP_PORTS)] {
        for port in ports {
            for pair in cluster.allowed_matrix(protocol, Some(port)) {
                let steady = pair.from.starts_with("steady/") || pair.to.starts_with("steady/");
                if pair.from != pair.to && !steady {
                    let (from_address, to_address) = (pair.from_address, pair.to_address);
                    let question = Question { from: pair.from, from_address, to_address, protocol, port };
                    matrix.insert(question, pair.answer);
                }
            }
        }
    }
    matrix
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let most = |times: &[Duration]| times.iter().max().copied().unwrap_or_default();
        write!(
            f,
            "{} edits, {} probes (slowest answer {:?}, {} after a retransmission); applied after at most {:?}; {} lasting conversations with {} \
             messages in those that stayed allowed, {} lost; {} were forbidden, last packet at most {:?} after the edit",
            self.edits,
            self.probes,
            self.slowest,
            self.late,
            most(&self.applied),
            self.talks,
            self.messages,
            self.lost,
            self.stopped.len(),
            most(&self.stopped)
        )
    }
}

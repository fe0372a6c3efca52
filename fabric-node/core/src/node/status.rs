//! What the node says of itself.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use openflow::Mac;
use policy::{IpClaim, World};

use super::book::Stage;
use super::reconcile::Trust;
use super::{AttachmentKey, Conflict, NarrowPath, Node, PoolUse, Tallies};
use crate::pipeline::learned::{PuntError, Verdict};
use crate::pipeline::site::{Rates, Segment};
use crate::pipeline::vocabulary::Table;

/// What became of a packet that came to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PuntOutcome {
    /// Its flows are in the switch, and it went on.
    Allowed,
    /// It did not go on: policy denies it, or no way leads to its destination.
    Denied,
    /// It waits for the other end to become known, and is counted again when it is answered.
    Waiting,
    /// Its time to live ended.
    Expired,
    /// It is no IP packet, or is cut short.
    Malformed,
    /// A flow that is not the agent's has sent it.
    Foreign,
}

impl PuntOutcome {
    /// Every outcome.
    pub const ALL: [PuntOutcome; 6] = [
        PuntOutcome::Allowed,
        PuntOutcome::Denied,
        PuntOutcome::Waiting,
        PuntOutcome::Expired,
        PuntOutcome::Malformed,
        PuntOutcome::Foreign,
    ];

    /// One word for people and metric labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PuntOutcome::Allowed => "allowed",
            PuntOutcome::Denied => "denied",
            PuntOutcome::Waiting => "waiting",
            PuntOutcome::Expired => "expired",
            PuntOutcome::Malformed => "malformed",
            PuntOutcome::Foreign => "foreign",
        }
    }
}

/// Packets that came to the agent, by table and outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PuntCounts {
    counts: BTreeMap<(&'static str, &'static str), u64>,
}

impl PuntCounts {
    pub(super) fn answered(&mut self, table: Table, verdict: Verdict) {
        let resumed = verdict == Verdict::Resume;
        self.count(table, if resumed { PuntOutcome::Allowed } else { PuntOutcome::Denied });
    }

    /// The packet waits for the other end to become known; it is counted again when it is answered.
    pub(super) fn waiting(&mut self, table: Table) {
        self.count(table, PuntOutcome::Waiting);
    }

    fn count(&mut self, table: Table, outcome: PuntOutcome) {
        *self.counts.entry((table.name(), outcome.name())).or_default() += 1;
    }

    pub(super) fn unreadable(&mut self, error: PuntError) {
        let outcome = match error {
            PuntError::Metadata(_) => PuntOutcome::Foreign,
            PuntError::NotPaused => PuntOutcome::Expired,
            PuntError::NotIp => PuntOutcome::Malformed,
        };
        self.count(Table::Punt, outcome);
    }

    /// Table, outcome and number of packets, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        self.counts.iter().map(|((table, outcome), packets)| (*table, *outcome, *packets))
    }
}

/// An attachment, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentStatus {
    /// Which attachment.
    pub key: AttachmentKey,
    /// `namespace/name`, where the runtime named the pod.
    pub pod: Option<String>,
    /// The Network.
    pub network: String,
    /// Addresses inside.
    pub addresses: Vec<IpAddr>,
    /// The VLAN that it is in; none on an overlay.
    pub segment: Option<Segment>,
    /// Hardware address inside.
    pub mac: Mac,
    /// MTU, bytes.
    pub mtu: u32,
    /// Its limits.
    pub rates: Rates,
    /// The host's end.
    pub host_name: String,
    /// OpenFlow port.
    pub port: Option<u32>,
    /// Conntrack zone.
    pub zone: u16,
    /// Whether it carries traffic.
    pub ready: bool,
}

/// The node as it is at one moment.
#[derive(Debug)]
pub struct StatusView<'a> {
    /// What is missing before containers can be attached.
    pub lacks: Option<String>,
    /// Whether the world has been read.
    pub world_synced: bool,
    /// Whether the database of Open vSwitch is reachable.
    pub ports_ready: bool,
    /// Whether the OpenFlow connection is up.
    pub switch_connected: bool,
    /// The cluster.
    pub world: &'a World,
    /// Attachments, in the order of their keys.
    pub attachments: Vec<AttachmentStatus>,
    /// Claims of this node.
    pub claims: Vec<&'a IpClaim>,
    /// Addresses whose claims are being made.
    pub claiming: Vec<IpAddr>,
    /// Addresses that rest.
    pub resting: Vec<IpAddr>,
    /// How the addresses of Networks are used, by Network and family.
    pub pools: Vec<PoolUse>,
    /// Static flows.
    pub static_flows: usize,
    /// Learned flows by table.
    pub learned_flows: BTreeMap<&'static str, usize>,
    /// Packets that came to the agent.
    pub punts: &'a PuntCounts,
    /// Denied packets and audited conversations by reason.
    pub tallies: &'a Tallies,
    /// Edits of the world that were taken since the start.
    pub edits: u64,
    /// Learned decisions that an edit made the agent judge again, since the start.
    pub judged: u64,
    /// Whether everything that follows from the edits taken is in the switch, and no connection is left that they
    /// forbid.
    pub settled: bool,
    /// Verdicts that are remembered without a flow, for the connections that they let in.
    pub dormant: usize,
    /// Paths to other nodes that carry less than the interface which they leave by.
    pub paths: Vec<NarrowPath>,
    /// Machines that claim addresses of pods of this node.
    pub conflicts: Vec<Conflict>,
    /// Announcements that defended an address against such a machine, since the start.
    pub defences: u64,
    /// What is wrong until somebody acts.
    pub problems: Vec<String>,
}

impl Node {
    /// The node as it is.
    #[must_use]
    pub fn status(&self, now: Instant) -> StatusView<'_> {
        let pods: usize =
            self.book.pods().map(|pod| crate::pipeline::statics::pod_flows(&self.site, pod).len()).sum();
        let mut learned_flows = BTreeMap::new();
        for learned in self.memory.iter() {
            let table = Table::from_id(learned.flow.table).map_or("?", Table::name);
            *learned_flows.entry(table).or_default() += 1;
        }
        StatusView {
            lacks: self.lacks(),
            world_synced: self.world_synced,
            ports_ready: self.ports_ready,
            switch_connected: self.switch_connected,
            world: &self.world,
            attachments: self.attachments(),
            claims: self.own_claims().collect(),
            claiming: self.leases.pending().collect(),
            resting: self.leases.resting(now).collect(),
            pools: self.pools(),
            static_flows: self.node_flows.len() + pods,
            learned_flows,
            punts: &self.counts,
            tallies: &self.tallies,
            edits: self.edits,
            judged: self.judged,
            settled: self.is_settled(),
            dormant: self.memory.dormant(),
            paths: self.narrow_paths(),
            conflicts: self.conflicts().collect(),
            defences: self.conflicts.defences,
            problems: self.problems(),
        }
    }

    /// What is wrong until somebody acts: cheap, as it looks at this node's own alone.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let noted =
            self.disputes.values().chain(self.unsized_pods.values()).chain(self.damaged.values()).cloned();
        noted
            .chain(self.misplaced())
            .chain(self.outdated())
            .chain(self.unheld_egress())
            .chain(self.too_narrow())
            .chain(self.conflicts().map(|conflict| conflict.problem()))
            .chain(self.walks.problem())
            .chain(self.limits.problem())
            .collect()
    }

    /// The cluster, once it has been read whole.
    #[must_use]
    pub fn world(&self) -> Option<&World> {
        self.world_synced.then_some(&self.world)
    }

    /// Edits of the world that were taken since the start.
    #[must_use]
    pub fn edits(&self) -> u64 {
        self.edits
    }

    /// How often machines that claim addresses of pods here came or went: problems change with it, without an edit.
    #[must_use]
    pub fn conflict_changes(&self) -> u64 {
        self.conflicts.changes
    }

    /// Whether everything that follows from the edits taken is in the switch, and no connection is left that they forbid.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.world_synced
            && self.up
            && self.trust == Trust::Sure
            && !self.is_committing()
            && self.walks.is_idle()
    }

    fn attachments(&self) -> Vec<AttachmentStatus> {
        let describe = |a: &super::book::Attachment| AttachmentStatus {
            key: a.key.clone(),
            pod: a.pod.as_ref().map(|pod| pod.reference().to_string()),
            network: a.network.to_string(),
            addresses: a.addresses.clone(),
            segment: a.segment.clone(),
            mac: a.mac,
            mtu: a.mtu,
            rates: a.rates,
            host_name: a.host_name.clone(),
            port: self.book_port(&a.key),
            zone: a.zone,
            ready: a.stage == Stage::Ready,
        };
        self.book.iter().map(describe).collect()
    }
}

//! What is under way in the rooms: each command that has an outcome is an errand, and its outcome comes back under the
//! errand's number.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use super::book::host_name;
use super::{AttachmentKey, Node, Outcome, Reply, RequestError, RequestId, Task};

/// What an outcome is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Errand {
    Claim {
        key: AttachmentKey,
        ip: IpAddr,
    },
    Release {
        ip: IpAddr,
    },
    Egress {
        ip: IpAddr,
    },
    Wire {
        key: AttachmentKey,
    },
    Recheck {
        key: AttachmentKey,
        id: RequestId,
    },
    Check {
        id: RequestId,
    },
    Resize {
        key: AttachmentKey,
    },
    Rebook,
    Prepare {
        key: AttachmentKey,
    },
    AddPort {
        key: AttachmentKey,
    },
    Install {
        key: AttachmentKey,
    },
    RemovePort {
        key: AttachmentKey,
    },
    Uninstall {
        key: AttachmentKey,
    },
    RemoveWire {
        key: AttachmentKey,
    },
    ForgetStranger {
        id: RequestId,
    },
    Reclaim {
        key: AttachmentKey,
        ip: IpAddr,
    },
    Orphan {
        name: String,
    },
    Dump,
    /// The commit of a compare.
    Compare,
    Commit,
    Flush,
    ReadConnections,
    Cut,
    EndConnections,
    EmptyZone {
        zone: u16,
    },
    Settle,
    Limit {
        zones: BTreeSet<u16>,
    },
}

impl Node {
    pub(super) fn handle_outcome(&mut self, task: Task, outcome: Outcome, now: Instant) {
        let Some(errand) = self.errands.remove(&task) else { return };
        match (errand, outcome) {
            (Errand::Claim { key, ip }, Outcome::Claim(result)) => self.claimed(&key, ip, result, now),
            (Errand::Release { ip }, Outcome::Claim(result)) => self.released(ip, result),
            (Errand::Egress { ip }, Outcome::Claim(result)) => self.egress_answered(ip, result, now),
            (Errand::Wire { key }, Outcome::Wire(result)) => self.wired(&key, result),
            (Errand::Recheck { key, id }, Outcome::Wire(result)) => self.rechecked(&key, id, result),
            (Errand::Resize { key }, Outcome::Wire(result)) => self.resized(&key, result, now),
            (Errand::Rebook, Outcome::Port(result)) => self.rebooked(result, now),
            (Errand::Prepare { key }, Outcome::Committed(result)) => self.prepared(&key, result, now),
            (Errand::AddPort { key }, Outcome::Port(result)) => self.ported(&key, result, now),
            (Errand::Install { key }, Outcome::Committed(result)) => self.installed(&key, result, now),
            (Errand::RemovePort { key }, Outcome::Port(result)) => {
                if result.is_err() {
                    self.orphans.insert(host_name(&key));
                }
                self.left(&key);
            }
            // A commit that failed is repaired by the next compare: the flows are no longer wanted.
            (Errand::Uninstall { key }, Outcome::Committed(_)) => self.left(&key),
            (Errand::RemoveWire { key }, Outcome::Wire(result)) => self.unwired(&key, result, now),
            (Errand::ForgetStranger { id } | Errand::Check { id }, Outcome::Wire(result)) => {
                self.reply(id, result.map(|()| Reply::Done).map_err(RequestError::Failed));
            }
            (Errand::Reclaim { key, ip }, Outcome::Claim(result)) => self.reclaimed(&key, ip, result),
            (Errand::Orphan { name }, Outcome::Port(Err(_))) => drop(self.orphans.insert(name)),
            (Errand::Dump, Outcome::Dump(result)) => self.dumped(task, result, now),
            (Errand::Compare, Outcome::Committed(Ok(()))) => self.in_line(),
            (Errand::Compare, Outcome::Committed(Err(_))) => self.not_in_line(now),
            (Errand::Commit, Outcome::Committed(Err(_))) => self.doubt(now),
            (Errand::ReadConnections, Outcome::Connections(result)) => {
                self.connections_read(task, result, now)
            }
            (Errand::Cut, Outcome::Committed(result)) => self.connections_cut(task, result, now),
            (Errand::EndConnections, Outcome::Committed(result)) => self.connections_ended(task, result),
            (Errand::EmptyZone { zone }, Outcome::Committed(result)) => self.zone_emptied(zone, result, now),
            (Errand::Settle, Outcome::Committed(_)) => self.switch_settled(task),
            (Errand::Limit { zones }, Outcome::Committed(result)) => self.limited(zones, result, now),
            _ => {}
        }
    }

    /// Remembers what a command is for; its outcome comes back under the number.
    pub(super) fn errand(&mut self, errand: Errand) -> Task {
        self.next_task += 1;
        let task = Task(self.next_task);
        self.errands.insert(task, errand);
        task
    }

    /// Whether changes of the switch are on their way that follow from the world.
    pub(super) fn is_committing(&self) -> bool {
        let changes = |errand: &Errand| {
            matches!(errand, Errand::Compare | Errand::Commit | Errand::Cut | Errand::EmptyZone { .. })
        };
        self.errands.values().any(changes)
    }
}

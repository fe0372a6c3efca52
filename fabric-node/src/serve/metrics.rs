//! The status as Prometheus metrics, text format 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use fabric_api::{LeaseState, State, Status, Tally};

/// What the format is called in HTTP.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics of a status.
pub(super) fn exposition(status: &Status) -> String {
    let mut text = Exposition::default();
    agent(&mut text, status);
    switch(&mut text, status);
    world(&mut text, status);
    attachments(&mut text, status);
    addresses(&mut text, status);
    conflicts(&mut text, status);
    packets(&mut text, status);
    policy(&mut text, status);
    paths(&mut text, status);
    problems(&mut text, status);
    text.text
}

fn agent(text: &mut Exposition, status: &Status) {
    text.gauge("fabric_agent_info", "The agent's version and node; always 1.");
    text.sample(&[("version", &status.version), ("node", &status.node)], 1);
    text.gauge("fabric_agent_state", "1 for the state that the agent is in.");
    for state in [State::Starting, State::Running, State::Degraded, State::Stopping] {
        text.sample(&[("state", &state.to_string())], u64::from(state == status.state));
    }
    text.gauge(
        "fabric_agent_state_since_seconds",
        "When the agent came to be in its state, since the Unix epoch.",
    );
    text.sample(&[], status.since);
    text.gauge("fabric_problems", "Things that are wrong until somebody acts; the status names them.");
    text.sample(&[], count(&status.problems));
}

fn switch(text: &mut Exposition, status: &Status) {
    let switch = &status.switch;
    text.gauge("fabric_switch_info", "The switch of the node; always 1.");
    let version = switch.ovs_version.as_deref().unwrap_or_default();
    let datapath = switch.datapath.as_deref().unwrap_or_default();
    text.sample(&[("bridge", &switch.bridge), ("ovs_version", version), ("datapath", datapath)], 1);
    text.gauge("fabric_switch_connected", "1 while the OpenFlow connection is up.");
    text.sample(&[], u64::from(switch.connected));
    text.gauge(
        "fabric_switch_database_connected",
        "1 while the connection to the database of Open vSwitch is up.",
    );
    text.sample(&[], u64::from(switch.database_connected));
}

fn world(text: &mut Exposition, status: &Status) {
    text.gauge("fabric_store_synced", "1 once the first full list of the store was read.");
    text.sample(&[("kind", &status.store.kind.to_string())], u64::from(status.store.synced));
    text.gauge("fabric_world_objects", "Objects of the cluster that the agent knows, by kind.");
    for (kind, number) in status.world.by_kind() {
        text.sample(&[("kind", kind)], number);
    }
}

fn attachments(text: &mut Exposition, status: &Status) {
    text.gauge(
        "fabric_attachments",
        "Containers attached on this node, by whether their flows are in the switch.",
    );
    for ready in [true, false] {
        let number = status.attachments.iter().filter(|attachment| attachment.ready == ready).count();
        text.sample(&[("ready", if ready { "true" } else { "false" })], number as u64);
    }
    text.gauge("fabric_leases", "Addresses of this node, by what becomes of them.");
    for state in [LeaseState::Claiming, LeaseState::Held, LeaseState::Retained, LeaseState::Resting] {
        let number = status.leases.iter().filter(|lease| lease.state == state).count();
        text.sample(&[("state", &state.to_string())], number as u64);
    }
    text.gauge("fabric_flows_static", "Flows that follow from the world and the ports.");
    text.sample(&[], status.flows.r#static);
    text.gauge("fabric_flows_learned", "Flows that answer punts, by table.");
    for table in &status.flows.learned {
        text.sample(&[("table", &table.table)], table.flows);
    }
}

fn addresses(text: &mut Exposition, status: &Status) {
    text.gauge("fabric_addresses", "Addresses of Networks, by what becomes of them.");
    for pool in &status.pools {
        let family = format!("IPv{}", pool.family);
        for (state, number) in pool.by_state() {
            text.sample(&[("network", &pool.network), ("family", &family), ("state", state)], number);
        }
    }
}

/// Machines on wires that claim addresses of containers here.
fn conflicts(text: &mut Exposition, status: &Status) {
    let mut by_network = BTreeMap::<&str, u64>::new();
    for conflict in &status.conflicts {
        *by_network.entry(&conflict.network).or_default() += 1;
    }
    text.gauge("fabric_address_conflicts", "Machines that claim addresses of containers here, by Network.");
    for (network, number) in by_network {
        text.sample(&[("network", network)], number);
    }
    text.counter("fabric_address_defences_total", "Announcements that defended addresses against them.");
    text.sample(&[], status.defences);
}

fn packets(text: &mut Exposition, status: &Status) {
    text.counter(
        "fabric_punts_total",
        "Packets that came to the agent for a decision, by table and outcome.",
    );
    for punts in &status.punts {
        text.sample(&[("table", &punts.table), ("outcome", &punts.outcome)], punts.packets);
    }
    text.counter("fabric_dropped_packets_total", "Packets that the switch dropped, by cause.");
    for (cause, packets) in &status.drops {
        text.sample(&[("cause", cause)], *packets);
    }
}

fn policy(text: &mut Exposition, status: &Status) {
    let policy = &status.policy;
    text.counter("fabric_denied_packets_total", "Packets that policy denied, by reason.");
    for Tally { because, count } in &status.denied {
        text.sample(&[("because", because)], *count);
    }
    text.counter(
        "fabric_audited_conversations_total",
        "New conversations that were allowed although policies in audit mode would deny them, by reason.",
    );
    for Tally { because, count } in &status.audited {
        text.sample(&[("because", because)], *count);
    }
    text.counter("fabric_edits_total", "Edits of the cluster's objects that the agent has taken.");
    text.sample(&[], policy.edits);
    text.gauge("fabric_settled", "1 while everything that follows from those edits is in the switch.");
    text.sample(&[], u64::from(policy.settled));
    text.counter("fabric_judged_again_total", "Learned decisions that edits made the agent judge again.");
    text.sample(&[], policy.judged_again);
    text.gauge(
        "fabric_verdicts_dormant",
        "Verdicts that are remembered without a flow, for connections that they let in.",
    );
    text.sample(&[], policy.dormant);
}

fn paths(text: &mut Exposition, status: &Status) {
    text.gauge(
        "fabric_path_mtu_bytes",
        "The largest packet that comes through to another node, where that is less than the interface takes.",
    );
    for path in &status.paths {
        text.sample(&[("node", &path.node), ("address", &path.address.to_string())], path.mtu.into());
    }
}

/// Problems that name an object, by object and field.
fn problems(text: &mut Exposition, status: &Status) {
    let mut by_field = BTreeMap::<(&str, &str), u64>::new();
    for problem in &status.problems {
        if let Some(object) = &problem.object {
            *by_field.entry((object, &problem.field)).or_default() += 1;
        }
    }
    text.gauge(
        "fabric_object_problems",
        "Problems of objects that cannot be read in full, by object and field.",
    );
    for ((object, field), number) in by_field {
        let (kind, name) = object.split_once(' ').unwrap_or((object, ""));
        text.sample(&[("kind", kind), ("object", name), ("field", field)], number);
    }
}

fn count<T>(things: &[T]) -> u64 {
    things.len() as u64
}

/// Families of metrics with their samples, in the order in which they are written.
#[derive(Default)]
struct Exposition {
    text: String,
    /// Of the family begun last.
    name: &'static str,
}

impl Exposition {
    fn gauge(&mut self, name: &'static str, help: &str) {
        self.family(name, help, "gauge");
    }

    fn counter(&mut self, name: &'static str, help: &str) {
        self.family(name, help, "counter");
    }

    fn family(&mut self, name: &'static str, help: &str, kind: &str) {
        self.name = name;
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: u64) {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", Escaped(value))).collect();
        let name = self.name;
        match labels.as_slice() {
            [] => self.line(format_args!("{name} {value}")),
            _ => self.line(format_args!("{name}{{{}}} {value}", labels.join(","))),
        }
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{line}");
    }
}

/// A label's value: backslash, quotation mark and line feed are escaped.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests;

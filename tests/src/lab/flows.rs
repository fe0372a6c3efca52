//! The flows of a bridge, read over OpenFlow, and their text with the names of tables.

use std::time::Duration;

use fabric_core::pipeline::vocabulary::Table;
use openflow::FlowStats;
use openflow::client::{Client, Config};
use openflow::message::FlowRequest;
use tokio::sync::mpsc;

use super::error::LabError;
use super::node::Node;

/// How long a switch may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// What stands before the number of a table in the text of a flow.
const MARKERS: [&str; 3] = ["table=", "goto_table:", "resubmit(,"];

/// All flows of a bridge, in the order of tables and falling priorities.
///
/// # Errors
/// [`LabError::Command`] where the switch does not answer.
pub fn dump(node: &Node, bridge: &str) -> Result<Vec<FlowStats>, LabError> {
    let socket = node.openflow(bridge);
    let failed =
        |reason: String| LabError::Command { command: format!("dump flows of {}", socket.display()), reason };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(LabError::io("start the OpenFlow client"))?;
    let dump = async {
        let (events, mut inbox) = mpsc::channel(64);
        let client = Client::spawn(Config::quiet(&socket), events);
        // The first event tells that the switch is connected, or why not.
        while !client.is_connected() {
            inbox.recv().await;
        }
        client.dump_flows(FlowRequest::default()).await
    };
    let flows = runtime.block_on(async { tokio::time::timeout(PATIENCE, dump).await });
    let flows = flows.map_err(|_| failed(format!("no answer within {} s", PATIENCE.as_secs())))?;
    let mut flows = flows.map_err(|error| failed(error.to_string()))?;
    flows.sort_by(|a, b| {
        let order = |flow: &FlowStats| (flow.flow.table, std::cmp::Reverse(flow.flow.priority));
        order(a).cmp(&order(b)).then_with(|| a.flow.matches.cmp(&b.flow.matches))
    });
    Ok(flows)
}

/// The text of a flow, as `ovs-ofctl` spells it, with the names of Fabric's tables in
/// the place of their numbers.
pub fn named(text: &str) -> String {
    MARKERS.iter().fold(text.to_owned(), |text, marker| named_after(&text, marker))
}

fn named_after(text: &str, marker: &str) -> String {
    let mut parts = text.split(marker);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        let table = number.parse().ok().and_then(Table::from_id);
        out += marker;
        out += table.as_ref().map_or(number, |table| table.name());
        out += rest;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_get_their_names_wherever_they_stand() {
        let text = "cookie=0x1, table=4, priority=7,ip actions=ct(commit,table=7,zone=4),resubmit(,6)";
        let named = named(text);
        assert_eq!(
            named,
            "cookie=0x1, table=StateOut, priority=7,ip actions=ct(commit,table=Route,zone=4),resubmit(,Egress)"
        );
        assert_eq!(super::named("table=200 actions=resubmit(2,)"), "table=200 actions=resubmit(2,)");
    }
}

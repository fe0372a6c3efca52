//! Golden flows: a folder's `world.yaml` and `conversations.txt` give its `flows.txt`, in `ovs-ofctl`'s spelling.
//!
//! `FABRIC_BLESS=1` writes the files anew, for a reviewer to read the difference.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests read files and look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fabric_core::pipeline::learned::{decide, revive};
use fabric_core::pipeline::vocabulary::{Cookie, Kind};
use openflow::FlowTable;
use support::{Scene, print};

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(!folders.is_empty());
    folders
}

fn conversations(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("conversations.txt")).unwrap_or_default();
    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn flows_are_as_written_down() {
    for folder in folders() {
        let scene = Scene::read(&folder.join("world.yaml"));
        let mut text = print(scene.statics());
        for line in conversations(&folder) {
            let (flows, verdict) = scene.learn(&line, false);
            text.push_str(&format!("\n# {line}: {verdict:?}\n{}", print(flows)));
        }
        let path = folder.join("flows.txt");
        if std::env::var_os("FABRIC_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let wanted = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(text == wanted, "{} differs; this is what came out:\n{text}", path.display());
    }
}

#[test]
fn a_learned_flow_leads_back_to_the_query_that_gives_it() {
    let mut kinds = BTreeSet::new();
    for folder in folders() {
        let scene = Scene::read(&folder.join("world.yaml"));
        for line in conversations(&folder) {
            for flow in scene.learn(&line, false).0 {
                let kind = Cookie(flow.cookie).kind().unwrap();
                kinds.insert(kind);
                let Some(query) = revive(&flow, &scene.local) else {
                    assert_eq!(kind, Kind::Vacant, "{flow}");
                    continue;
                };
                let decided = decide(&query, &scene.context()).map(|decision| decision.flow);
                assert_eq!(decided.as_ref(), Some(&flow), "{line}: {query:?}");
            }
        }
    }
    let ended = |kind: &Kind| *kind != Kind::Ended;
    let learned: BTreeSet<Kind> =
        Kind::ALL.into_iter().filter(|kind| kind.is_learned() && ended(kind)).collect();
    assert_eq!(kinds, learned, "every kind is among the conversations");
}

#[test]
fn static_flows_do_not_hide_one_another() {
    for folder in folders() {
        let flows = Scene::read(&folder.join("world.yaml")).statics();
        let table: FlowTable = flows.iter().cloned().collect();
        assert_eq!(table.len(), flows.len(), "two static flows of {} have one key", folder.display());
    }
}

#[test]
fn an_idle_node_has_at_most_40_flows_and_16_more_a_pod_and_34_one_on_a_segment() {
    for folder in folders() {
        let scene = Scene::read(&folder.join("world.yaml"));
        let wires: Vec<_> = scene.local.0.iter().filter_map(|pod| pod.segment.as_ref()).collect();
        let segments = wires.iter().collect::<BTreeSet<_>>().len();
        let pods = scene.local.0.len() - wires.len();
        let for_segments = if segments == 0 { 0 } else { 16 + 9 * segments + 34 * wires.len() };
        let flows = scene.statics().len();
        assert!(
            flows <= 40 + 16 * pods + for_segments,
            "{}: {flows} flows for {pods} pods and {} on {segments} segments",
            folder.display(),
            wires.len()
        );
    }
}

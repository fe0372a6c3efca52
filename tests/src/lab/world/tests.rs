//! Tests of the mirror and of what the lab adds to a world.

use super::*;

const PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web, uid: u1}
spec: {nodeName: n1}
status: {phase: Running, podIP: 10.10.1.1, podIPs: [{ip: 10.10.1.1}, {ip: "fd00:10::1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: fixed, annotations: {fabric.io/ip: "10.10.0.1"}}
spec: {nodeName: n2}
status: {podIP: 10.10.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: done}
spec: {nodeName: n1}
status: {phase: Succeeded, podIP: 10.10.9.9}
---
apiVersion: v1
kind: Pod
metadata: {name: waiting}
spec: {}
"#;

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("fabric-world-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("from")).unwrap();
    folder
}

#[test]
fn pods_are_those_that_run_on_a_node() {
    let pods = pods(&documents(PODS));
    let names: Vec<_> = pods.iter().map(|pod| pod.reference.as_str()).collect();
    assert_eq!(names, ["shop/web", "default/fixed"]);
    assert_eq!(pods[0].ips.len(), 2);
    assert_eq!(pods[0].uid.as_deref(), Some("u1"));
    assert!(pods[1].ips.is_empty(), "the annotation tells the agent");
}

#[test]
fn a_broken_document_leaves_the_others() {
    let text =
        format!("{PODS}---\nkind: [\n---\nkind: Pod\nmetadata: {{name: late}}\nspec: {{nodeName: n1}}\n");
    assert_eq!(pods(&documents(&text)).len(), 3);
}

#[test]
fn the_network_covers_the_pods_and_leaves_their_addresses_alone() {
    let network = derived(&documents(PODS), 2).remove("network").unwrap();
    let network = &documents(&network)[0];
    assert_eq!(network["spec"]["cidrs"], serde_json::json!(["10.10.0.0/16", "fd00:10::/64"]));
    assert_eq!(network["spec"]["gateway"], serde_json::json!(["10.10.0.2", "fd00:10::2"]));
}

#[test]
fn a_network_beside_the_wire_is_narrow() {
    let pod = "kind: Pod\nmetadata: {name: a}\nspec: {nodeName: n1}\nstatus: {podIP: 192.168.80.9}\n";
    let network = derived(&documents(pod), 1).remove("network").unwrap();
    assert_eq!(documents(&network)[0]["spec"]["cidrs"][0], "192.168.80.0/20");
}

#[test]
fn what_the_folder_has_is_not_added() {
    let given = "kind: Network\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {name: n1}\n---\n\
                 kind: Namespace\nmetadata: {name: default}\n";
    let derived = derived(&documents(given), 2);
    assert_eq!(derived.keys().copied().collect::<Vec<_>>(), ["nodes"]);
    assert!(derived["nodes"].contains("fd77::2") && !derived["nodes"].contains("fd77::1"));
}

#[test]
fn the_mirror_follows_edits_and_removals() {
    let folder = scratch("mirror");
    let (from, to) = (folder.join("from"), folder.join("to"));
    fs::create_dir(from.join("sub")).unwrap();
    fs::write(from.join("pods.yaml"), PODS).unwrap();
    fs::write(from.join("sub/more.yaml"), "kind: Namespace\nmetadata: {name: shop}\n").unwrap();
    fs::write(from.join("notes.txt"), "no manifest").unwrap();
    let mut mirror = Mirror::new(Some(&from), &to, 1).unwrap();
    assert!(mirror.refresh().unwrap());
    assert!(!mirror.refresh().unwrap(), "nothing changed");
    let names = |folder: &Path| manifests(folder).into_keys().collect::<Vec<_>>();
    assert_eq!(names(&to), ["pods.yaml", "sub_more.yaml"]);
    assert_eq!(pods_of(&to).len(), 2);

    fs::write(from.join("pods.yaml"), "kind: Network\nmetadata: {name: own}\n").unwrap();
    fs::remove_file(from.join("sub/more.yaml")).unwrap();
    assert!(!mirror.refresh().unwrap(), "an editor may be in the middle of it");
    assert!(mirror.refresh().unwrap());
    assert_eq!(names(&to), ["pods.yaml"]);
    assert!(!to.join("fabric-lab-network.yaml").exists(), "the folder has a Network of its own");
    assert!(to.join("fabric-lab-nodes.yaml").exists());
    fs::remove_dir_all(&from).unwrap();
    assert!(mirror.refresh().is_err() && mirror.refresh().is_err());
    assert_eq!(names(&to), ["pods.yaml"], "a folder that is gone removes nothing");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_empty_folder_gets_nodes_and_a_network() {
    let folder = scratch("empty");
    let mut mirror = Mirror::new(None, &folder, 2).unwrap();
    assert!(mirror.refresh().unwrap());
    assert!(folder.join("fabric-lab-nodes.yaml").exists() && folder.join("fabric-lab-network.yaml").exists());
    fs::write(folder.join("node.yaml"), "store: {directory: /x}\n").unwrap();
    assert!(!mirror.refresh().unwrap(), "an agent's configuration is no manifest");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_mirror_that_starts_anew_removes_what_an_earlier_one_left() {
    let folder = scratch("anew");
    let (from, to) = (folder.join("from"), folder.join("to"));
    fs::write(from.join("a.yaml"), PODS).unwrap();
    Mirror::new(Some(&from), &to, 1).unwrap().refresh().unwrap();
    fs::remove_file(from.join("a.yaml")).unwrap();
    fs::write(from.join("b.yaml"), "kind: Network\nmetadata: {name: own}\n").unwrap();
    Mirror::new(Some(&from), &to, 1).unwrap().refresh().unwrap();
    assert!(!to.join("a.yaml").exists() && to.join("b.yaml").exists());
    assert!(!to.join("fabric-lab-network.yaml").exists());
    fs::remove_dir_all(&folder).unwrap();
}

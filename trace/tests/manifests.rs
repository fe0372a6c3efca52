//! What is read from a folder, and what is said of what cannot be read.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use support::{Folder, pods, run};

const DENY_ALL: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: a, name: deny}\nspec: {podSelector: {}, policyTypes: [Ingress]}\n";

fn allowed(folder: &Folder) -> (i32, String) {
    let ran = run(&["verdict", "a/x", "a/y", "--tcp", "80", "--manifests", &folder.path()]);
    (ran.code, ran.err)
}

#[test]
fn files_of_folders_below_are_read_in_both_syntaxes_and_hidden_ones_are_not() {
    let folder = Folder::new();
    folder.write("pods/deep/down/a.yml", pods("a", &[("x", "10.0.0.1"), ("y", "10.0.0.2")]));
    folder.write(".hidden/deny.yaml", DENY_ALL);
    folder.write("pods/.deny.yaml", DENY_ALL);
    folder.write("deny.yaml~", DENY_ALL);
    assert_eq!(allowed(&folder), (0, String::new()));
    folder.write(
        "lists/deny.json",
        r#"{"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
             "metadata": {"namespace": "a", "name": "deny"},
             "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}]}"#,
    );
    assert_eq!(allowed(&folder), (1, String::new()));
}

#[test]
fn claims_of_the_store_give_addresses() {
    let folder = Folder::new();
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{namespace: a, name: {name}, uid: u-{name}}}\nspec: {{nodeName: n1}}\n"
        )
    };
    folder.write("pods.yaml", format!("{}\n---\n{}\n---\n{}", pods("a", &[]), pod("x"), pod("y")));
    folder.write("network.yaml", "apiVersion: fabric.io/v1alpha1\nkind: Network\nmetadata: {name: default}\nspec: {mode: overlay, cidrs: [10.0.0.0/16], encap: vxlan, vni: 1, default: true}\n");
    assert_eq!(allowed(&folder).0, 2, "nothing gives them an address");
    for (name, number) in [("x", 5), ("y", 6)] {
        folder.write(
            &format!(".claims/0a00000{number}.json"),
            format!(
                r#"{{"apiVersion": "fabric.io/v1alpha1", "kind": "IPClaim", "metadata": {{"name": "0a00000{number}"}},
                 "spec": {{"network": "default", "ip": "10.0.0.{number}", "mac": "02:00:00:00:00:0{number}",
                 "node": "n1", "owner": "c-{name}/eth0", "pod": {{"namespace": "a", "name": "{name}", "uid": "u-{name}"}}}}}}"#
            ),
        );
    }
    assert_eq!(allowed(&folder), (0, String::new()));
    let ran = run(&["verdict", "a/x", "10.0.0.6", "--icmp", "--manifests", &folder.path()]);
    assert!(ran.out.contains("  to   10.0.0.6, Pod a/y on n1\n"), "{}", ran.out);
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_goes_on() {
    let folder = Folder::new();
    folder.write("a.yaml", pods("a", &[("x", "10.0.0.1"), ("y", "10.0.0.2")]));
    folder.write(
        "b.yaml",
        "a: [\n---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: a, name: odd}\n\
         spec:\n  podSelector: {}\n  ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/33}}]}]\n",
    );
    folder.write("c.json", b"\xff");
    folder.write("d.yaml", pods("a", &[("x", "10.0.0.3")]));
    let (code, err) = allowed(&folder);
    assert_eq!(code, 1, "the policy isolates although its rule cannot be read");
    let at = folder.path();
    for says in [
        "/b.yaml#1: line ",
        "/b.yaml#2: NetworkPolicy a/odd: spec.ingress[0].from[0].ipBlock.cidr: ",
        "/c.json: byte 1: not UTF-8\n",
        &format!(
            "/d.yaml#2: Pod a/x: the object is in {at}/a.yaml#2 too, and that one is in force; remove one of them\n"
        ),
    ] {
        assert!(err.contains(&format!("fabric-trace: {at}{says}")), "{says}\n{err}");
    }
    let lint = run(&["lint", "--manifests", &folder.path()]);
    assert_eq!(lint.code, 1);
    assert!(
        lint.out.contains("b.yaml#2: NetworkPolicy a/odd: spec.ingress[0].from[0].ipBlock.cidr: "),
        "{}",
        lint.out
    );
}

#[test]
fn other_kinds_are_passed_over_and_other_versions_are_not() {
    let folder = Folder::new();
    folder.write("a.yaml", pods("a", &[("x", "10.0.0.1"), ("y", "10.0.0.2")]));
    folder.write("b.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: a, name: x}\n");
    assert_eq!(allowed(&folder), (0, String::new()));
    folder.write("c.yaml", DENY_ALL.replace("networking.k8s.io/v1", "extensions/v1beta1"));
    let (code, err) = allowed(&folder);
    assert_eq!(code, 0);
    assert!(err.contains("/c.yaml#1: ") && err.contains("NetworkPolicy of extensions/v1beta1"), "{err}");
}

#[test]
fn a_namespace_that_is_missing_is_told_since_its_pods_are_denied() {
    let folder = Folder::new();
    let pods = pods("a", &[("x", "10.0.0.1"), ("y", "10.0.0.2")]);
    folder.write("a.yaml", pods.split_once("---").unwrap().1);
    let (code, err) = allowed(&folder);
    assert_eq!(code, 1);
    assert!(err.contains("world: Namespace a: pods are in it, and its manifest is missing"), "{err}");
}

#[test]
fn several_folders_and_single_files_make_one_cluster() {
    let (pods_in, policies) = (Folder::new(), Folder::new());
    pods_in.write("a.yaml", pods("a", &[("x", "10.0.0.1"), ("y", "10.0.0.2")]));
    let deny = policies.write("deny", DENY_ALL);
    let ran =
        run(&["verdict", "a/x", "a/y", "--tcp", "80", "--manifests", &pods_in.path(), "--manifests", &deny]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
}

#[test]
fn a_name_that_yaml_once_took_for_a_boolean_is_a_name() {
    let folder = Folder::new();
    folder.write("a.yaml", pods("a", &[("y", "10.0.0.1"), ("on", "10.0.0.2")]));
    let ran = run(&["verdict", "a/y", "a/on", "--icmp", "--manifests", &folder.path()]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

//! The gate: what it says about bad manifests, word for word, and that nothing unreadable opens anything.

#![expect(clippy::disallowed_methods, reason = "the manifests and what is to be said about them are files")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use policy::manifest::{Admission, Source, admit, documents};
use policy::object::{Readable, Subject, TargetPort};
use policy::{
    Edit, Encap, Family, IpClaim, Location, Mode, NetworkPolicy, Object, PodAnnotations, PodIdent, Selector,
    Tenant, World, to_manifest,
};
use proptest::prelude::*;
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn manifests(yaml: &str) -> Result<Vec<Value>> {
    // In YAML 1.2 only true and false are truth values: a namespace may be called y.
    let options = serde_saphyr::options! { strict_booleans: true };
    let values: Vec<Value> = serde_saphyr::from_multiple_with_options(yaml, options)?;
    Ok(values.into_iter().flat_map(documents).collect())
}

fn admissions(name: &str, yaml: &str) -> Result<Vec<Admission>> {
    let numbered = manifests(yaml)?.into_iter().zip(1..);
    Ok(numbered.map(|(value, number)| admit(&Source::file(name, number), value)).collect())
}

/// One paragraph per document: what became of it, and its problems.
fn report(admissions: &[Admission]) -> Result<String> {
    let mut text = String::new();
    for Admission { object, reference, problems } in admissions {
        let outcome = if object.is_some() { "admitted" } else { "refused" };
        match reference {
            Some(reference) => writeln!(text, "{reference}: {outcome}")?,
            None => writeln!(text, "a manifest without a name: {outcome}")?,
        }
        for problem in problems {
            writeln!(text, "    {problem}")?;
        }
    }
    Ok(text)
}

#[test]
fn says_what_is_wrong() -> Result<()> {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder("gate"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let said = report(&admissions(&name, &std::fs::read_to_string(&path)?)?)?;
        let wanted = std::fs::read_to_string(path.with_extension("txt"))?;
        assert_eq!(
            said, wanted,
            "{name}: what is said (left) is not what the .txt file beside it has (right)"
        );
        seen += 1;
    }
    assert_eq!(seen, 5, "the folder has a file for each group of kinds");
    Ok(())
}

#[test]
fn takes_every_world_of_the_cases() -> Result<()> {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder("cases"))? {
        let path = entry?.path().join("world.yaml");
        let mut world = World::new();
        for admission in admissions("world.yaml", &std::fs::read_to_string(&path)?)? {
            assert_eq!(admission.problems, [], "{}", path.display());
            let object = admission.object.ok_or("an object is refused")?;
            assert_ne!(world.apply(Edit::Put(object.clone())), [], "{}: {object:?}", path.display());
            assert_eq!(world.apply(Edit::Put(object)), []);
        }
        assert_eq!(world.problems(), [], "{}", path.display());
        assert!(world.pods().count() >= 3);
        seen += 1;
    }
    assert_eq!(seen, 5);
    Ok(())
}

/// The world of the file of good objects.
fn good_world() -> Result<World> {
    let mut world = World::new();
    for admission in admissions("good.yaml", &std::fs::read_to_string(folder("gate/good.yaml"))?)? {
        world.apply(Edit::Put(admission.object.ok_or("an object is refused")?));
    }
    Ok(world)
}

fn texts<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_read_of_pods_and_namespaces() -> Result<()> {
    let world = good_world()?;
    let pod = world.pod(&"a/full".parse()?).ok_or("the pod is not there")?;
    assert_eq!(
        (pod.uid.as_str(), pod.labels.to_string().as_str(), pod.node.as_deref()),
        ("0f3c", "a=1,b=2", Some("n1"))
    );
    assert_eq!(texts(&pod.ips), ["10.1.0.5", "fd00:1::5"]);
    assert!(pod.is_live());
    let ports: Vec<String> =
        pod.ports.iter().map(|port| format!("{} {} {}", port.name, port.protocol, port.port)).collect();
    assert_eq!(ports, ["web TCP 8080", "dns UDP 53", "metrics TCP 9100"]);
    let PodAnnotations { network, fixed_ips, ip_ranges, ingress_bandwidth, egress_bandwidth, unreadable } =
        &pod.annotations;
    assert_eq!(network.as_deref(), Some("blue"));
    assert_eq!(texts(fixed_ips), ["10.1.0.5", "fd00:1::5"]);
    assert_eq!(texts(ip_ranges), ["10.1.0.8-10.1.0.9", "10.1.0.12-10.1.0.13"]);
    assert_eq!((*ingress_bandwidth, *egress_bandwidth), (Some(10_000_000), Some(1_500_000_000)));
    assert!(unreadable.is_empty());
    let host = world.pod(&"default/host".parse()?).ok_or("the pod is not there")?;
    assert!(host.host_network && host.finished && host.uid.is_empty() && !host.is_live());
    assert_eq!(texts(&host.ips), ["192.168.77.1"]);
    let namespace = world.namespace("a").ok_or("the namespace is not there")?;
    assert_eq!(namespace.tenant, Tenant::Shared);
    assert_eq!(namespace.labels.to_string(), "kubernetes.io/metadata.name=a");
    assert_eq!(texts(&namespace.egress_ips), ["10.9.0.1"]);
    assert!(namespace.log_denied);
    Ok(())
}

#[test]
fn what_is_read_of_nodes_networks_and_services() -> Result<()> {
    let world = good_world()?;
    let node = world.node("n1").ok_or("the node is not there")?;
    assert_eq!(texts(&node.addresses), ["192.168.77.1", "fd00:77::1", "203.0.113.1"]);
    assert_eq!(node.tunnel_address, "172.16.0.1".parse().ok());
    assert_eq!(world.locate("172.16.0.1".parse()?), Location::Node("n1".into()));
    let network = world.network("blue").ok_or("the Network is not there")?;
    assert_eq!(network.mode, Mode::Overlay { encap: Encap::Geneve, vni: 7 });
    assert_eq!(network.gateway(Family::V4), "10.1.0.254".parse().ok());
    assert!(network.usable("10.1.0.11".parse()?) && !network.usable("10.1.0.10".parse()?));
    assert_eq!((network.mtu, network.snat, network.default), (Some(1400), true, true));
    assert_eq!(world.network_for(Some(&"a/full".parse()?)).map(|network| network.name.as_str()), Ok("blue"));
    let service = world.service("a", "s").ok_or("the Service is not there")?;
    assert_eq!(texts(&service.cluster_ips), ["10.96.0.1", "fd00:96::1"]);
    assert_eq!(texts(&service.external_ips), ["203.0.113.5"]);
    assert_eq!(texts(&service.load_balancer_ips), ["203.0.113.6"]);
    assert_eq!(service.affinity_seconds, Some(10_800));
    assert!(service.internal_local && !service.external_local);
    let targets: Vec<&TargetPort> = service.ports.iter().map(|port| &port.target_port).collect();
    assert_eq!(targets, [&TargetPort::Named("http".into()), &TargetPort::Number(53)]);
    assert_eq!(world.service("a", "headless").map(|service| service.cluster_ips.len()), Some(0));
    let slice = world.endpoint_slices("a").next().ok_or("the slice is not there")?;
    let endpoints: Vec<_> =
        slice.endpoints.iter().map(|e| (e.ready, e.serving, e.terminating, e.pod.is_some())).collect();
    assert_eq!(endpoints, [(true, true, false, true), (false, true, true, false)]);
    assert_eq!(slice.service.as_deref(), Some("s"));
    Ok(())
}

fn policies(name: &str) -> Result<Vec<NetworkPolicy>> {
    let text = std::fs::read_to_string(folder(name))?;
    let objects = admissions(name, &text)?.into_iter().filter_map(|admission| admission.object);
    Ok(objects
        .filter_map(|object| if let Object::NetworkPolicy(policy) = object { Some(policy) } else { None })
        .collect())
}

#[test]
fn a_broken_policy_isolates() -> Result<()> {
    let policies = policies("gate/policy.yaml")?;
    let find =
        |name: &str| policies.iter().find(|policy| policy.name == name).ok_or(format!("{name} is refused"));
    for name in ["bad-cidr", "bad-ports"] {
        let ingress = find(name)?.ingress.as_ref().ok_or("it does not isolate ingress")?;
        assert!(ingress.iter().all(|rule| *rule == Readable::Unreadable), "{name}: {ingress:?}");
    }
    let egress = find("bad-peers")?.egress.as_ref().ok_or("it does not isolate egress")?;
    assert_eq!(egress.as_slice(), vec![Readable::Unreadable; 8]);
    for name in ["bad-selector", "slip", "bad-spec"] {
        let policy = find(name)?;
        assert_eq!(policy.subject, Subject::WholeNamespace, "{name}");
        assert_eq!(
            policy.ingress,
            Some(Vec::new()),
            "{name}: rules written for some pods must not open others"
        );
    }
    assert_eq!(find("slip")?.egress, Some(Vec::new()), "an unknown field may speak about either direction");
    let unnamed: Vec<&NetworkPolicy> =
        policies.iter().filter(|policy| policy.name.starts_with("(unnamed ")).collect();
    assert_eq!(unnamed.len(), 2, "a policy whose name cannot be read counts all the same");
    assert!(unnamed.iter().all(|policy| policy.namespace == "a" && policy.ingress.is_some()));
    assert!(unnamed.iter().any(|policy| policy.subject == Subject::Pods(Selector::everything())));
    let bad_types = find("bad-types")?;
    assert!(matches!(&bad_types.subject, Subject::Pods(selector) if !selector.is_everything()));
    assert_eq!(bad_types.ingress.as_ref().map(Vec::len), Some(1), "a rule that can be read still holds");
    assert_eq!(bad_types.egress, Some(Vec::new()));
    let bad_rules = find("bad-rules")?;
    assert_eq!(bad_rules.ingress, Some(vec![Readable::Unreadable]));
    assert_eq!(bad_rules.egress, Some(vec![Readable::Unreadable]));
    Ok(())
}

#[test]
fn an_absent_selector_selects_all_and_types_have_defaults() -> Result<()> {
    let admit_spec = |spec: &str| -> Result<NetworkPolicy> {
        let head = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\n";
        let mut admitted = admissions("p.yaml", &format!("{head}{spec}"))?;
        let Admission { object, problems, .. } = admitted.pop().ok_or("no document")?;
        assert_eq!(problems, [], "{spec}");
        match object {
            Some(Object::NetworkPolicy(policy)) => Ok(policy),
            other => Err(format!("{spec}: {other:?}").into()),
        }
    };
    for (spec, ingress, egress) in [
        ("", true, false),
        ("spec: {}", true, false),
        ("spec: {podSelector: {}}", true, false),
        ("spec: {policyTypes: []}", true, false),
        ("spec: {egress: []}", true, false),
        ("spec: {egress: [{}]}", true, true),
        ("spec: {egress: [{}], policyTypes: [Ingress]}", true, false),
        ("spec: {ingress: [{}], policyTypes: [Egress]}", false, true),
        ("spec: {policyTypes: [Egress, Ingress]}", true, true),
    ] {
        let policy = admit_spec(spec)?;
        assert_eq!((policy.ingress.is_some(), policy.egress.is_some()), (ingress, egress), "{spec}");
        assert_eq!(policy.subject, Subject::Pods(Selector::everything()), "{spec}");
        assert_eq!(policy.namespace, "default");
    }
    Ok(())
}

#[test]
fn an_unreadable_tenant_is_not_the_common_group() -> Result<()> {
    let admitted = admissions("o", &std::fs::read_to_string(folder("gate/objects.yaml"))?)?;
    let mut seen = 0;
    for object in admitted.into_iter().filter_map(|admission| admission.object) {
        if let Object::Namespace(namespace) = object {
            assert_eq!(namespace.tenant, Tenant::Unreadable);
            assert_eq!(namespace.labels.get("kubernetes.io/metadata.name"), Some(&namespace.name));
            seen += 1;
        }
    }
    assert_eq!(seen, 2);
    Ok(())
}

/// A NetworkPolicy that has something of everything.
fn rich_policy() -> Value {
    serde_json::json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"namespace": "a", "name": "p", "annotations": {"fabric.io/mode": "enforce"}},
        "spec": {
            "podSelector": {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["y"]}]},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {"t": "1"}}}], "ports": [{"port": 80, "endPort": 90}]},
                {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]},
            ],
            "egress": [{"to": [{"podSelector": {"matchLabels": {"b": "c"}}}], "ports": [{"port": "web", "protocol": "UDP"}]}, {}],
        },
    })
}

/// The places in a value, each as a JSON pointer.
fn places(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, value)| places(value, format!("{at}/{}", key.replace('/', "~1")), found)),
        Value::Array(elements) => {
            elements.iter().enumerate().for_each(|(n, value)| places(value, format!("{at}/{n}"), found))
        }
        _ => {}
    }
    found.push(at);
}

/// Whether `broken` lets nothing pass that `whole` does not: it selects at least the same pods, in at least
/// the same directions, and each of its rules is one of the whole policy's.
fn opens_nothing(whole: &NetworkPolicy, broken: &NetworkPolicy) -> bool {
    let subject = broken.subject == whole.subject || broken.subject == Subject::WholeNamespace;
    let sides = [(&whole.ingress, &broken.ingress), (&whole.egress, &broken.egress)];
    subject
        && sides.into_iter().all(|(whole, broken)| match (whole, broken) {
            (Some(whole), Some(broken)) => {
                broken.iter().all(|rule| *rule == Readable::Unreadable || whole.contains(rule))
            }
            (None, _) => true,
            (Some(_), None) => false,
        })
        && broken.enforcement == whole.enforcement
}

#[test]
fn nonsense_anywhere_in_a_policy_opens_nothing() -> Result<()> {
    let source = Source::api();
    let Some(Object::NetworkPolicy(whole)) = admit(&source, rich_policy()).object else {
        return Err("the policy is good".into());
    };
    let mut all = Vec::new();
    places(&rich_policy()["spec"], "/spec".to_owned(), &mut all);
    places(&rich_policy()["metadata"]["annotations"], "/metadata/annotations".to_owned(), &mut all);
    assert!(all.len() > 40);
    for place in all {
        let mut value = rich_policy();
        // No field of a policy takes a fraction.
        *value.pointer_mut(&place).ok_or("a place that is none")? = serde_json::json!(-1.5);
        let Admission { object, problems, .. } = admit(&source, value);
        assert!(!problems.is_empty(), "{place} is not reported");
        let Some(Object::NetworkPolicy(broken)) = object else {
            return Err(format!("{place}: refused").into());
        };
        assert!(opens_nothing(&whole, &broken), "{place}: {broken:?}");
    }
    Ok(())
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9./:*,-]{0,12}".prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec!["name", "ip", "cidr", "port", "spec", "matchLabels", "key", "x"]);
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..4)
                .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

fn good_manifests() -> Result<Vec<Value>> {
    let mut good = vec![rich_policy()];
    for file in ["gate/network.yaml", "gate/objects.yaml", "gate/cluster.yaml", "cases/ports/world.yaml"] {
        good.extend(manifests(&std::fs::read_to_string(folder(file))?)?);
    }
    Ok(good)
}

proptest! {
    /// Whatever stands anywhere in a manifest: an object or a problem, and never a panic.
    #[test]
    fn survives_anything(choice: prop::sample::Index, place: prop::sample::Index, nonsense in json()) {
        let mut good = good_manifests().map_err(|error| TestCaseError::fail(error.to_string()))?;
        let mut value = good.swap_remove(choice.index(good.len()));
        let mut all = Vec::new();
        places(&value, String::new(), &mut all);
        if let Some(part) = value.pointer_mut(&all[place.index(all.len())]) {
            *part = nonsense;
        }
        let admission = admit(&Source::api(), value);
        prop_assert!(admission.object.is_some() || !admission.problems.is_empty());
        if let Some(object) = admission.object {
            prop_assert_eq!(Some(object.reference()), admission.reference);
        }
    }

    /// A claim that is written is read again.
    #[test]
    fn a_claim_is_read_as_it_was_written(ip: std::net::IpAddr, mac: [u8; 6], uid in "[a-f0-9-]{0,36}", pod: bool, retain: bool, since in proptest::option::of(0..253_402_300_799u64)) {
        let pod = pod.then(|| PodIdent { namespace: "a".into(), name: "p-0".into(), uid: uid.into() });
        let claim = IpClaim {
            ip, mac, pod, retain, network: "net".into(), node: "n1".into(), owner: "0123abcd/eth0".to_owned(),
            since: since.map(policy::Timestamp),
        };
        let admission = admit(&Source::api(), to_manifest(&claim));
        prop_assert_eq!(admission.problems, []);
        prop_assert_eq!(admission.object, Some(Object::IpClaim(claim)));
    }
}

#[test]
fn a_list_of_ranges_has_an_end() -> Result<()> {
    let pod = |ranges: usize| {
        let list: Vec<String> = (0..ranges).map(|n| format!("10.{}.{}.0/24", n / 256, n % 256)).collect();
        admit(
            &Source::api(),
            serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata":
            {"name": "a", "annotations": {"fabric.io/ip-range": list.join(",")}}}),
        )
    };
    let Some(Object::Pod(whole)) = pod(64).object else { return Err("no pod".into()) };
    assert_eq!(whole.annotations.ip_ranges.len(), 64);
    let longer = pod(20_000);
    let Some(Object::Pod(without)) = longer.object else { return Err("no pod".into()) };
    assert_eq!(without.annotations.unreadable, ["fabric.io/ip-range"]);
    let problems: Vec<String> = longer.problems.iter().map(ToString::to_string).collect();
    let said = "API server: Pod default/a: metadata.annotations[fabric.io/ip-range]: \
                has 20000 ranges, at most 64 are wanted";
    assert_eq!(problems, [said]);
    Ok(())
}

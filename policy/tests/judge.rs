//! Hard cases, one by one: for each a question about one end, and the reason that decides.

mod common;

use common::{Result, address, apply, traffic, world};
use policy::{Because, Direction, Edit, Family, Judgement, Kind, ObjectRef, Question, Verdict, World};

/// Two nodes, three namespaces, and pods of theirs; `a/both` has addresses of both families.
const CLUSTER: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {zone: east}}, status: {addresses: [{type: InternalIP, address: 192.168.77.1}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {zone: west}}, status: {addresses: [{type: InternalIP, address: 192.168.77.2}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {team: x}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: b, labels: {team: y}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: web, labels: {app: web}}, spec: {nodeName: n1, containers: [{name: c, ports: [{name: http, containerPort: 8080}, {name: dns, containerPort: 53, protocol: UDP}]}]}, status: {podIP: 10.1.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: both, labels: {app: both}}, spec: {nodeName: n1}, status: {podIPs: [{ip: 10.1.0.2}, {ip: "fd00:1::2"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: b, name: api, labels: {app: api}}, spec: {nodeName: n2, containers: [{name: c, ports: [{name: http, containerPort: 9090}]}]}, status: {podIP: 10.1.0.3}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: b, name: done, labels: {app: api}}, spec: {nodeName: n2}, status: {phase: Succeeded, podIP: 10.1.0.4}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: b, name: host, labels: {app: api}}, spec: {nodeName: n2, hostNetwork: true}, status: {podIP: 192.168.77.2}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: kube-system, name: dns, labels: {app: dns}}, spec: {nodeName: n2}, status: {podIP: 10.1.0.5}}
"#;

const POLICY: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n";
const CLUSTER_POLICY: &str = "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\n";

/// The cluster with a NetworkPolicy `p` of namespace `a`.
fn with(spec: &str) -> Result<World> {
    let mut world = world(CLUSTER)?;
    apply(&mut world, &format!("{POLICY}metadata: {{namespace: a, name: p}}\nspec: {spec}\n"))?;
    Ok(world)
}

fn put_cluster_policy(world: &mut World, name: &str, spec: &str) -> Result<()> {
    apply(world, &format!("{CLUSTER_POLICY}metadata: {{name: {name}}}\nspec: {spec}\n"))
}

fn put_claim(world: &mut World, ip: &str, pod: &str) -> Result<()> {
    let name = policy::claim_name(ip.parse()?);
    apply(
        world,
        &format!(
            "apiVersion: fabric.io/v1alpha1\nkind: IPClaim\nmetadata: {{name: \"{name}\"}}\n\
             spec: {{ip: {ip}, network: d, mac: \"02:00:00:00:00:01\", node: n1, owner: c/eth0, retain: false{pod}}}\n"
        ),
    )
}

/// What is said of `SUBJECT < PEER TRAFFIC` (ingress) or `SUBJECT > PEER TRAFFIC` (egress).
fn ask(world: &World, text: &str) -> Result<Judgement> {
    let words: Vec<&str> = text.splitn(4, ' ').collect();
    let [subject, way, peer, sent] = words.as_slice() else {
        return Err(format!("{text}: four words").into());
    };
    let direction = if *way == "<" { Direction::Ingress } else { Direction::Egress };
    let family = [subject, peer].iter().find_map(|end| end.parse().ok()).map_or(Family::V4, Family::of);
    let (subject, peer) = (address(world, subject, family)?, address(world, peer, family)?);
    let question = Question { direction, subject, peer, traffic: traffic(sent)? };
    let judgement = world.judge(&question);
    let explanation = world.explain(&question);
    assert_eq!(explanation.judgement, judgement, "{text}");
    let decisive = explanation.steps.iter().filter(|step| step.decides).count();
    assert_eq!(decisive, 1, "{text}: {:#?}", explanation.steps);
    assert!(judgement.region.contains(&question) && judgement.region.is_aligned(), "{text}: {judgement:?}");
    Ok(judgement)
}

/// Each line is a question, `:`, and the verdict with the reason's text.
fn check(world: &World, table: &str) -> Result<()> {
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (question, wanted) = line.split_once(" : ").ok_or("a line has a question and an answer")?;
        let Judgement { verdict, because, audit, .. } = ask(world, question.trim())?;
        let audit = audit.map(|audit| format!(" | audit: {audit}")).unwrap_or_default();
        assert_eq!(format!("{verdict} {because}{audit}"), wanted.trim(), "{question}");
    }
    Ok(())
}

#[test]
fn without_policies_everybody_is_let_through() -> Result<()> {
    check(
        &world(CLUSTER)?,
        "a/web < b/api TCP 80             : allow no isolation
         a/web < 198.51.100.1 1           : allow no isolation
         192.168.77.1 < a/web TCP 22      : allow no isolation
         10.1.0.4 < a/web TCP 80          : deny nobody known at 10.1.0.4
         198.51.100.1 < a/web TCP 80      : deny nobody known at 198.51.100.1",
    )
}

#[test]
fn exemptions_count_where_the_rules_deny() -> Result<()> {
    check(
        &with(
            "{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{from: [{ipBlock: {cidr: 192.168.0.0/16}}], ports: [{port: 1}]}]}",
        )?,
        "a/web < a/web TCP 80             : allow a pod reaches itself
         a/web > a/web TCP 80             : allow a pod reaches itself
         a/web < a/both TCP 80            : deny NetworkPolicy a/p: no ingress rule matches
         a/web < 192.168.77.1 TCP 80      : allow own node n1
         a/web < 192.168.77.1 TCP 1       : allow NetworkPolicy a/p: ingress rule 1
         a/web < 192.168.77.2 TCP 80      : deny NetworkPolicy a/p: no ingress rule matches
         a/web > 192.168.77.1 TCP 80      : deny NetworkPolicy a/p: no egress rule matches",
    )
}

#[test]
fn selectors_are_about_live_pods_only() -> Result<()> {
    let mut world = with(
        "{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: api}}}]}]}",
    )?;
    put_claim(&mut world, "10.1.0.9", "")?;
    check(
        &world,
        "a/web < b/api 1                  : allow NetworkPolicy a/p: ingress rule 1
         a/web < 10.1.0.4 TCP 80          : deny NetworkPolicy a/p: no ingress rule matches
         a/web < 192.168.77.2 TCP 80      : deny NetworkPolicy a/p: no ingress rule matches
         a/web < 10.1.0.9 TCP 80          : deny NetworkPolicy a/p: no ingress rule matches
         a/both < 10.1.0.9 TCP 80         : allow no isolation",
    )
}

#[test]
fn names_of_ports_are_the_destinations() -> Result<()> {
    check(
        &with(
            "{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress, Egress], ingress: [{ports: [{port: http}, {port: dns, protocol: UDP}]}], egress: [{ports: [{port: http}]}]}",
        )?,
        "a/web < 198.51.100.1 TCP 8080    : allow NetworkPolicy a/p: ingress rule 1
         a/web < 198.51.100.1 TCP 80      : deny NetworkPolicy a/p: no ingress rule matches
         a/web < 198.51.100.1 UDP 53      : allow NetworkPolicy a/p: ingress rule 1
         a/web < 198.51.100.1 TCP 53      : deny NetworkPolicy a/p: no ingress rule matches
         a/web > b/api TCP 9090           : allow NetworkPolicy a/p: egress rule 1
         a/web > b/api TCP 8080           : deny NetworkPolicy a/p: no egress rule matches
         a/web > a/both TCP 9090          : deny NetworkPolicy a/p: no egress rule matches
         a/web > 198.51.100.1 TCP 8080    : deny NetworkPolicy a/p: no egress rule matches",
    )
}

#[test]
fn protocols_without_ports_and_later_fragments() -> Result<()> {
    let world = with(
        "{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}], ports: [{port: 80}, {port: 3868, protocol: SCTP}]}, {from: [{ipBlock: {cidr: 198.51.100.0/24}}]}]}",
    )?;
    check(
        &world,
        "a/web < a/both TCP 80            : allow NetworkPolicy a/p: ingress rule 1
         a/web < a/both SCTP 3868         : allow NetworkPolicy a/p: ingress rule 1
         a/web < a/both SCTP 80           : deny NetworkPolicy a/p: no ingress rule matches
         a/web < a/both 1                 : deny NetworkPolicy a/p: no ingress rule matches
         a/web < a/both TCP later         : allow NetworkPolicy a/p: ingress rule 1
         a/web < a/both UDP later         : deny NetworkPolicy a/p: no ingress rule matches
         a/web < b/api TCP later          : deny NetworkPolicy a/p: no ingress rule matches
         a/web < 198.51.100.9 1           : allow NetworkPolicy a/p: ingress rule 2
         a/web < 198.51.100.9 UDP later   : allow NetworkPolicy a/p: ingress rule 2",
    )?;
    assert_eq!(
        ask(&world, "a/web < a/both TCP later")?.region.to_string(),
        "peer 10.1.0.2/32 protocol 6 ports hidden"
    );
    assert_eq!(
        ask(&world, "a/web < a/both UDP later")?.region.to_string(),
        "peer 10.1.0.2/32 protocol 17 ports all"
    );
    Ok(())
}

#[test]
fn families_say_nothing_about_each_other() -> Result<()> {
    check(
        &with(
            "{podSelector: {matchLabels: {app: both}}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8]}}, {ipBlock: {cidr: \"::ffff:10.0.0.0/104\"}}]}]}",
        )?,
        "a/both < 198.51.100.1 TCP 80                : allow NetworkPolicy a/p: ingress rule 1
         a/both < 10.1.0.3 TCP 80                    : deny NetworkPolicy a/p: no ingress rule matches
         fd00:1::2 < fd00:1::9 TCP 80                : deny NetworkPolicy a/p: no ingress rule matches
         fd00:1::2 < ::ffff:10.1.0.3 TCP 80          : allow NetworkPolicy a/p: ingress rule 1
         fd00:1::2 < ::ffff:198.51.100.1 TCP 80      : deny NetworkPolicy a/p: no ingress rule matches",
    )
}

#[test]
fn what_cannot_be_read_never_opens() -> Result<()> {
    let mut world = with("{podSelector: {matchExpressions: [{key: app, operator: Near}]}, ingress: [{}]}")?;
    check(
        &world,
        "a/web < b/api TCP 80             : deny NetworkPolicy a/p: no ingress rule matches
         a/both > b/api TCP 80            : allow no isolation",
    )?;
    world = with("{podSelector: {}, ingress: [{ports: [{port: 90, endPort: 80}]}, {ports: [{port: 443}]}]}")?;
    check(
        &world,
        "a/web < b/api TCP 90             : deny NetworkPolicy a/p: no ingress rule matches
         a/web < b/api TCP 443            : allow NetworkPolicy a/p: ingress rule 2",
    )?;
    apply(
        &mut world,
        &format!("{POLICY}metadata: {{namespace: b, name: Not A Name}}\nspec: {{podSelector: {{}}}}\n"),
    )?;
    let judgement = ask(&world, "b/api < a/web TCP 80")?;
    assert!(judgement.verdict == Verdict::Deny && judgement.because.to_string().contains("b/(unnamed "));
    Ok(())
}

#[test]
fn tiers_come_before_and_after() -> Result<()> {
    let mut world =
        with("{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: 80}, {port: 81}]}]}")?;
    let all = "subject: {namespaces: {}}";
    put_cluster_policy(
        &mut world,
        "late",
        &format!(
            "{{tier: Admin, priority: 20, {all}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}"
        ),
    )?;
    put_cluster_policy(
        &mut world,
        "early",
        &format!(
            "{{tier: Admin, priority: 10, {all}, ingress: [\
         {{name: metrics, action: Accept, from: [{{namespaces: {{matchLabels: {{team: y}}}}}}], protocols: [{{tcp: {{destinationPort: {{range: {{start: 9100, end: 9110}}}}}}}}]}},\
         {{action: Deny, from: [{{namespaces: {{}}}}], protocols: [{{tcp: {{destinationPort: {{number: 81}}}}}}]}},\
         {{action: Pass, from: [{{pods: {{podSelector: {{matchLabels: {{app: api}}}}}}}}]}}]}}"
        ),
    )?;
    put_cluster_policy(
        &mut world,
        "base",
        &format!(
            "{{tier: Baseline, priority: 1, {all}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}], protocols: [{{destinationNamedPort: http}}, {{udp: {{destinationPort: {{number: 53}}}}}}]}}], \
         egress: [{{action: Accept, to: [{{nodes: {{matchLabels: {{zone: west}}}}}}]}}, {{action: Deny, to: [{{networks: [192.168.0.0/16, \"::/0\"]}}]}}]}}"
        ),
    )?;
    check(
        &world,
        "a/web < b/api TCP 9105           : allow ClusterNetworkPolicy early: ingress rule 1 (metrics)
         a/web < a/both TCP 9105          : deny ClusterNetworkPolicy late: ingress rule 1
         a/web < b/api TCP 81             : deny ClusterNetworkPolicy early: ingress rule 2
         a/web < b/api TCP 80             : allow NetworkPolicy a/p: ingress rule 1
         a/web < b/api TCP 82             : deny NetworkPolicy a/p: no ingress rule matches
         a/web < 198.51.100.1 TCP 80      : allow NetworkPolicy a/p: ingress rule 1
         a/web < 192.168.77.1 TCP 82      : allow own node n1
         a/both < b/api UDP 53            : deny ClusterNetworkPolicy base: ingress rule 1
         a/both < b/api UDP 54            : allow no isolation
         b/api < 10.1.0.3 TCP 9090        : allow a pod reaches itself
         a/web > 192.168.77.2 TCP 22      : allow ClusterNetworkPolicy base: egress rule 1
         a/web > 192.168.77.1 TCP 22      : deny ClusterNetworkPolicy base: egress rule 2
         a/web > b/api TCP 22             : allow no isolation",
    )
}

#[test]
fn a_cluster_policy_that_cannot_be_read_denies() -> Result<()> {
    let mut world = world(CLUSTER)?;
    put_cluster_policy(
        &mut world,
        "open",
        "{tier: Admin, priority: 0, subject: {namespaces: {}}, ingress: [{action: Accept, from: [{namespaces: {}}]}]}",
    )?;
    put_cluster_policy(
        &mut world,
        "rule",
        "{tier: Admin, priority: 0, subject: {namespaces: {}}, egress: [{action: Accept, to: [{domainNames: [x]}]}, {action: Pass, to: [{domainNames: [x]}]}]}",
    )?;
    check(
        &world,
        "a/web < b/api TCP 80             : allow ClusterNetworkPolicy open: ingress rule 1
         a/web > b/api TCP 80             : deny ClusterNetworkPolicy rule: egress rule 2 cannot be read",
    )?;
    put_cluster_policy(
        &mut world,
        "head",
        "{tier: Platform, priority: 9, subject: {namespaces: {}}, ingress: [{action: Accept, from: [{namespaces: {}}]}, {action: Pass, from: [{namespaces: {matchLabels: {team: none}}}]}]}",
    )?;
    check(&world, "a/web < b/api TCP 80 : deny ClusterNetworkPolicy head: ingress rule 2 cannot be read")
}

#[test]
fn tenants_keep_apart_whatever_policies_say() -> Result<()> {
    let mut world = with("{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: 80}]}]}")?;
    assert!(!world.has_tenants());
    apply(
        &mut world,
        "{apiVersion: v1, kind: Namespace, metadata: {name: b, labels: {team: y}, annotations: {fabric.io/tenant: red}}}",
    )?;
    assert!(world.has_tenants());
    put_claim(&mut world, "10.1.0.9", "")?;
    check(
        &world,
        "a/web < b/api TCP 80             : deny tenants: the common group does not meet tenant red
         b/api > a/web TCP 80             : deny tenants: tenant red does not meet the common group
         a/web < kube-system/dns TCP 80   : allow NetworkPolicy a/p: ingress rule 1
         a/web < kube-system/dns TCP 81   : deny NetworkPolicy a/p: no ingress rule matches
         b/api < kube-system/dns TCP 81   : allow no isolation
         b/api < 10.1.0.9 TCP 81          : deny tenants: tenant red does not meet the common group
         10.1.0.9 < b/api TCP 81          : deny tenants: the common group does not meet tenant red
         10.1.0.9 < a/both TCP 81         : allow no isolation
         b/api < 192.168.77.1 TCP 81      : allow no isolation
         b/api < b/api TCP 81             : allow no isolation",
    )?;
    let region = ask(&world, "b/api < 198.51.100.1 TCP 81")?.region;
    assert_eq!(region.to_string(), "peer 198.0.0.0/8 protocol any ports all");
    world.set_shared_namespaces(["a".into()].into());
    check(
        &world,
        "a/both < b/api TCP 80            : allow no isolation
         b/api < kube-system/dns TCP 81   : deny tenants: tenant red does not meet the common group",
    )?;
    apply(
        &mut world,
        "{apiVersion: v1, kind: Namespace, metadata: {name: b, annotations: {fabric.io/tenant: [red]}}}",
    )?;
    check(
        &world,
        "b/api < b/api TCP 80             : allow a pod reaches itself
         b/api < a/web TCP 80             : allow no isolation
         b/api < kube-system/dns TCP 80   : deny tenants: a tenant that cannot be read does not meet the common group",
    )
}

#[test]
fn audit_is_told_and_not_enforced() -> Result<()> {
    let mut world = world(CLUSTER)?;
    let audited = "annotations: {fabric.io/mode: audit}";
    apply(
        &mut world,
        &format!(
            "{POLICY}metadata: {{namespace: a, name: p, {audited}}}\nspec: {{podSelector: {{matchLabels: {{app: web}}}}, ingress: [{{ports: [{{port: 80}}]}}]}}\n"
        ),
    )?;
    check(
        &world,
        "a/web < b/api TCP 80             : allow no isolation
         a/web < b/api TCP 81             : allow no isolation | audit: NetworkPolicy a/p: no ingress rule matches
         a/web < a/web TCP 81             : allow no isolation
         a/web < 192.168.77.1 TCP 81      : allow no isolation",
    )?;
    assert!(!world.is_guarded("10.1.0.1".parse()?));
    // Its allows are no allows beside a policy that is enforced.
    apply(
        &mut world,
        &format!(
            "{POLICY}metadata: {{namespace: a, name: q}}\nspec: {{podSelector: {{}}, ingress: [{{ports: [{{port: 443}}]}}]}}\n"
        ),
    )?;
    check(
        &world,
        "a/web < b/api TCP 80             : deny NetworkPolicy a/q: no ingress rule matches
         a/web < b/api TCP 443            : allow NetworkPolicy a/q: ingress rule 1",
    )?;
    assert!(world.is_guarded("10.1.0.1".parse()?));
    apply(
        &mut world,
        &format!(
            "{CLUSTER_POLICY}metadata: {{name: c, {audited}}}\nspec: {{tier: Admin, priority: 1, subject: {{namespaces: {{}}}}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}\n"
        ),
    )?;
    check(
        &world,
        "a/web < b/api TCP 443 : allow NetworkPolicy a/q: ingress rule 1 | audit: ClusterNetworkPolicy c: ingress rule 1",
    )
}

#[test]
fn a_peer_that_is_not_known_is_denied_where_it_matters() -> Result<()> {
    let mut world = with(
        "{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {}}]}, {from: [{ipBlock: {cidr: 10.1.0.8/32}}], ports: [{port: 80}]}, {from: [{ipBlock: {cidr: 10.2.0.0/16}}]}], egress: [{ports: [{port: http}, {port: 22}]}]}",
    )?;
    put_claim(&mut world, "10.1.0.8", ", pod: {namespace: a, name: soon, uid: u}")?;
    check(
        &world,
        "a/web < 10.1.0.8 TCP 80          : allow NetworkPolicy a/p: ingress rule 2
         a/web < 10.1.0.8 TCP 81          : deny the pod at 10.1.0.8 is not known yet
         a/web > 10.1.0.8 TCP 22          : allow NetworkPolicy a/p: egress rule 1
         a/web > 10.1.0.8 TCP 23          : deny the pod at 10.1.0.8 is not known yet
         a/web > 10.1.0.8 UDP 23          : deny NetworkPolicy a/p: no egress rule matches
         a/both < 10.1.0.8 TCP 81         : allow no isolation
         10.1.0.8 < a/web TCP 81          : deny nobody known at 10.1.0.8",
    )?;
    apply(
        &mut world,
        "{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: soon, uid: u}, spec: {nodeName: n1}, status: {podIP: 10.1.0.8}}",
    )?;
    check(&world, "a/web < 10.1.0.8 TCP 81 : allow NetworkPolicy a/p: ingress rule 1")?;
    // Another pod of the name inherits nothing.
    apply(
        &mut world,
        "{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: soon, uid: v}, spec: {nodeName: n1}, status: {podIP: 10.1.0.8}}",
    )?;
    check(&world, "a/web < 10.1.0.8 TCP 81 : deny the pod at 10.1.0.8 is not known yet")
}

#[test]
fn a_pod_may_come_before_its_namespace_and_outlive_it() -> Result<()> {
    let mut world =
        with("{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: z}}}]}]}")?;
    apply(
        &mut world,
        "{apiVersion: v1, kind: Pod, metadata: {namespace: z, name: early}, spec: {nodeName: n1}, status: {podIP: 10.1.0.7}}",
    )?;
    check(
        &world,
        "a/web < 10.1.0.7 TCP 80          : deny the pod at 10.1.0.7 is not known yet
         10.1.0.7 < a/web TCP 80          : deny nobody known at 10.1.0.7",
    )?;
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: z, labels: {team: z}}}";
    apply(&mut world, namespace)?;
    check(
        &world,
        "a/web < 10.1.0.7 TCP 80 : allow NetworkPolicy a/p: ingress rule 1\nz/early < a/web TCP 80 : allow no isolation",
    )?;
    world.apply(Edit::Remove(ObjectRef::cluster(Kind::Namespace, "z")));
    check(&world, "a/web < 10.1.0.7 TCP 80 : deny the pod at 10.1.0.7 is not known yet")?;
    assert_eq!(ask(&world, "10.1.0.7 < a/web TCP 80")?.because, Because::UnknownSubject("10.1.0.7".parse()?));
    Ok(())
}

//! Who may talk to whom.
//!
//! The rules of one end are asked in this order, and the first that says something decides: a pod reaches itself, and
//! its own node reaches it; the tenants of the two ends; ClusterNetworkPolicies of tier Admin; NetworkPolicies, where
//! any isolates the pod in that direction; ClusterNetworkPolicies of tier Baseline. A peer whose pod is not known is
//! denied for the moment as soon as it matters who it is.

use std::net::IpAddr;

use ipnet::IpNet;

use super::case::Case;
use super::{Holder, Member, Resident, World};
use crate::address::Family;
use crate::digest::Digest;
use crate::name::Name;
use crate::object::{Namespace, Pod, Tenant};
use crate::question::{Direction, Question, Traffic};
use crate::region::{Region, widest_prefix};
use crate::rules::{Identity, Program, numbers};
use crate::verdict::{Because, Conversation, Judgement, Verdict};

/// The one whose rules are asked.
#[derive(Clone, Copy)]
pub(super) enum Subject<'w> {
    /// A live pod.
    Pod(&'w Member, &'w Namespace),
    /// A container that is no pod.
    Container,
    /// A node: it has no rules.
    Node,
    /// Nobody that is known.
    Unknown,
}

/// What comes of a question before the policies are asked.
pub(super) enum Asked<'w> {
    /// The policies about a pod are to be asked.
    Policies(Case<'w>),
    /// No policy has a part in it.
    Judged(Judgement),
}

/// What the tenants of the two ends come to.
pub(super) enum TenantRule<'w> {
    /// Nobody's tenant is looked at.
    None,
    /// They meet, or the peer is not a tenant matter.
    Meet,
    /// They keep apart.
    Apart(&'w Tenant, &'w Tenant),
    /// The peer's tenant is not known.
    Unknown,
}

impl World {
    /// Answers a question about a new conversation: whether the rules of the subject's end allow it. Both addresses
    /// are of one family. A subject that is not known, or not known in full, is denied for the moment.
    pub fn judge(&self, question: &Question) -> Judgement {
        match self.asked(question) {
            Asked::Policies(case) => case.judge(),
            Asked::Judged(judgement) => judgement,
        }
    }

    /// Asks what comes before the policies.
    pub(super) fn asked(&self, question: &Question) -> Asked<'_> {
        let Question { direction, subject, peer, .. } = *question;
        let whole = Region::whole(Family::of(peer));
        let unknown = || denied(whole, Because::UnknownSubject(subject));
        let (who, own) = match self.subject(subject) {
            Subject::Node => return Asked::Judged(allowed(whole, Because::NoIsolation)),
            Subject::Unknown => return Asked::Judged(unknown()),
            Subject::Container => (None, &Tenant::Common),
            Subject::Pod(member, namespace) => (Some((member, namespace)), self.tenants.of(namespace)),
        };
        let other = self.identity(peer);
        let rule = self.tenant_rule(own, &other);
        if let Some(because) = rule.denies(peer) {
            let region = Region { peer: IpNet::from(peer), ..whole };
            let itself = peer == subject;
            return Asked::Judged(if itself {
                allowed(region, Because::Itself)
            } else {
                denied(region, because)
            });
        }
        let by_tenant = matches!(rule, TenantRule::Meet);
        let Some((member, namespace)) = who else {
            let free = if by_tenant { self.addresses.free_of_pods(peer) } else { 0 };
            let peer = widest_prefix(peer, |net| net.prefix_len() >= free);
            return Asked::Judged(allowed(Region { peer, ..whole }, Because::NoIsolation));
        };
        let Some(program) = self.program_of(member, namespace) else { return Asked::Judged(unknown()) };
        let (world, question, pod) = (self, *question, &member.pod);
        let side = program.side(direction);
        Asked::Policies(Case { world, question, pod, side, peer: other, by_tenant })
    }

    /// Answers for both ends of a new conversation between two addresses of one family.
    pub fn converse(&self, from: IpAddr, to: IpAddr, traffic: Traffic) -> Conversation {
        let judge = |direction, subject, peer| match self.resident(subject) {
            Resident::Node(_) | Resident::Nobody => None,
            Resident::Pod(..) | Resident::Container(_) | Resident::Unknown => {
                Some(self.judge(&Question { direction, subject, peer, traffic }))
            }
        };
        Conversation {
            egress: judge(Direction::Egress, from, to),
            ingress: judge(Direction::Ingress, to, from),
        }
    }

    /// A fingerprint of the rules by which a subject's conversations of a direction are judged, whoever the peer is:
    /// equal, but for collisions of a hash of 64 bits, when and only when the rules are. Policies count by what they
    /// say, so that rules, peers, ports and values in another order make no difference where that has no
    /// meaning.
    pub fn program(&self, subject: IpAddr, direction: Direction) -> u64 {
        let digest = Digest::new().number(u8::from(direction == Direction::Ingress));
        let (member, namespace) = match self.subject(subject) {
            Subject::Unknown => return digest.text("unknown").finish(),
            Subject::Node => return digest.text("node").finish(),
            Subject::Container => return digest.text(&self.kept_apart(&Tenant::Common)).finish(),
            Subject::Pod(member, namespace) => (member, namespace),
        };
        let digest = digest.text("pod").text(&self.kept_apart(self.tenants.of(namespace)));
        let Some(program) = self.program_of(member, namespace) else { return digest.finish() };
        let side = program.side(direction);
        let digest = digest.list(&[side.fingerprint]);
        if direction == Direction::Egress {
            return digest.finish();
        }
        let node = self.node_of(subject, &member.pod);
        let digest = digest.text(node.map_or("", Name::as_str));
        let named = side.rules().flat_map(|(_, rule)| rule.ports.names());
        let own = named.flat_map(|(name, protocol)| {
            numbers(&member.pod, name, *protocol).map(|(protocol, port)| {
                Digest::new().text(name).number(protocol.number()).number(port).finish()
            })
        });
        digest.set(own.collect()).finish()
    }

    /// Whether an enforced policy says anything about what is sent to the pod at the address.
    pub fn is_guarded(&self, address: IpAddr) -> bool {
        let Subject::Pod(member, namespace) = self.subject(address) else { return false };
        self.program_of(member, namespace)
            .is_some_and(|program| program.side(Direction::Ingress).is_enforced())
    }

    /// Whether everybody may send anything to whoever lives at the address: no policy is enforced there, and no tenant
    /// keeps it apart from anybody.
    pub fn is_open(&self, address: IpAddr) -> bool {
        match self.subject(address) {
            Subject::Pod(_, namespace) => {
                self.kept_apart(self.tenants.of(namespace)).is_empty() && !self.is_guarded(address)
            }
            Subject::Container => self.kept_apart(&Tenant::Common).is_empty(),
            Subject::Node | Subject::Unknown => false,
        }
    }

    /// The tenant rule of a subject, as far as it does not depend on the peer: empty where no tenant is looked at.
    fn kept_apart(&self, own: &Tenant) -> String {
        if self.has_tenants() && *own != Tenant::Shared { own.to_string() } else { String::new() }
    }

    pub(super) fn subject(&self, address: IpAddr) -> Subject<'_> {
        match self.holder(address) {
            Holder::Pod(member) => match self.namespaces.get(&member.pod.reference.namespace) {
                Some(namespace) => Subject::Pod(member, namespace),
                None => Subject::Unknown,
            },
            Holder::Container(_) => Subject::Container,
            Holder::Node(_) => Subject::Node,
            Holder::Unknown | Holder::Nobody => Subject::Unknown,
        }
    }

    pub(super) fn identity(&self, address: IpAddr) -> Identity<'_> {
        match self.resident(address) {
            Resident::Pod(pod, namespace) => Identity::Pod(pod, namespace),
            Resident::Container(_) => Identity::Container,
            Resident::Unknown => Identity::Unknown,
            Resident::Node(name) => match self.nodes.get(name) {
                Some(node) => Identity::Node(node),
                None => Identity::Nobody,
            },
            Resident::Nobody => Identity::Nobody,
        }
    }

    pub(super) fn tenant_rule<'w>(&self, own: &'w Tenant, peer: &Identity<'w>) -> TenantRule<'w> {
        if !self.has_tenants() || *own == Tenant::Shared {
            return TenantRule::None;
        }
        let other = match peer {
            Identity::Pod(_, namespace) => self.tenants.of(namespace),
            Identity::Container => &Tenant::Common,
            Identity::Unknown => return TenantRule::Unknown,
            Identity::Node(_) | Identity::Nobody => return TenantRule::Meet,
        };
        if own.meets(other) { TenantRule::Meet } else { TenantRule::Apart(own, other) }
    }

    /// What the policies say about a pod.
    pub(super) fn program_of(&self, member: &Member, namespace: &Namespace) -> Option<&Program> {
        self.classes.program(member.class, || {
            let own = self.policies.get(&namespace.name).into_iter().flat_map(|policies| policies.values());
            let policies = own.map(|written| &written.policy);
            let policies = policies.chain(self.cluster_policies.values().map(|written| &written.policy));
            let about = policies.filter(|policy| policy.subject.selects(namespace, &member.pod.labels));
            Program::of(about.cloned().collect())
        })
    }

    /// The node that a pod runs on: the one of its address's claim, else the one it is scheduled to.
    pub(super) fn node_of<'w>(&'w self, address: IpAddr, pod: &'w Pod) -> Option<&'w Name> {
        self.addresses.claim(address).map(|claim| &claim.node).or(pod.node.as_ref())
    }
}

impl TenantRule<'_> {
    /// Why it denies, if it does.
    pub(super) fn denies(&self, peer: IpAddr) -> Option<Because> {
        match self {
            TenantRule::None | TenantRule::Meet => None,
            TenantRule::Unknown => Some(Because::UnknownPeer(peer)),
            TenantRule::Apart(own, other) => {
                Some(Because::Tenants { own: (*own).clone(), other: (*other).clone() })
            }
        }
    }
}

fn allowed(region: Region, because: Because) -> Judgement {
    Judgement { verdict: Verdict::Allow, region, because, audit: None }
}

fn denied(region: Region, because: Because) -> Judgement {
    Judgement { verdict: Verdict::Deny, region, because, audit: None }
}

//! One conversation: the question, its short answer, and the long one.

use std::net::IpAddr;

use policy::{
    Conversation, Direction, Explanation, Family, Judgement, ObjectRef, Question, Resident, Step, Verdict,
    World,
};
use serde::{Deserialize, Serialize};

use super::{AskError, End, Traffic, meet};

/// Most questions in one body of `POST /v1/check`: the agent answers packets between two of them.
pub const CHECK_MOST: usize = 512;

/// The body of `POST /v1/verdict`: may this conversation be opened?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Query {
    /// Who opens it.
    pub from: End,
    /// With whom.
    pub to: End,
    /// What is sent.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Over which family of addresses, 4 or 6; absent: IPv4 where both have it.
    #[serde(default, with = "family", skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
}

/// A verdict, and the reason at each end that has rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Whether the conversation may be opened.
    pub verdict: Verdict,
    /// The address that opens it.
    pub from: IpAddr,
    /// The address to which.
    pub to: IpAddr,
    /// The verdict over IPv6, where the question left the family open, was answered over IPv4, and would have
    /// another answer over IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_ipv6: Option<Verdict>,
    /// Why the sender may or may not send it; absent where it is no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<String>,
    /// Why the receiver may or may not receive it; absent where it is no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<String>,
}

/// The body of `POST /v1/check`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckQuery {
    /// The questions.
    pub questions: Vec<Query>,
}

/// The answer to `POST /v1/check`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// One for each question, in their order.
    pub answers: Vec<Reply>,
}

/// An answer, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reply {
    /// The answer.
    Answer(Answer),
    /// Why there is none.
    Error(crate::Error),
}

/// The answer to `POST /v1/verdict`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether the conversation may be opened.
    pub verdict: Verdict,
    /// Who opens it.
    pub from: Party,
    /// With whom.
    pub to: Party,
    /// What is sent.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The verdict over IPv6, where the question left the family open, was answered over IPv4, and would have
    /// another answer over IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_ipv6: Option<Verdict>,
    /// What was looked at to tell whether the sender may send it; absent where it is no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Side>,
    /// What was looked at to tell whether the receiver may receive it; absent where it is no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Side>,
}

/// What the rules of one end say, and how that came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// What this end says.
    pub verdict: Verdict,
    /// Why: the text that flows, logs and metrics show too.
    pub because: String,
    /// The policy that decides, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ObjectRef>,
    /// Why it would be denied if the policies in audit mode were enforced, although it is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<String>,
    /// The packets of this end for which the same holds: `peer 10.1.0.0/16 protocol any ports all`.
    pub region: String,
    /// What was looked at, in order.
    pub steps: Vec<Step>,
}

impl From<Explanation> for Side {
    fn from(explanation: Explanation) -> Side {
        let Explanation { question: _, steps, judgement } = explanation;
        let Judgement { verdict, region, because, audit } = judgement;
        Side {
            verdict,
            because: because.to_string(),
            policy: because.policy().cloned(),
            audit: audit.map(|because| because.to_string()),
            region: region.to_string(),
            steps,
        }
    }
}

/// An end of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Party {
    /// As it was asked.
    pub end: End,
    /// The address at which it was asked.
    pub address: IpAddr,
    /// Who has that address, in words: `Pod shop/web on n1`, `Node n1`, `outside the cluster`.
    pub resident: String,
}

/// Where two ends meet.
struct Meeting {
    from: IpAddr,
    to: IpAddr,
    /// Where else, if the question leaves it open.
    over_ipv6: Option<(IpAddr, IpAddr)>,
}

impl Query {
    /// The ends, at the addresses at which they meet.
    fn meet(&self, world: &World) -> Result<Meeting, AskError> {
        let (all_from, all_to) = (self.from.addresses(world)?, self.to.addresses(world)?);
        let met = meet(&all_from, &all_to, self.family);
        let (from, to) = met.ok_or_else(|| AskError::NoFamily {
            from: self.from.clone(),
            to: self.to.clone(),
            family: self.family,
        })?;
        let open = self.family.is_none() && from.is_ipv4();
        let over_ipv6 = if open { meet(&all_from, &all_to, Some(Family::V6)) } else { None };
        Ok(Meeting { from, to, over_ipv6 })
    }

    /// The verdict over IPv6 where it is another.
    fn over_ipv6(&self, world: &World, meeting: &Meeting, verdict: Verdict) -> Option<Verdict> {
        let (from, to) = meeting.over_ipv6?;
        let other = world.converse(from, to, self.traffic.to(to)).verdict();
        (other != verdict).then_some(other)
    }

    /// Answers it from a world.
    ///
    /// # Errors
    /// Where an end has no address, or the two no family in common.
    pub fn answer(&self, world: &World) -> Result<Answer, AskError> {
        let meeting = self.meet(world)?;
        let Meeting { from, to, .. } = meeting;
        let conversation = world.converse(from, to, self.traffic.to(to));
        let verdict = conversation.verdict();
        let Conversation { egress, ingress } = conversation;
        let why = |judgement: Judgement| judgement.because.to_string();
        let over_ipv6 = self.over_ipv6(world, &meeting, verdict);
        Ok(Answer { verdict, from, to, over_ipv6, egress: egress.map(why), ingress: ingress.map(why) })
    }

    /// Answers it from a world, with everything that was looked at.
    ///
    /// # Errors
    /// As [`Query::answer`].
    pub fn explain(&self, world: &World) -> Result<Report, AskError> {
        let meeting = self.meet(world)?;
        let Meeting { from, to, .. } = meeting;
        let traffic = self.traffic.to(to);
        let conversation = world.converse(from, to, traffic);
        let explain = |direction, subject, peer| {
            Side::from(world.explain(&Question { direction, subject, peer, traffic }))
        };
        let party =
            |end: &End, address| Party { end: end.clone(), address, resident: resident(world, address) };
        let verdict = conversation.verdict();
        Ok(Report {
            verdict,
            from: party(&self.from, from),
            to: party(&self.to, to),
            traffic: self.traffic,
            over_ipv6: self.over_ipv6(world, &meeting, verdict),
            egress: conversation.egress.as_ref().map(|_| explain(Direction::Egress, from, to)),
            ingress: conversation.ingress.as_ref().map(|_| explain(Direction::Ingress, to, from)),
        })
    }
}

impl CheckQuery {
    /// Answers it from a world.
    ///
    /// # Errors
    /// [`AskError::TooMany`].
    pub fn answer(&self, world: &World) -> Result<Check, AskError> {
        let asked = self.questions.len();
        if asked > CHECK_MOST {
            return Err(AskError::TooMany { asked, most: CHECK_MOST });
        }
        let reply = |question: &Query| match question.answer(world) {
            Ok(answer) => Reply::Answer(answer),
            Err(error) => Reply::Error(crate::Error { error: error.to_string() }),
        };
        Ok(Check { answers: self.questions.iter().map(reply).collect() })
    }
}

/// Who has an address, in words.
fn resident(world: &World, address: IpAddr) -> String {
    match world.resident(address) {
        Resident::Pod(pod, _) => match &pod.node {
            Some(node) => format!("Pod {} on {node}", pod.reference),
            None => format!("Pod {}", pod.reference),
        },
        Resident::Container(claim) => format!("a container on {}", claim.node),
        Resident::Unknown => {
            "claimed by a pod that is not known, or is in a namespace that is not".to_owned()
        }
        Resident::Node(node) => format!("Node {node}"),
        Resident::Nobody => match world.network_of(address) {
            Some(network) => format!("nobody, in Network {}", network.name),
            None => "outside the cluster".to_owned(),
        },
    }
}

/// A family as 4 or 6.
mod family {
    use policy::Family;
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[allow(clippy::ref_option, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(
        family: &Option<Family>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match family {
            None => serializer.serialize_none(),
            Some(Family::V4) => serializer.serialize_u8(4),
            Some(Family::V6) => serializer.serialize_u8(6),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Family>, D::Error> {
        match Option::<u8>::deserialize(deserializer)? {
            None => Ok(None),
            Some(4) => Ok(Some(Family::V4)),
            Some(6) => Ok(Some(Family::V6)),
            Some(_) => Err(de::Error::custom("family is 4 or 6")),
        }
    }
}

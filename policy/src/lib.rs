//! The cluster as it should be, and who may talk to whom, and why.
//!
//! Manifests come in through one gate ([`manifest::admit`]), become typed [`Object`]s, and edit the
//! [`World`]. The world knows who lives at an address ([`World::locate`]) and answers questions about new
//! conversations ([`World::judge`]) with a verdict, the region of packets for which that verdict holds, and
//! the reason; [`World::explain`] tells of everything that was looked at on the way. Nothing here does IO or looks at a clock: the same edits give the same answers.

pub mod address;
mod digest;
mod explanation;
mod interval;
pub mod label;
pub mod manifest;
mod name;
pub mod object;
mod question;
pub mod region;
mod rules;
pub mod selector;
mod timestamp;
mod verdict;
mod world;

pub use address::{Family, IpRange, Mac};
pub use explanation::{Explanation, Finding, FindingKind, Outcome, Stage, Step};
pub use label::Labels;
pub use name::{Kind, Name, ObjectRef, ParsePodRefError, PodRef};
pub use object::{
    ClusterNetworkPolicy, Encap, EndpointSlice, IpClaim, Mode, NamedPort, Namespace, Network, NetworkPolicy,
    Node, Object, Pod, PodAnnotations, PodIdent, Protocol, Service, Tenant, Trace, claim_address, claim_name,
    to_manifest,
};
pub use question::{Direction, Question, Traffic};
pub use region::{PortBlock, Region};
pub use selector::{Operator, Requirement, Selector};
pub use timestamp::{ParseTimestampError, Timestamp};
pub use verdict::{Because, Conversation, Judgement, Verdict};
pub use world::{Change, Edit, Exit, Location, NetworkChoiceError, Resident, World};

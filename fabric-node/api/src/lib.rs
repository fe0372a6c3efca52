//! The types of the agent's unix-socket interface.
//!
//! The agent listens on `agent.sock` in its socket folder and answers HTTP/1.1:
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/status` | [`Status`] |
//! | `GET /v1/world` | [`World`] |
//! | `GET /v1/ipam` | [`Ipam`] |
//! | `GET /v1/claims?after=ADDRESS` | [`ClaimsPage`] |
//! | `POST /v1/verdict` with a [`verdict::Query`] | [`verdict::Report`] |
//! | `POST /v1/check` with a [`verdict::CheckQuery`] | [`verdict::Check`] |
//! | `POST /v1/matrix` with a [`verdict::MatrixQuery`] | [`verdict::Matrix`] |
//! | `GET /v1/pods?after=NAMESPACE/NAME` | [`verdict::PodsPage`] |
//! | `GET /v1/lint` | [`verdict::Lint`] |
//! | `GET /metrics` | Prometheus text format 0.0.4 |
//! | `GET /healthz` | 200 where the agent's own task answers, else 503 |
//! | `GET /readyz` | 200 where the agent attaches containers, else 503; the body says what it waits for |
//!
//! Bodies under `/v1` are JSON with the field names of these types in camelCase. A
//! status other than 200 carries an [`Error`]. Fields may be added within `v1`; a
//! reader ignores those that it does not know.

#[cfg(feature = "client")]
pub mod client;
pub mod ipam;
mod problem;
mod status;
pub mod verdict;
mod world;

pub use ipam::{Claim, ClaimsPage, Ipam, Pool};
pub use problem::{Error, Problem};
pub use status::{
    Attachment, Conflict, Flows, Lease, LeaseState, Path, PolicyState, Punts, Rates, Segment, State, Status,
    Store, StoreKind, Switch, TableFlows, Tally,
};
pub use world::{World, WorldCounts};

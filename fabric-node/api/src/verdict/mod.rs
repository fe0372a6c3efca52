//! Who may talk to whom, as a world has it: the questions and answers of `/v1/verdict`,
//! `/v1/check`, `/v1/matrix`, `/v1/pods` and `/v1/lint`.
//!
//! The answers are made here, from a [`policy::World`] alone, so that the agent and a
//! program that reads manifests offline say the same.
//!
//! A pod that is asked by its name is asked at its address: that of its claim, else the
//! one that its status reports. Where both ends have addresses of both families, a
//! conversation is asked over IPv4 unless the question says otherwise.

mod end;
mod lint;
mod matrix;
mod pods;
mod query;
mod traffic;

pub use end::{AskError, End, ParseEndError, addresses, meet};
pub use lint::{Finding, Lint, lint};
pub use matrix::{MATRIX_MOST, Matrix, MatrixQuery};
pub use pods::{PODS_MOST, PodAddresses, PodsPage, pods};
pub use query::{Answer, CHECK_MOST, Check, CheckQuery, Party, Query, Reply, Report, Side};
pub use traffic::{Protocol, Traffic, TrafficError};

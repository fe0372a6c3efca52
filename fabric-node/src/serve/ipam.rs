//! Addresses: how many there are, and who has which.

use std::net::IpAddr;

use axum::Json;
use axum::extract::{Query as Parameters, State};
use axum::http::StatusCode;
use fabric_api::{ClaimsPage, Ipam};
use serde::Deserialize;

use super::{Agent, Ask, Refusal, refusal};

/// `GET /v1/ipam`.
pub(super) async fn ipam(State(agent): State<Agent>) -> Result<Json<Ipam>, Refusal> {
    let status = agent.ask(Ask::Brief).await?;
    Ok(Json(Ipam { pools: status.pools }))
}

/// Where a page of claims begins.
#[derive(Debug, Deserialize)]
pub(super) struct Behind {
    after: Option<String>,
}

/// `GET /v1/claims`.
pub(super) async fn claims(
    State(agent): State<Agent>,
    Parameters(Behind { after }): Parameters<Behind>,
) -> Result<Json<ClaimsPage>, Refusal> {
    let after: Option<IpAddr> = match after.map(|after| after.parse()).transpose() {
        Ok(after) => after,
        Err(wrong) => return Err(refusal(StatusCode::BAD_REQUEST, format!("after: {wrong}"))),
    };
    agent.look(move |world| fabric_api::ipam::claims(world, after)).await.map(Json)
}

//! Many conversations at once: each of some ends with each of others.

use std::net::IpAddr;

use policy::{Family, Verdict, World};
use serde::{Deserialize, Serialize};

use super::{AskError, Traffic};

/// Most conversations in one question: the agent answers packets between two of them.
pub const MATRIX_MOST: usize = 2_048;

/// The body of `POST /v1/matrix`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatrixQuery {
    /// Addresses that open a conversation.
    pub from: Vec<IpAddr>,
    /// Addresses to which.
    pub to: Vec<IpAddr>,
    /// What is sent.
    pub traffic: Vec<Traffic>,
}

/// The answer to `POST /v1/matrix`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Matrix {
    /// For each of `from`, for each of `traffic`, a letter for each of `to`: `a` allow, `d` deny, `-` where the
    /// addresses are not of one family.
    pub rows: Vec<Vec<String>>,
}

impl MatrixQuery {
    /// How many conversations it asks about.
    pub fn asked(&self) -> usize {
        self.from.len().saturating_mul(self.to.len()).saturating_mul(self.traffic.len())
    }

    /// Answers it from a world.
    ///
    /// # Errors
    /// [`AskError::TooMany`].
    pub fn answer(&self, world: &World) -> Result<Matrix, AskError> {
        if self.asked() > MATRIX_MOST {
            return Err(AskError::TooMany { asked: self.asked(), most: MATRIX_MOST });
        }
        let row = |from: IpAddr, traffic: Traffic| {
            self.to.iter().map(|to| letter(world, from, *to, traffic)).collect()
        };
        let rows = |from: &IpAddr| self.traffic.iter().map(|traffic| row(*from, *traffic)).collect();
        Ok(Matrix { rows: self.from.iter().map(rows).collect() })
    }
}

fn letter(world: &World, from: IpAddr, to: IpAddr, traffic: Traffic) -> char {
    if Family::of(from) != Family::of(to) {
        return '-';
    }
    match world.converse(from, to, traffic.to(to)).verdict() {
        Verdict::Allow => 'a',
        Verdict::Deny => 'd',
    }
}

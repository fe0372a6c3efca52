//! How a verdict comes about, in words.

use super::World;
use crate::explanation::{Explanation, Finding, Outcome, Stage, Step};
use crate::question::Question;

impl World {
    /// How the verdict comes about.
    pub fn explain(&self, question: &Question) -> Explanation {
        let judgement = self.judge(question);
        let step = Step {
            stage: Stage::Default,
            policy: judgement.because.policy().cloned(),
            rule: None,
            name: None,
            outcome: Outcome::Match,
            reason: judgement.because.to_string(),
            audit: false,
            decides: true,
        };
        Explanation { question: *question, steps: vec![step], judgement }
    }

    /// What in the policies is probably not what their authors want.
    pub fn lint(&self) -> Vec<Finding> {
        Vec::new()
    }
}

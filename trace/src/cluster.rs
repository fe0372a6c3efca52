//! Whom to ask: a world read from manifests, or the agent of the node.

use std::net::IpAddr;
use std::path::PathBuf;

use fabric_api::client;
use fabric_api::verdict::{
    self, CHECK_MOST, Check, CheckQuery, Lint, MATRIX_MOST, Matrix, MatrixQuery, PodAddresses, PodsPage,
    Query, Reply, Report, Traffic,
};
use policy::PodRef;
use tokio::runtime::{Builder, Runtime};

use crate::args::Source;
use crate::error::TraceError;
use crate::manifests::Manifests;

/// The cluster that is asked.
pub enum Cluster {
    /// As manifests have it.
    Manifests(Box<Manifests>),
    /// As the agent of the node knows it.
    Agent(Agent),
}

/// A running agent.
pub struct Agent {
    socket: PathBuf,
    runtime: Runtime,
}

impl Cluster {
    /// Opens what the command line names. What is wrong with manifests is told on standard error.
    ///
    /// # Errors
    /// Where there is nothing to read.
    pub fn open(source: &Source) -> Result<Cluster, TraceError> {
        if source.manifests.is_empty() {
            let runtime = Builder::new_current_thread().enable_all().build().map_err(TraceError::Runtime)?;
            return Ok(Cluster::Agent(Agent { socket: source.socket.clone(), runtime }));
        }
        let mut manifests = Manifests::read(&source.manifests)?;
        let shared = source.shared_namespaces.iter().filter(|name| !name.is_empty());
        manifests.world.set_shared_namespaces(shared.map(|name| name.as_str().into()).collect());
        Ok(Cluster::Manifests(Box::new(manifests)))
    }

    /// Tells on standard error what is wrong with the manifests. An agent has told it where it runs.
    pub fn complain(&self) {
        let Cluster::Manifests(manifests) = self else { return };
        let of_world = manifests.world.problems().into_iter().map(fabric_api::Problem::from);
        for problem in manifests.problems.iter().cloned().chain(of_world) {
            eprintln!("fabric-trace: {problem}");
        }
    }

    /// The verdict on a conversation, with everything that was looked at.
    ///
    /// # Errors
    /// Where there is no answer.
    pub fn explain(&self, query: &Query) -> Result<Report, TraceError> {
        match self {
            Cluster::Manifests(manifests) => Ok(query.explain(&manifests.world)?),
            Cluster::Agent(agent) => agent.post("/v1/verdict", query),
        }
    }

    /// The answers to questions, in their order.
    ///
    /// # Errors
    /// Where nobody answers; a question without an answer has that as its reply.
    pub fn replies(&self, questions: Vec<Query>) -> Result<Vec<Reply>, TraceError> {
        let mut replies = Vec::with_capacity(questions.len());
        for some in questions.chunks(CHECK_MOST) {
            let some = CheckQuery { questions: some.to_vec() };
            let answers: Check = match self {
                Cluster::Manifests(manifests) => some.answer(&manifests.world)?,
                Cluster::Agent(agent) => agent.post("/v1/check", &some)?,
            };
            replies.extend(answers.answers);
        }
        Ok(replies)
    }

    /// The pods that have not finished, in the order of namespace and name.
    ///
    /// # Errors
    /// Where nobody answers.
    pub fn pods(&self) -> Result<Vec<PodAddresses>, TraceError> {
        let mut pods = Vec::new();
        let mut after: Option<PodRef> = None;
        loop {
            let page = self.page(after.as_ref())?;
            pods.extend(page.pods);
            match page.next.and_then(|next| next.parse().ok()) {
                // Names only grow, or the pages would never end.
                Some(next) if after.as_ref() < Some(&next) => after = Some(next),
                _ => return Ok(pods),
            }
        }
    }

    fn page(&self, after: Option<&PodRef>) -> Result<PodsPage, TraceError> {
        match self {
            Cluster::Manifests(manifests) => Ok(verdict::pods(&manifests.world, after)),
            Cluster::Agent(agent) => agent.get(&match after {
                Some(after) => format!("/v1/pods?after={after}"),
                None => "/v1/pods".to_owned(),
            }),
        }
    }

    /// Who of `to` may be reached from an address: for each of `traffic` a letter for each of `to`, as in
    /// [`Matrix::rows`].
    ///
    /// # Errors
    /// Where nobody answers.
    pub fn row(&self, from: IpAddr, to: &[IpAddr], traffic: &[Traffic]) -> Result<Vec<String>, TraceError> {
        let mut letters = vec![String::with_capacity(to.len()); traffic.len()];
        let at_once = (MATRIX_MOST / traffic.len().max(1)).max(1);
        for some in to.chunks(at_once) {
            // As many kinds of traffic as fit, should one address alone be too much.
            for (kinds, letters) in traffic.chunks(MATRIX_MOST).zip(letters.chunks_mut(MATRIX_MOST)) {
                let query = MatrixQuery { from: vec![from], to: some.to_vec(), traffic: kinds.to_vec() };
                let answer = self.matrix(&query)?;
                let rows = answer.rows.into_iter().flatten();
                letters.iter_mut().zip(rows).for_each(|(letters, row)| letters.push_str(&row));
            }
        }
        Ok(letters)
    }

    fn matrix(&self, query: &MatrixQuery) -> Result<Matrix, TraceError> {
        match self {
            Cluster::Manifests(manifests) => Ok(query.answer(&manifests.world)?),
            Cluster::Agent(agent) => agent.post("/v1/matrix", query),
        }
    }

    /// What is wrong with policies, and what could not be read.
    ///
    /// # Errors
    /// Where nobody answers.
    pub fn lint(&self) -> Result<Lint, TraceError> {
        match self {
            Cluster::Manifests(manifests) => {
                Ok(verdict::lint(&manifests.world, manifests.problems.clone(), |object| {
                    manifests.place(object)
                }))
            }
            Cluster::Agent(agent) => agent.get("/v1/lint"),
        }
    }
}

impl Agent {
    fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, TraceError> {
        Ok(self.runtime.block_on(client::json(&self.socket, path))?)
    }

    fn post<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        question: &impl serde::Serialize,
    ) -> Result<T, TraceError> {
        Ok(self.runtime.block_on(client::post(&self.socket, path, question))?)
    }
}

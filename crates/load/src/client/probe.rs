//! Asks a server what it serves and what it understands, before any load.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;

use super::{EndpointCalls, calls::CallError};
use crate::{
    body::{Dialect, RequestTemplate},
    endpoint::Endpoint,
    prompt::Prompt,
    record::FailureKind,
};

/// Why a server cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("{endpoint} does not answer: {source}")]
    Call { endpoint: String, source: CallError },
    /// What it answers is not of the protocol, or breaks off.
    #[error("{endpoint} does not answer as an OpenAI-compatible server: {source}")]
    Garbled { endpoint: String, source: CallError },
    /// It does not say which model it serves.
    #[error("{endpoint} does not say which model it serves ({why}); name it with --model")]
    NoModel {
        endpoint: String,
        /// The failure or the content of `/v1/models`.
        why: String,
    },
    /// It refuses every form of a request.
    #[error("{endpoint} refuses requests: {source}")]
    Refused {
        endpoint: String,
        /// What it said to the plainest one.
        source: CallError,
    },
}

/// The model that a server serves and the fields it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    pub model: String,
    /// Optional fields that the server accepts.
    pub dialect: Dialect,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<ServedModel>,
}

#[derive(Deserialize)]
struct ServedModel {
    id: String,
}

/// Finds the model where `template.model` is empty, then the most that the server understands, by requests of one or two tokens
/// with `prompt`. HTTP 400 and 422 mean "not understood"; anything else is an answer or a failure.
pub fn probe_server(
    endpoint: &Arc<Endpoint>,
    template: &RequestTemplate,
    prompt: &Prompt,
    ignore_eos: bool,
    limit: Duration,
) -> Result<Probed, ProbeError> {
    let name = endpoint.to_string();
    let failed = |source| {
        let endpoint = name.clone();
        if is_garbled(&source) {
            ProbeError::Garbled { endpoint, source }
        } else {
            ProbeError::Call { endpoint, source }
        }
    };
    let calls = EndpointCalls::new(Arc::clone(endpoint)).map_err(failed)?;
    let mut template = template.clone();
    if template.model.is_empty() {
        let no_model = |why: String| ProbeError::NoModel {
            endpoint: name.clone(),
            why,
        };
        let bytes = match calls.get("/v1/models", limit) {
            Ok(bytes) => bytes,
            Err(error @ CallError::Status { .. }) => return Err(no_model(error.to_string())),
            Err(error) => return Err(failed(error)),
        };
        let models: Models =
            serde_json::from_slice(&bytes).map_err(|error| no_model(error.to_string()))?;
        template.model = models
            .data
            .into_iter()
            .next()
            .map(|model| model.id)
            .ok_or_else(|| no_model("it lists none".to_owned()))?;
    }
    let mut refusal = None;
    for dialect in Dialect::all(ignore_eos) {
        // Usage options are of streams; without one only ignore_eos is in question.
        if !template.stream && (dialect.usage, dialect.continuous_usage) != (true, true) {
            continue;
        }
        template.dialect = dialect;
        match calls.post(endpoint.api.path(), template.body(prompt, 2, &[]), limit) {
            Ok(_) => {
                return Ok(Probed {
                    model: template.model,
                    dialect,
                });
            }
            Err(
                error @ CallError::Status {
                    status: 400 | 422, ..
                },
            ) => refusal = Some(error),
            Err(error @ CallError::Status { .. }) => {
                return Err(ProbeError::Refused {
                    endpoint: name,
                    source: error,
                });
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Err(ProbeError::Refused {
        endpoint: name,
        source: refusal.expect("there is at least one dialect, and all were refused"),
    })
}

/// Whether something answered a call that is no server of this protocol.
fn is_garbled(error: &CallError) -> bool {
    let CallError::Failed { failure, .. } = error else {
        return false;
    };
    matches!(
        failure.kind,
        FailureKind::Malformed | FailureKind::Reset | FailureKind::Disconnected
    )
}

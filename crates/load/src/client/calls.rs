//! Plain calls beside the load: health, models, metrics, profile endpoints.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    connection::{ConnectionPool, Connector},
    exchange::{RequestHead, collect_answer},
};
use crate::{endpoint::Endpoint, record::RequestFailure};

/// Longest answer of a call. Pages of metrics have some hundred kilobytes.
const ANSWER_MAX_BYTES: usize = 64 << 20;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The endpoint cannot be used at all.
    #[error("{0}")]
    Endpoint(String),
    /// No connection, or it broke.
    #[error("{path}: {}", .failure.message)]
    Failed {
        path: String,
        failure: RequestFailure,
    },
    /// The status is not 2xx.
    #[error("{path}: HTTP {status}{}", if .body.is_empty() { String::new() } else { format!(": {body}") })]
    Status {
        path: String,
        status: u16,
        /// The start of the answer.
        body: String,
    },
}

/// Makes calls, one after the other, on a runtime of its own.
pub struct EndpointCalls {
    runtime: tokio::runtime::Runtime,
    connector: Connector,
    pool: ConnectionPool,
}

impl EndpointCalls {
    pub fn new(endpoint: Arc<Endpoint>) -> Result<Self, CallError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CallError::Endpoint(format!("cannot start an event loop: {error}")))?;
        Ok(Self {
            runtime,
            connector: Connector::new(endpoint).map_err(CallError::Endpoint)?,
            pool: ConnectionPool::default(),
        })
    }

    /// The body of a GET below the endpoint's base.
    pub fn get(&self, path: &str, limit: Duration) -> Result<Vec<u8>, CallError> {
        self.call_server("GET", path, Bytes::new(), limit)
    }

    /// The body of a POST's answer.
    pub fn post(&self, path: &str, body: Bytes, limit: Duration) -> Result<Vec<u8>, CallError> {
        self.call_server("POST", path, body, limit)
    }

    fn call_server(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let path = format!("{}{path}", self.connector.endpoint().base);
        let failed = |failure| CallError::Failed {
            path: path.clone(),
            failure,
        };
        let (status, bytes) = self
            .runtime
            .block_on(async {
                tokio::time::timeout(limit, self.send_request(method, &path, body)).await
            })
            .map_err(|_| {
                let why = format!("no answer within {limit:?}");
                failed(RequestFailure::new(
                    crate::record::FailureKind::Timeout,
                    why,
                ))
            })?
            .map_err(failed)?;
        if (200..300).contains(&status) {
            return Ok(bytes);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let text = self.connector.endpoint().without_key(text);
        Err(CallError::Status {
            path,
            status,
            body: text.trim().chars().take(400).collect(),
        })
    }

    async fn send_request(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<(u16, Vec<u8>), RequestFailure> {
        let head = RequestHead::new(&self.connector, path.to_owned());
        let disconnected = |error: hyper::Error| {
            RequestFailure::new(crate::record::FailureKind::Disconnected, error.to_string())
        };
        let kept = self.pool.take_idle();
        let (mut sender, is_kept) = match kept {
            Some(sender) => (sender, true),
            None => (self.connector.connect().await?, false),
        };
        let mut answer = match sender.ready().await {
            Ok(()) => {
                sender
                    .send_request(head.build_request(method, body.clone()))
                    .await
            }
            Err(error) => Err(error),
        };
        if answer.is_err() && is_kept {
            sender = self.connector.connect().await?;
            answer = sender.send_request(head.build_request(method, body)).await;
        }
        let response = answer.map_err(disconnected)?;
        let status = response.status().as_u16();
        let (bytes, is_reusable) = collect_answer(response.into_body(), ANSWER_MAX_BYTES).await?;
        if is_reusable {
            self.pool.put_back(sender);
        }
        Ok((status, bytes))
    }
}

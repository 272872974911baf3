//! Connections: TCP or TLS, HTTP/1.1, kept while the server keeps them.

use std::{
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, pki_types::ServerName},
};

use crate::{
    endpoint::Endpoint,
    record::{FailureKind, RequestFailure},
};

/// Idle connections older than this are not used again: common servers close them after five seconds.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// Bytes that a connection reads at once. The default grows to 400 KB, which ten thousand streams do not have.
const READ_BYTES: usize = 8 << 10;

/// A connection that takes requests.
pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// Makes connections to one endpoint.
#[derive(Clone)]
pub(crate) struct Connector {
    endpoint: Arc<Endpoint>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    /// Reads the certificates that TLS needs. The message of a failure names what is wrong.
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Result<Self, String> {
        let tls = if endpoint.is_tls {
            Some(tls_connector(&endpoint)?)
        } else {
            None
        };
        Ok(Self { endpoint, tls })
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// A new connection; a task of its own drives it until either side ends it.
    pub(crate) async fn connect(&self) -> Result<Sender, RequestFailure> {
        let address = (self.endpoint.host.as_str(), self.endpoint.port);
        let refused = |error: io::Error| {
            let kind = if error.kind() == io::ErrorKind::TimedOut {
                FailureKind::Timeout
            } else {
                FailureKind::Connect
            };
            RequestFailure::new(
                kind,
                format!("cannot connect to {}: {error}", self.endpoint.authority()),
            )
        };
        let stream = TcpStream::connect(address).await.map_err(refused)?;
        stream.set_nodelay(true).map_err(refused)?;
        match &self.tls {
            None => handshake_http(TokioIo::new(stream)).await,
            Some((connector, name)) => {
                let stream = connector
                    .connect(name.clone(), stream)
                    .await
                    .map_err(|error| {
                        RequestFailure::new(
                            FailureKind::Tls,
                            format!("TLS with {} failed: {error}", self.endpoint.authority()),
                        )
                    })?;
                handshake_http(TokioIo::new(stream)).await
            }
        }
    }
}

async fn handshake_http<T>(io: T) -> Result<Sender, RequestFailure>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .read_buf_exact_size(Some(READ_BYTES))
        .handshake(io)
        .await
        .map_err(|error| RequestFailure::new(FailureKind::Connect, error.to_string()))?;
    // How it ended is told to the request on it.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

fn tls_connector(endpoint: &Endpoint) -> Result<(TlsConnector, ServerName<'static>), String> {
    use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject as _};
    let mut roots = RootCertStore::empty();
    // A system without certificates is an error only once a server's certificate is not trusted.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = &endpoint.ca {
        let wrong = |error: &dyn std::fmt::Display| {
            format!("cannot read certificates of {}: {error}", path.display())
        };
        let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<_, _>>)
            .map_err(|error| wrong(&error))?;
        if certificates.is_empty() {
            return Err(wrong(&"there is none in it"));
        }
        for certificate in certificates {
            roots.add(certificate).map_err(|error| wrong(&error))?;
        }
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(endpoint.host.clone())
        .map_err(|_| format!("`{}` is not a valid name for a certificate", endpoint.host))?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// Connections that wait for their next request, the freshest on top.
#[derive(Clone, Default)]
pub(crate) struct ConnectionPool {
    idle: Arc<Mutex<Vec<(Sender, Instant)>>>,
}

impl ConnectionPool {
    pub(crate) fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().expect("nothing panics with the lock");
        while let Some((sender, since)) = idle.pop() {
            if !sender.is_closed() && since.elapsed() < IDLE_MAX {
                return Some(sender);
            }
        }
        None
    }

    pub(crate) fn put_back(&self, sender: Sender) {
        if !sender.is_closed() {
            let mut idle = self.idle.lock().expect("nothing panics with the lock");
            idle.push((sender, Instant::now()));
        }
    }
}

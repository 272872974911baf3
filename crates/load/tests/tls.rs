//! TLS with a certificate of our own, and with one that nobody vouches for.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop")]

use crate::support;

use std::{net::SocketAddr, sync::Arc};

use llmprof_load::{arrivals::Arrivals, record::FailureKind};
use support::{load, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

/// A server that answers every request with one event.
fn server() -> (SocketAddr, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut asked = vec![0; 65536];
                    while stream.read(&mut asked).await.is_ok_and(|read| read > 0) {
                        let body = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
                        let answer = format!(
                            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        if stream.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
    });
    (address, made.cert.pem())
}

#[test]
fn certificates_are_checked() {
    let (address, certificate) = server();
    let url = format!("https://localhost:{}", address.port());
    let mut asked = load(&url, &Arrivals::Closed { concurrency: 2 }, 6, 4);
    for request in run(&asked).requests {
        assert_eq!(request.failure.unwrap().kind, FailureKind::Tls);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), certificate).unwrap();
    let mut endpoint = (*asked.endpoint).clone();
    endpoint.ca = Some(file.path().to_owned());
    asked.endpoint = Arc::new(endpoint);
    for request in run(&asked).requests {
        assert_eq!(request.failure, None);
        assert_eq!(request.output_tokens, Some(1));
    }
    std::fs::write(file.path(), "nothing").unwrap();
    let error = llmprof_load::client::drive_load(&asked, |_, _| true).unwrap_err();
    assert!(error.contains("cannot read certificates"), "{error}");
}

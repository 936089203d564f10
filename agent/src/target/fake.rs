//! Receivers on loopback for tests: they answer as told, wrongly if told so, and note what they got.

use std::collections::VecDeque;
use std::io::{Error, Result};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::http::{HttpClient, HttpSettings, Proxy};
use super::resolver::Resolver;
use super::secret::SecretUrl;
use super::tls::ClientCertificate;

/// A client without a proxy, that waits half a second.
pub(crate) fn http_client() -> HttpClient {
    let timeout = Duration::from_millis(500);
    let settings = HttpSettings { proxy: Proxy::None, timeout, ..HttpSettings::default() };
    HttpClient::new(&settings, &Resolver::default()).unwrap()
}

/// How a receiver treats one request.
#[derive(Debug, Clone)]
pub(crate) enum Behaviour {
    /// Answers. Status 0 is an answer that is no HTTP.
    Reply { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// Reads the request and says nothing.
    Silent,
    /// Breaks the connection off with a reset.
    Reset,
    /// Closes the connection.
    Close,
    /// Status 200 and half of the body that it promised.
    HalfReply(&'static str),
    /// Status 200 and a body without end.
    Endless,
}

impl Behaviour {
    pub(crate) fn reply(status: u16, body: &str) -> Behaviour {
        Behaviour::Reply { status, headers: Vec::new(), body: body.to_owned() }
    }

    pub(crate) fn with_header(self, name: &'static str, value: &str) -> Behaviour {
        match self {
            Behaviour::Reply { status, mut headers, body } => {
                headers.push((name, value.to_owned()));
                Behaviour::Reply { status, headers, body }
            }
            other => other,
        }
    }
}

/// A request that a receiver got.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query, or for a proxy the whole address.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A receiver over HTTP.
pub(crate) struct FakeHttp {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    tls: Option<TestCertificate>,
}

impl FakeHttp {
    /// Treats the first request as the first behaviour says, and so on; the last one is repeated.
    pub(crate) async fn start(behaviours: Vec<Behaviour>) -> FakeHttp {
        FakeHttp::start_with(behaviours, None).await
    }

    /// The same over TLS, with a certificate for `name` from a private CA.
    pub(crate) async fn start_tls(name: &str, behaviours: Vec<Behaviour>) -> FakeHttp {
        FakeHttp::start_with(behaviours, Some(TestCertificate::new(name))).await
    }

    /// The same, for clients that show a certificate of that CA only.
    pub(crate) async fn start_mutual_tls(name: &str, behaviours: Vec<Behaviour>) -> FakeHttp {
        let certificate = TestCertificate::new(name).asking_for_clients();
        FakeHttp::start_with(behaviours, Some(certificate)).await
    }

    async fn start_with(behaviours: Vec<Behaviour>, tls: Option<TestCertificate>) -> FakeHttp {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (seen, acceptor) = (Arc::clone(&requests), tls.as_ref().map(TestCertificate::acceptor));
        let mut behaviours = VecDeque::from(behaviours);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A handshake that fails is no request, so its behaviour stays for the next one.
                let before = seen.lock().len();
                let behaviour = behaviours.front().cloned().unwrap();
                let served = match &acceptor {
                    None if matches!(behaviour, Behaviour::Reset) => reset(stream, &seen).await,
                    None => serve(stream, behaviour, &seen).await,
                    Some(acceptor) => match acceptor.accept(stream).await {
                        Ok(stream) => serve(stream, behaviour, &seen).await,
                        Err(error) => Err(error),
                    },
                };
                // The client has gone, as some tests want it to.
                drop(served);
                if seen.lock().len() > before && behaviours.len() > 1 {
                    behaviours.pop_front();
                }
            }
        });
        FakeHttp { address, requests, tls }
    }

    pub(crate) fn url(&self, path: &str) -> SecretUrl {
        let base = match &self.tls {
            Some(_) => format!("https://localhost:{}", self.address.port()),
            None => format!("http://{}", self.address),
        };
        SecretUrl::parse(&format!("{base}{path}")).unwrap()
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.tls.as_ref().unwrap().ca_file()
    }

    pub(crate) fn client_certificate(&self) -> ClientCertificate {
        self.tls.as_ref().unwrap().client_certificate()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().clone()
    }
}

async fn reset(mut stream: TcpStream, seen: &Mutex<Vec<Request>>) -> Result<()> {
    let request = read_request(&mut stream).await?;
    seen.lock().push(request);
    stream.set_zero_linger()
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    behaviour: Behaviour,
    seen: &Mutex<Vec<Request>>,
) -> Result<()> {
    let request = read_request(&mut stream).await?;
    seen.lock().push(request);
    match behaviour {
        Behaviour::Reply { status: 0, body, .. } => stream.write_all(body.as_bytes()).await?,
        Behaviour::Reply { status, headers, body } => {
            let mut reply = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                reply.push_str(&format!("{name}: {value}\r\n"));
            }
            stream.write_all(format!("{reply}\r\n{body}").as_bytes()).await?;
        }
        Behaviour::Silent => tokio::time::sleep(Duration::from_secs(3600)).await,
        Behaviour::Reset | Behaviour::Close => {}
        Behaviour::HalfReply(body) => {
            let promised = body.len() * 2;
            stream.write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {promised}\r\n\r\n{body}").as_bytes()).await?;
        }
        Behaviour::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            loop {
                stream.write_all(&[b'x'; 4096]).await?;
            }
        }
    }
    stream.shutdown().await
}

pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Result<Request> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await? {
            0 => return Err(Error::other("no request")),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap().split(' ');
    let (method, target) = (first.next().unwrap().to_owned(), first.next().unwrap().to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = bytes[head_end..].to_vec();
    let have = body.len();
    body.resize(length, 0);
    stream.read_exact(&mut body[have..]).await?;
    Ok(Request { method, target, headers, body })
}

/// A certificate from a CA of its own.
pub(crate) struct TestCertificate {
    folder: tempfile::TempDir,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    asks_for_clients: bool,
}

impl TestCertificate {
    pub(crate) fn new(name: &str) -> TestCertificate {
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_certificate = ca.self_signed(&ca_key).unwrap();
        let issuer = rcgen::Issuer::new(ca, ca_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), ca_certificate.pem()).unwrap();
        let client_key = rcgen::KeyPair::generate().unwrap();
        let client = rcgen::CertificateParams::new(vec!["agent".to_owned()]).unwrap();
        let client = client.signed_by(&client_key, &issuer).unwrap();
        std::fs::write(folder.path().join("client.pem"), client.pem()).unwrap();
        std::fs::write(folder.path().join("client.key"), client_key.serialize_pem()).unwrap();
        TestCertificate {
            folder,
            chain: vec![own.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            asks_for_clients: false,
        }
    }

    /// The same that takes only who has a certificate of the same CA.
    pub(crate) fn asking_for_clients(self) -> TestCertificate {
        TestCertificate { asks_for_clients: true, ..self }
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub(crate) fn client_certificate(&self) -> ClientCertificate {
        let file = |name| self.folder.path().join(name);
        ClientCertificate { certificate_file: file("client.pem"), key_file: file("client.key") }
    }

    fn client_verifier(&self) -> Arc<dyn ClientCertVerifier> {
        if !self.asks_for_clients {
            return WebPkiClientVerifier::no_client_auth();
        }
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.ca_file()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap()
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(self.client_verifier())
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

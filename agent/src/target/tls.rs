//! TLS for HTTP and SMTP: rustls with ring, the system's roots or, where it has none, the bundled ones of Mozilla.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use lettre::transport::smtp::client::{Certificate, CertificateStore, Identity, TlsParameters, TlsParametersBuilder};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// What a user may set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// PEM file of certificates to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// What to show to a receiver that wants to know who we are.
    pub client_certificate: Option<ClientCertificate>,
    /// The name in the receiver's certificate, where it is another than the one that is connected to. HTTP only: for SMTP
    /// it is said with the server.
    pub server_name: Option<String>,
}

/// A certificate of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// PEM file of the certificate and those between it and the root.
    pub certificate_file: PathBuf,
    /// PEM file of its private key.
    pub key_file: PathBuf,
}

/// A setting that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTls {
    /// The file at fault, if it is one.
    pub file: Option<PathBuf>,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for BadTls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(out, "{}: {}; a PEM file is needed", file.display(), self.reason),
            None => out.write_str(&self.reason),
        }
    }
}

impl std::error::Error for BadTls {}

impl BadTls {
    fn of(file: &Path, reason: impl fmt::Display) -> BadTls {
        BadTls { file: Some(file.to_owned()), reason: reason.to_string() }
    }

    fn other(reason: impl fmt::Display) -> BadTls {
        BadTls { file: None, reason: reason.to_string() }
    }
}

/// TLS for HTTP.
pub fn client_config(settings: &TlsSettings) -> Result<ClientConfig, BadTls> {
    // Shared by all targets that trust no more than usual: a store takes some 100 KB.
    let mut roots = Arc::clone(usual_roots());
    if let Some(file) = &settings.ca_file {
        let roots = Arc::make_mut(&mut roots);
        for certificate in read_certificates(file)? {
            roots.add(certificate).map_err(|error| BadTls::of(file, error))?;
        }
    }
    // The provider is named, so that none has to be installed for the whole process, which is the JVM's.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(BadTls::other)?;
    let builder = match &settings.server_name {
        None => builder.with_root_certificates(roots),
        Some(name) => {
            let usual = WebPkiServerVerifier::builder_with_provider(roots, provider).build().map_err(BadTls::other)?;
            let no_name = |_| {
                BadTls::other(format_args!(
                    "`server_name`: `{name}` is no host name; give the name in the receiver's certificate"
                ))
            };
            let name = ServerName::try_from(name.clone()).map_err(no_name)?;
            // As strict as the usual one, which it asks.
            builder.dangerous().with_custom_certificate_verifier(Arc::new(ByName { name, usual }))
        }
    };
    let Some(own) = &settings.client_certificate else { return Ok(builder.with_no_client_auth()) };
    let certificates = read_certificates(&own.certificate_file)?;
    let key = PrivateKeyDer::from_pem_file(&own.key_file).map_err(|error| BadTls::of(&own.key_file, error))?;
    builder.with_client_auth_cert(certificates, key).map_err(|error| BadTls::of(&own.certificate_file, error))
}

/// Checks a certificate for another name than the one that was connected to.
#[derive(Debug)]
struct ByName {
    name: ServerName<'static>,
    usual: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for ByName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _connected_to: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.usual.verify_server_cert(end_entity, intermediates, &self.name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// TLS for SMTP to a server that goes by the name of `host`.
pub fn smtp_parameters(settings: &TlsSettings, host: &str) -> Result<TlsParameters, BadTls> {
    let system = system_certificates();
    let store = if system.is_empty() { CertificateStore::WebpkiRoots } else { CertificateStore::None };
    let own = settings.ca_file.as_deref().map(read_certificates).transpose()?.unwrap_or_default();
    let mut builder = TlsParametersBuilder::new(host.to_owned()).certificate_store(store);
    for certificate in system.into_iter().chain(own) {
        builder = builder.add_root_certificate(Certificate::from_der(certificate.to_vec()).map_err(BadTls::other)?);
    }
    if let Some(own) = &settings.client_certificate {
        let certificates = read_certificates(&own.certificate_file)?;
        let certificate = certificates.first().ok_or_else(|| BadTls::of(&own.certificate_file, "no certificate"))?;
        let key = std::fs::read(&own.key_file).map_err(|error| BadTls::of(&own.key_file, error))?;
        // With rustls, lettre 0.11 takes the bytes for one DER certificate, whatever the name says; there is no place for more.
        let identity = Identity::from_pem(certificate, &key).map_err(|error| BadTls::of(&own.key_file, error))?;
        builder = builder.identify_with(identity);
    }
    builder.build().map_err(BadTls::other)
}

/// The system's roots, else the bundled ones; read once.
fn usual_roots() -> &'static Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(system_certificates());
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        Arc::new(roots)
    })
}

/// The system's roots that rustls can read. Systems hold some that it cannot; those are no reason to fail.
fn system_certificates() -> Vec<CertificateDer<'static>> {
    let mut certificates = rustls_native_certs::load_native_certs().certs;
    certificates.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
    certificates
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, BadTls> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(BadTls::of(file, "holds no certificate")),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(BadTls::of(file, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_always_work() {
        assert!(client_config(&TlsSettings::default()).is_ok());
        assert!(smtp_parameters(&TlsSettings::default(), "host").is_ok());
        assert!(!usual_roots().is_empty());
    }

    #[test]
    fn a_bad_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, "no certificate").unwrap();
        let settings = TlsSettings { ca_file: Some(file.clone()), ..TlsSettings::default() };
        let error = client_config(&settings).unwrap_err();
        assert_eq!(error.file.as_ref(), Some(&file));
        assert!(error.to_string().ends_with("holds no certificate; a PEM file is needed"), "{error}");
        assert!(smtp_parameters(&settings, "host").is_err());
        let missing = TlsSettings { ca_file: Some("/missing.pem".into()), ..TlsSettings::default() };
        assert!(client_config(&missing).is_err());
    }
}

//! Certificates of a test's own: an authority, the server's, and a client's.

use std::io;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Certificates and keys, as PEM.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority's certificate, which clients trust.
    pub authority: String,
    /// The client's certificate.
    pub client: String,
    /// The client's key.
    pub client_key: String,
    server: String,
    server_key: String,
}

impl Certificates {
    /// New ones, for a server on loopback.
    pub fn generate() -> io::Result<Self> {
        generate(false).map_err(io::Error::other)
    }

    /// Like those, but the server's was good until 2020.
    pub fn expired() -> io::Result<Self> {
        generate(true).map_err(io::Error::other)
    }

    /// The server's certificate is also its own authority, as plain `openssl req -x509` makes one; the client trusts that very certificate.
    pub fn self_signed(is_expired: bool) -> io::Result<Self> {
        self_signed(is_expired).map_err(io::Error::other)
    }

    /// What the server needs. A client may show a certificate of this authority, or none.
    pub(crate) fn server_config(&self) -> io::Result<Arc<ServerConfig>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.authority)?).map_err(io::Error::other)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(io::Error::other)?;
        let key = PrivateKeyDer::from_pem_slice(self.server_key.as_bytes()).map_err(io::Error::other)?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate(&self.server)?], key)
            .map_err(io::Error::other)?;
        Ok(Arc::new(config))
    }
}

fn certificate(pem: &str) -> io::Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(io::Error::other)
}

fn generate(is_expired: bool) -> Result<Certificates, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "authority of a test");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let sign = |common_name: &str, names: &[&str]| -> Result<(String, String), rcgen::Error> {
        let mut params =
            CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, common_name);
        if is_expired {
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &authority)?.pem(), key.serialize_pem()))
    };
    let (server, server_key) = sign("kube-apiserver", &["127.0.0.1", "localhost"])?;
    let (client, client_key) = sign("system:node-proxier", &[])?;
    Ok(Certificates { authority: authority.pem(), client, client_key, server, server_key })
}

fn self_signed(is_expired: bool) -> Result<Certificates, rcgen::Error> {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    if is_expired {
        params.not_after = date_time_ymd(2020, 1, 1);
    }
    let key = KeyPair::generate()?;
    let server = params.self_signed(&key)?.pem();
    let others = generate(false)?;
    Ok(Certificates { authority: server.clone(), server, server_key: key.serialize_pem(), ..others })
}

/// A key by which a real API server signs the tokens of accounts: private and public, as PEM.
pub fn signing_key() -> io::Result<(String, String)> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

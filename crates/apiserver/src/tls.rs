//! A client for a server whose certificate is also an authority's, as plain `openssl req -x509` makes it.
//!
//! In: what kube needs to know. Out: a client that also accepts a certificate that the operator's own CA file contains, byte by byte, where
//! rustls refuses it for being an authority's (`CaUsedAsEndEntity`). Go's client, and so upstream, accepts it.
//!
//! Only a file with a certificate that names the server leads here: every other server has kube's own client. Dates, the name and the
//! handshake's signature are checked as for any certificate.

use std::sync::Arc;

use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tower::{BoxError, ServiceBuilder};

/// How rustls calls what is wrong with such a certificate. It says so in words alone.
pub(crate) const IS_AUTHORITY: &str = "CaUsedAsEndEntity";

/// The client for this server.
pub(crate) fn client(config: Config) -> Result<Client, BoxError> {
    let Some(name) = server_name(&config).filter(|_| !config.accept_invalid_certs) else {
        return Ok(Client::try_from(config)?);
    };
    let trusted = trusted(&config);
    let serving: Vec<_> = trusted.iter().filter(|one| names(one, &name)).cloned().collect();
    if serving.is_empty() || config.proxy_url.is_some() {
        return Ok(Client::try_from(config)?);
    }
    let mut tls = config.rustls_client_config()?;
    let verifier = AlsoTrusted::new(trusted, serving)?;
    tls.dangerous().set_certificate_verifier(Arc::new(verifier));
    Ok(client_with(tls, name, config)?)
}

/// As kube makes one, without its timeouts: we have our own.
fn client_with(tls: ClientConfig, name: ServerName<'static>, config: Config) -> kube::Result<Client> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name))
        .enable_http1()
        .wrap_connector(tcp);
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

/// The name that the server's certificate must have; `None` where there is no TLS.
fn server_name(config: &Config) -> Option<ServerName<'static>> {
    let host = config.cluster_url.host().filter(|_| config.cluster_url.scheme_str() == Some("https"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(config.tls_server_name.clone().unwrap_or_else(|| host.to_owned())).ok()
}

/// The certificates of the operator's CA file.
fn trusted(config: &Config) -> Vec<CertificateDer<'static>> {
    let of_file = config.root_cert_file.as_ref().and_then(|file| std::fs::read(file).ok());
    match of_file {
        Some(pem) => CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect(),
        None => config.root_cert.iter().flatten().map(|der| CertificateDer::from(der.clone())).collect(),
    }
}

fn names(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    ParsedCertificate::try_from(certificate).is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok())
}

/// The usual verifier, and what it refuses without need.
#[derive(Debug)]
struct AlsoTrusted {
    usual: Arc<WebPkiServerVerifier>,
    /// Certificates of the CA file that name the server.
    serving: Vec<CertificateDer<'static>>,
}

impl AlsoTrusted {
    fn new(
        trusted: Vec<CertificateDer<'static>>,
        serving: Vec<CertificateDer<'static>>,
    ) -> Result<Self, BoxError> {
        let mut roots = RootCertStore::empty();
        for certificate in trusted {
            roots.add(certificate)?;
        }
        Ok(Self { usual: WebPkiServerVerifier::builder(Arc::new(roots)).build()?, serving })
    }
}

impl ServerCertVerifier for AlsoTrusted {
    /// The usual verifier looks at the dates before it finds that the certificate is an authority's.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let error =
            match self.usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                Err(error) if error.to_string().contains(IS_AUTHORITY) => error,
                other => return other,
            };
        if !self.serving.iter().any(|ours| ours.as_ref() == end_entity.as_ref()) {
            return Err(error);
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

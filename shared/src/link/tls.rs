//! The one file that knows TLS: raw ed25519 public keys, pinned both ways.
//!
//! TLS 1.3 only, ed25519 only, no tickets, no early data: a replayed order to measure is worth more
//! care than one saved round trip.

use std::fmt;
use std::sync::Arc;

use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as provider};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    PeerMisbehaved, ServerConfig, SignatureScheme,
};

use super::key::{Fingerprint, Identity, NotKey, PublicKey};

/// What a connection is for. The number is the protocol's major version: another one fails in TLS, before
/// a byte of ours is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Frames, from a host that the agent knows.
    Session,
    /// Only a pairing, from a host that holds a ticket.
    Pair,
}

impl Purpose {
    const ALL: [Self; 2] = [Self::Session, Self::Pair];

    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Session => b"edgedyno/1",
            Self::Pair => b"edgedyno-pair/1",
        }
    }
}

/// The alert of a side that does not accept the other's key (RFC 8446, section 6.2).
pub const ACCESS_DENIED: u8 = 49;

/// The alert of an agent that speaks none of the protocols offered.
pub const NO_PROTOCOL: u8 = 120;

/// Which key the other side must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    Key(PublicKey),
    /// All that a ticket has room for.
    Fingerprint(Fingerprint),
}

impl Pin {
    fn accepts(self, key: PublicKey) -> bool {
        match self {
            Self::Key(pinned) => pinned == key,
            Self::Fingerprint(pinned) => pinned == key.fingerprint(),
        }
    }
}

/// Which hosts an agent lets in; asked in every handshake.
pub trait Admission: fmt::Debug + Send + Sync {
    fn admits(&self, host: PublicKey) -> bool;
}

/// TLS settings of a host that expects that agent.
pub fn client(
    own: &Identity,
    agent: Pin,
    purpose: Purpose,
) -> Result<Arc<QuicClientConfig>, Error> {
    let verifier = Arc::new(Verifier {
        agent,
        algorithms: algorithms(),
    });
    let mut config = ClientConfig::builder_with_provider(own_provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified(
            own,
        )?)));
    config.alpn_protocols = vec![purpose.alpn().to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    let config = QuicClientConfig::try_from(config);
    Ok(Arc::new(
        config.map_err(|why| Error::General(why.to_string()))?,
    ))
}

/// TLS settings of an agent.
pub fn server(
    own: &Identity,
    admission: Arc<dyn Admission>,
) -> Result<Arc<QuicServerConfig>, Error> {
    let verifier = Arc::new(Doorkeeper {
        admission,
        algorithms: algorithms(),
    });
    let mut config = ServerConfig::builder_with_provider(own_provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified(
            own,
        )?)));
    config.alpn_protocols = Purpose::ALL.map(|purpose| purpose.alpn().to_vec()).into();
    config.max_early_data_size = 0;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    let config = QuicServerConfig::try_from(config);
    Ok(Arc::new(
        config.map_err(|why| Error::General(why.to_string()))?,
    ))
}

/// Key of the other side of an established connection.
pub fn peer_key(connection: &quinn::Connection) -> Result<PublicKey, NotKey> {
    let identity = connection.peer_identity().ok_or(NotKey)?;
    let chain = identity
        .downcast::<Vec<CertificateDer<'static>>>()
        .map_err(|_| NotKey)?;
    match chain.as_slice() {
        [key] => PublicKey::from_spki(key),
        _ => Err(NotKey),
    }
}

/// What an established connection was opened for.
pub fn purpose(connection: &quinn::Connection) -> Option<Purpose> {
    let data = connection
        .handshake_data()?
        .downcast::<HandshakeData>()
        .ok()?;
    let protocol = data.protocol.as_deref()?;
    Purpose::ALL
        .into_iter()
        .find(|purpose| purpose.alpn() == protocol)
}

fn own_provider() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    provider::default_provider().signature_verification_algorithms
}

fn certified(own: &Identity) -> Result<Arc<CertifiedKey>, Error> {
    let key = PrivatePkcs8KeyDer::from(own.pkcs8());
    let key = provider::sign::any_eddsa_type(&key)?;
    let spki = CertificateDer::from(own.public().to_spki());
    Ok(Arc::new(CertifiedKey::new(vec![spki], key)))
}

/// The key in the place of a certificate.
fn presented(key: &CertificateDer<'_>, rest: &[CertificateDer<'_>]) -> Result<PublicKey, Error> {
    match rest {
        [] => PublicKey::from_spki(key).map_err(|_| CertificateError::BadEncoding.into()),
        _ => Err(CertificateError::BadEncoding.into()),
    }
}

fn verify(
    message: &[u8],
    key: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let spki = SubjectPublicKeyInfoDer::from(key.as_ref());
    rustls::crypto::verify_tls13_signature_with_raw_key(message, &spki, signed, algorithms)
}

fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerMisbehaved::SelectedUnofferedCipherSuite.into())
}

/// A host's check of the agent.
#[derive(Debug)]
struct Verifier {
    agent: Pin,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.agent.accepts(presented(end_entity, intermediates)?) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify(message, key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// An agent's check of a host.
#[derive(Debug)]
struct Doorkeeper {
    admission: Arc<dyn Admission>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for Doorkeeper {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.admission.admits(presented(end_entity, intermediates)?) {
            return Ok(ClientCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify(message, key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

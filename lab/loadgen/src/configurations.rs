//! TLS configurations of connections: one for every combination that can be drawn, made before the
//! load begins.

use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, Tls12Resumption};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, NamedGroup};

use crate::client_cost::SECP521R1_REUSED;
use crate::http;
use crate::key::KeyKind;
use crate::load::LoadError;
use crate::plan::{Mix, Plan, Resume, Shown, Trust};
use crate::quic;
use crate::session::{Legacy, Speech};
use crate::sessions::Sessions;
use crate::tls::{AES128_SHA, Cipher, Group, TlsVersion};
use crate::verifier::{InVersion, Judge, Pinned};

/// All configurations of a plan.
pub struct Configurations {
    mix: Mix,
    names: Vec<ServerName<'static>>,
    /// The same names as HTTP sends them.
    hosts: Vec<String>,
    all: Vec<Configuration>,
    /// Certificates that are asked for in turn.
    turns: usize,
}

/// One combination.
pub struct Configuration {
    /// How to speak TLS.
    pub speech: Speech,
    /// How to speak QUIC, in HTTP/3.
    pub quic: Option<quinn_proto::ClientConfig>,
    /// The group of a full handshake; none for RSA key transport.
    pub group: Option<NamedGroup>,
    /// Whether tickets that arrive after the handshake are wanted.
    pub keeps_tickets: bool,
}

/// What was drawn for one connection, by index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drawn {
    index: usize,
    name: usize,
}

/// Tickets kept by all configurations of a thread together.
const TICKETS_MAX: usize = 4096;

impl Configurations {
    /// Makes all configurations that `plan` may need.
    pub fn of(plan: &Plan) -> Result<Self, LoadError> {
        let mix = plan.mix.clone();
        let name = |name: &String| {
            ServerName::try_from(name.clone()).map_err(|_| LoadError::ServerName(name.clone()))
        };
        let names = mix.names.iter().map(name).collect::<Result<_, _>>()?;
        let hosts = mix.names.iter().map(|name| http::host(name, plan.target.port())).collect();
        let is_quic = |protocol: &Option<String>| protocol.as_deref() == Some(quic::ALPN);
        let of_quic = mix.protocols.iter().filter(|protocol| is_quic(protocol)).count();
        if of_quic != 0 && of_quic != mix.protocols.iter().len() {
            return Err(LoadError::Mixed);
        }
        let trusted = Trusted::all(&plan.trust)?;
        let turns = trusted.len();
        let tickets_max = (TICKETS_MAX / (turns * mix.combinations()).max(1)).max(1);
        let mut all = Vec::new();
        for trusted in &trusted {
            for version in mix.versions.iter() {
                for cipher in mix.ciphers.iter() {
                    for group in mix.groups.iter() {
                        for protocol in mix.protocols.iter() {
                            for resume in mix.resumption.iter() {
                                for identity in mix.identities.iter() {
                                    all.push(trusted.configuration(
                                        (*version, *cipher, *group),
                                        protocol.as_deref(),
                                        (*resume, tickets_max),
                                        identity.as_ref(),
                                    )?);
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(Configurations { mix, names, hosts, all, turns })
    }

    /// Whether connections speak QUIC.
    pub fn is_quic(&self) -> bool {
        self.all.iter().any(|configuration| configuration.quic.is_some())
    }

    /// Draws the configuration of a connection, with the certificate whose turn it is. Turns count
    /// connections: slots are not used alike.
    pub fn draw(&self, turn: usize, random: &mut fastrand::Rng) -> Drawn {
        let mix = &self.mix;
        let mut combination = turn % self.turns;
        let mut digit = |count: usize, index: usize| combination = combination * count + index;
        digit(mix.versions.iter().len(), mix.versions.draw(random));
        digit(mix.ciphers.iter().len(), mix.ciphers.draw(random));
        digit(mix.groups.iter().len(), mix.groups.draw(random));
        digit(mix.protocols.iter().len(), mix.protocols.draw(random));
        digit(mix.resumption.iter().len(), mix.resumption.draw(random));
        digit(mix.identities.iter().len(), mix.identities.draw(random));
        Drawn { index: combination, name: mix.names.draw(random) }
    }

    /// The combination drawn.
    pub fn configuration(&self, drawn: Drawn) -> &Configuration {
        &self.all[drawn.index]
    }

    /// The name drawn, as TLS sends it.
    pub fn server_name(&self, drawn: Drawn) -> &ServerName<'static> {
        &self.names[drawn.name]
    }

    /// The name drawn, and the port where HTTP names it.
    pub fn host(&self, drawn: Drawn) -> &str {
        &self.hosts[drawn.name]
    }
}

/// A verifier, and the kind of key that it wants to see, if only one.
enum Trusted {
    Pinned(Arc<Pinned>),
    Judged(Arc<Judge>),
}

impl Trusted {
    fn all(trust: &Trust) -> Result<Vec<Self>, LoadError> {
        match trust {
            Trust::Pinned(certificates) if certificates.is_empty() => Err(LoadError::NoCertificate),
            Trust::Pinned(certificates) => {
                let pinned = |der: &Vec<u8>| Pinned::new(CertificateDer::from(der.clone()));
                let pinned = |der| pinned(der).map(|pinned| Trusted::Pinned(Arc::new(pinned)));
                Ok(certificates.iter().map(pinned).collect::<Result<_, _>>()?)
            }
            Trust::Authorities(roots) => {
                Ok(vec![Trusted::Judged(Arc::new(Judge::of(Arc::clone(roots))?))])
            }
            Trust::Anyone => Ok(vec![Trusted::Judged(Arc::new(Judge::of_nothing()))]),
        }
    }

    fn configuration(
        &self,
        (version, cipher, group): (TlsVersion, Cipher, Group),
        protocol: Option<&str>,
        (resume, tickets_max): (Resume, usize),
        identity: Option<&Shown>,
    ) -> Result<Configuration, LoadError> {
        if let Cipher::Aes128Sha | Cipher::Aes128ShaMacFirst = cipher {
            let encrypt_then_mac = cipher == Cipher::Aes128Sha;
            return self.legacy_configuration(
                version,
                encrypt_then_mac,
                protocol,
                resume,
                identity,
            );
        }
        let kind = match self {
            Trusted::Pinned(pinned) => Some(pinned.kind()),
            Trusted::Judged(_) => None,
        };
        if group.without_ml_kem().is_some() && version != TlsVersion::Tls13 {
            return Err(LoadError::Tls13Only(group.name()));
        }
        // The first key takes far longer than others: it is made before the load begins.
        group.group().start()?;
        let provider = CryptoProvider {
            cipher_suites: cipher.suites(version, kind),
            kx_groups: groups(version, group, kind, identity.and_then(kind_of)),
            ..aws_lc_rs::default_provider()
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version.protocol()])?
            .dangerous();
        let is_quic = protocol == Some(quic::ALPN);
        let note_signature = if is_quic { quic::note_signature } else { || () };
        let verifier = InVersion { verifier: self.verifier(), version, note_signature };
        let builder = builder.with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(Shown(certified)) => builder.with_client_cert_resolver(Arc::new(
                SingleCertAndKey::from(CertifiedKey::clone(certified)),
            )),
        };
        let (tickets_max, in_tls12) = match resume {
            Resume::Never => (0, Tls12Resumption::Disabled),
            Resume::Ticket => (tickets_max, Tls12Resumption::SessionIdOrTickets),
            Resume::SessionId => (tickets_max, Tls12Resumption::SessionIdOnly),
        };
        config.resumption =
            Resumption::store(Arc::new(Sessions::new(tickets_max))).tls12_resumption(in_tls12);
        if is_quic && version != TlsVersion::Tls13 {
            return Err(LoadError::Tls13Only("HTTP/3"));
        }
        config.alpn_protocols.extend(protocol.map(|name| name.as_bytes().to_vec()));
        let config = Arc::new(config);
        Ok(Configuration {
            quic: is_quic.then(|| quic::speech(Arc::clone(&config))).transpose()?,
            speech: Speech::Modern(config),
            group: Some(group.group().name()),
            keeps_tickets: resume != Resume::Never && version == TlsVersion::Tls13,
        })
    }

    /// For [`Cipher::Aes128Sha`] and [`Cipher::Aes128ShaMacFirst`].
    fn legacy_configuration(
        &self,
        version: TlsVersion,
        encrypt_then_mac: bool,
        protocol: Option<&str>,
        resume: Resume,
        identity: Option<&Shown>,
    ) -> Result<Configuration, LoadError> {
        for (fits, what) in [
            (version == TlsVersion::Tls12, "TLS 1.3"),
            (resume == Resume::Never, "resumption"),
            (identity.is_none(), "a certificate of the client"),
        ] {
            if !fits {
                return Err(LoadError::Legacy(what));
            }
        }
        let legacy = Legacy::new(AES128_SHA, encrypt_then_mac, protocol, self.verifier())?;
        let speech = Speech::Legacy(Arc::new(legacy));
        Ok(Configuration { speech, quic: None, group: None, keeps_tickets: false })
    }

    fn verifier(&self) -> Arc<dyn ServerCertVerifier> {
        match self {
            Trusted::Pinned(pinned) => pinned.clone(),
            Trusted::Judged(judge) => judge.clone(),
        }
    }
}

/// The kind of a client's key.
fn kind_of(Shown(certified): &Shown) -> Option<KeyKind> {
    KeyKind::of(certified.cert.first()?)
}

/// The groups to offer, the one to be used first. In TLS 1.2 a server may show an ECDSA certificate
/// only to a client that offers its curve (RFC 8422, 5.1.1), and OpenSSL takes one only from such a
/// client; a server that heeds the client's order does not use it for the key exchange. Beside a
/// group with ML-KEM its curve is offered, without a share: a server that lacks the group takes the
/// curve, which says more than its alert would.
fn groups(
    version: TlsVersion,
    group: Group,
    kind: Option<KeyKind>,
    own: Option<KeyKind>,
) -> Vec<&'static dyn SupportedKxGroup> {
    let (p256, p384) = (Group::Secp256r1.group(), Group::Secp384r1.group());
    let p521: &'static dyn SupportedKxGroup = &SECP521R1_REUSED;
    let curve_of = |kind| match kind {
        KeyKind::EcdsaP256 => Some(p256),
        KeyKind::EcdsaP384 => Some(p384),
        KeyKind::EcdsaP521 => Some(p521),
        _ => None,
    };
    let curves = match (version, kind) {
        (TlsVersion::Tls12, None) => vec![p256, p384, p521],
        (TlsVersion::Tls12, Some(kind)) => {
            [Some(kind), own].into_iter().flatten().filter_map(curve_of).collect()
        }
        _ => group.without_ml_kem().map(Group::group).into_iter().collect(),
    };
    let mut offered = vec![group.group()];
    for curve in curves {
        if offered.iter().all(|known| known.name() != curve.name()) {
            offered.push(curve);
        }
    }
    offered
}

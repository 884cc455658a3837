//! TLS 1.2 by OpenSSL: RSA key transport and AES-CBC, which rustls leaves out.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use openssl::error::ErrorStack;
use openssl::ssl::{
    Error, ErrorCode, Ssl, SslContext, SslMethod, SslOptions, SslSessionCacheMode, SslStream,
    SslVerifyMode, SslVersion,
};
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::Outgoing;
use super::server_hello::encrypt_then_mac;
use crate::tally::Failure;

/// Everything that sessions have in common.
pub struct Legacy {
    context: SslContext,
    verifier: Arc<dyn ServerCertVerifier>,
}

/// `SSL_OP_NO_ENCRYPT_THEN_MAC`, which the `openssl` crate does not name.
const NO_ENCRYPT_THEN_MAC: SslOptions = SslOptions::from_bits_retain(1 << 19);

/// Plain text taken at once: a record of full size.
const PLAIN_BYTES: usize = 16 << 10;

/// Reason codes of OpenSSL from here on are alerts of the server.
const ALERTS: i32 = 1000;

impl Legacy {
    /// Offers `suite`, by OpenSSL's name, perhaps encrypt-then-MAC, and perhaps a protocol.
    /// Certificates are judged by `verifier`; that the server has the key follows from its
    /// Finished.
    pub fn new(
        suite: &str,
        encrypt_then_mac: bool,
        protocol: Option<&str>,
        verifier: Arc<dyn ServerCertVerifier>,
    ) -> Result<Self, ErrorStack> {
        let mut builder = SslContext::builder(SslMethod::tls_client())?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        builder.set_max_proto_version(Some(SslVersion::TLS1_2))?;
        builder.set_cipher_list(suite)?;
        builder.set_session_cache_mode(SslSessionCacheMode::OFF);
        builder.set_options(SslOptions::NO_TICKET);
        builder.set_verify(SslVerifyMode::NONE);
        if !encrypt_then_mac {
            builder.set_options(NO_ENCRYPT_THEN_MAC);
        }
        if let Some(name) = protocol {
            let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
            builder.set_alpn_protos(&[&[length], name.as_bytes()].concat())?;
        }
        Ok(Legacy { context: builder.build(), verifier })
    }
}

/// A session of OpenSSL.
pub struct LegacySession {
    stream: SslStream<Pipe>,
    name: ServerName<'static>,
    legacy: Arc<Legacy>,
    /// What the server's first flight said of it.
    encrypt_then_mac: Option<bool>,
}

impl LegacySession {
    /// See [`Session`](super::Session) for this and what follows.
    pub fn open(
        legacy: &Arc<Legacy>,
        name: &ServerName<'static>,
        outgoing: &mut Outgoing,
    ) -> Result<Self, Failure> {
        let stream = Ssl::new(&legacy.context).and_then(|mut ssl| {
            if let ServerName::DnsName(name) = name {
                ssl.set_hostname(name.as_ref())?;
            }
            SslStream::new(ssl, Pipe::default())
        });
        let stream = stream.map_err(|error| broken(&error))?;
        let (name, legacy) = (name.clone(), Arc::clone(legacy));
        let mut session = LegacySession { stream, name, legacy, encrypt_then_mac: None };
        session.receive(&mut [], outgoing, |_| Ok(()))?;
        Ok(session)
    }

    /// Takes all of `incoming`.
    pub fn receive(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Outgoing,
        mut plain: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        if self.encrypt_then_mac.is_none() {
            self.encrypt_then_mac = encrypt_then_mac(incoming);
        }
        self.stream.get_mut().incoming.extend_from_slice(incoming);
        if self.is_handshaking() {
            match self.stream.connect() {
                Ok(()) => self.judge()?,
                Err(error) => self.check(&error)?,
            }
        }
        if !self.is_handshaking() {
            let mut room = [0; PLAIN_BYTES];
            loop {
                match self.stream.ssl_read(&mut room) {
                    Ok(count) => plain(&room[..count])?,
                    Err(error) => break self.check(&error)?,
                }
            }
        }
        self.flush(outgoing);
        Ok(incoming.len())
    }

    pub fn send(&mut self, plain: &[u8], outgoing: &mut Outgoing) -> Result<(), Failure> {
        self.stream.write_all(plain).map_err(|error| broken(&error))?;
        self.flush(outgoing);
        Ok(())
    }

    pub fn close(&mut self, outgoing: &mut Outgoing) -> Result<(), Failure> {
        self.stream.shutdown().map_err(|error| broken(&error))?;
        self.flush(outgoing);
        Ok(())
    }

    pub fn is_handshaking(&self) -> bool {
        !self.stream.ssl().is_init_finished()
    }

    pub fn is_resumed(&self) -> bool {
        self.stream.ssl().session_reused()
    }

    pub fn encrypts_then_macs(&self) -> bool {
        self.encrypt_then_mac == Some(true)
    }

    /// Judges the certificate that the server has shown.
    fn judge(&self) -> Result<(), Failure> {
        let ssl = self.stream.ssl();
        let shown = ssl.peer_cert_chain().into_iter().flatten();
        let chain: Result<Vec<_>, _> =
            shown.map(|shown| shown.to_der().map(CertificateDer::from)).collect();
        let chain = chain.map_err(|error| broken(&error))?;
        let (own, others) = chain.split_first().ok_or(Failure::Closed)?;
        let now = UnixTime::now();
        self.legacy.verifier.verify_server_cert(own, others, &self.name, &[], now)?;
        Ok(())
    }

    /// An error, unless OpenSSL only waits for more, or the server has said goodbye.
    fn check(&self, error: &Error) -> Result<(), Failure> {
        match error.code() {
            ErrorCode::WANT_READ | ErrorCode::ZERO_RETURN => Ok(()),
            _ => {
                let reasons = error.ssl_error().into_iter().flat_map(ErrorStack::errors);
                let alert = reasons
                    .filter_map(|reason| u8::try_from(reason.reason_code() - ALERTS).ok())
                    .next();
                Err(match alert {
                    Some(alert) => rustls::Error::AlertReceived(alert.into()).into(),
                    None => broken(error),
                })
            }
        }
    }

    fn flush(&mut self, outgoing: &mut Outgoing) {
        let pipe = self.stream.get_mut();
        outgoing.extend(&pipe.outgoing);
        pipe.outgoing.clear();
    }
}

/// What OpenSSL takes for a socket.
#[derive(Default)]
struct Pipe {
    incoming: Vec<u8>,
    /// How much of it has been read.
    read: usize,
    outgoing: Vec<u8>,
}

impl Read for Pipe {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut rest = &self.incoming[self.read..];
        if rest.is_empty() {
            self.incoming.clear();
            self.read = 0;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = rest.read(room)?;
        self.read += count;
        Ok(count)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn broken(error: &impl fmt::Display) -> Failure {
    Failure::Tls(rustls::Error::General(error.to_string()))
}

//! Authenticated ciphers: rustls with aws-lc-rs, which decrypts at little cost.

use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::{Downloads, READ_BYTES, Socket};
use crate::{Cipher, Pinned, TlsVersion};

/// A client that is set up.
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Client {
    /// Offers `cipher` in `version` and nothing else.
    pub fn new(
        downloads: &Downloads<'_>,
        version: TlsVersion,
        cipher: Cipher,
    ) -> Result<Self, rustls::Error> {
        let certificate = CertificateDer::from(downloads.certificate.to_vec());
        let verifier = Pinned::new(certificate)?;
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites = cipher.suites(version, None);
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version.protocol()])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from(downloads.server_name.to_owned())
            .map_err(|_| rustls::Error::General("the server's name is no name".to_owned()))?;
        Ok(Client { config: Arc::new(config), name })
    }

    /// Does the handshake on `socket`.
    pub fn connect<'a>(&self, socket: Socket<'a>) -> io::Result<impl Read + Write + 'a> {
        let connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let socket = Buffered(BufReader::with_capacity(READ_BYTES, socket));
        let mut stream = StreamOwned::new(connection.map_err(io::Error::other)?, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }
}

/// A socket that is read in large pieces; rustls itself asks for little at a time.
struct Buffered<'a>(BufReader<Socket<'a>>);

impl Read for Buffered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Buffered<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}

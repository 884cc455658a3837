//! AES128-SHA: OpenSSL, which still has it, and what the server made of encrypt-then-MAC.

use std::io::{self, Read, Write};

use openssl::error::ErrorStack;
use openssl::ssl::{
    Ssl, SslContext, SslMethod, SslOptions, SslSessionCacheMode, SslStream, SslVerifyMode,
    SslVersion,
};

use super::{Downloads, Socket};
use crate::tls::AES128_SHA;

/// `SSL_OP_NO_ENCRYPT_THEN_MAC`, which the `openssl` crate does not name.
const NO_ENCRYPT_THEN_MAC: SslOptions = SslOptions::from_bits_retain(1 << 19);

/// Extension type of encrypt-then-MAC (RFC 7366).
const ENCRYPT_THEN_MAC: u16 = 22;

/// As much of the server's first flight as holds its ServerHello.
const HEARD_BYTES_MAX: usize = 512;

/// A client that is set up.
pub struct Client {
    context: SslContext,
}

impl Client {
    /// Offers AES128-SHA and nothing else.
    pub fn new(encrypt_then_mac: bool) -> Result<Self, ErrorStack> {
        let mut builder = SslContext::builder(SslMethod::tls_client())?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        builder.set_max_proto_version(Some(SslVersion::TLS1_2))?;
        builder.set_cipher_list(AES128_SHA)?;
        builder.set_session_cache_mode(SslSessionCacheMode::OFF);
        builder.set_options(SslOptions::NO_TICKET);
        // The certificate is compared with the pinned one instead.
        builder.set_verify(SslVerifyMode::NONE);
        builder.set_read_ahead(true);
        if !encrypt_then_mac {
            builder.set_options(NO_ENCRYPT_THEN_MAC);
        }
        Ok(Client { context: builder.build() })
    }

    /// Does the handshake on `socket`; says whether encrypt-then-MAC was negotiated, if the
    /// server's answer could be read.
    pub fn connect<'a>(
        &self,
        socket: Socket<'a>,
        downloads: &Downloads<'_>,
    ) -> io::Result<(impl Read + Write + 'a, Option<bool>)> {
        let mut ssl = Ssl::new(&self.context)?;
        ssl.set_hostname(downloads.server_name)?;
        let mut stream = SslStream::new(ssl, Overheard { socket, heard: Vec::new() })?;
        stream.connect().map_err(io::Error::other)?;
        let shown = stream.ssl().peer_certificate().map(|shown| shown.to_der()).transpose()?;
        if shown.as_deref() != Some(downloads.certificate) {
            return Err(io::Error::other("the server shows another certificate"));
        }
        let encrypt_then_mac = encrypt_then_mac(&stream.get_ref().heard);
        Ok((stream, encrypt_then_mac))
    }
}

/// A socket that remembers the first that it was told.
struct Overheard<'a> {
    socket: Socket<'a>,
    heard: Vec<u8>,
}

impl Read for Overheard<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.socket.read(buffer)?;
        let room = HEARD_BYTES_MAX - self.heard.len();
        self.heard.extend_from_slice(&buffer[..length.min(room)]);
        Ok(length)
    }
}

impl Write for Overheard<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Whether a ServerHello of TLS 1.2 at the beginning of `flight` accepts encrypt-then-MAC; `None`
/// if there is none.
fn encrypt_then_mac(flight: &[u8]) -> Option<bool> {
    const RECORD_AND_MESSAGE_HEADS: usize = 5 + 4;
    const VERSION_AND_RANDOM: usize = 2 + 32;
    const SUITE_AND_COMPRESSION: usize = 2 + 1;
    let is_server_hello = flight.first() == Some(&22) && flight.get(5) == Some(&2);
    let mut rest = flight.get(RECORD_AND_MESSAGE_HEADS + VERSION_AND_RANDOM..)?;
    let (session, after) = rest.split_first()?;
    rest = after.get(usize::from(*session) + SUITE_AND_COMPRESSION..)?;
    let length = rest.first_chunk().map_or(0, |length| u16::from_be_bytes(*length));
    let mut extensions = rest.get(2..2 + usize::from(length)).unwrap_or_default();
    let mut accepted = false;
    while let Some(([kind, length], after)) = head(extensions) {
        accepted |= kind == ENCRYPT_THEN_MAC;
        extensions = after.get(usize::from(length)..)?;
    }
    is_server_hello.then_some(accepted)
}

/// Type and length of an extension, and what follows them.
fn head(extensions: &[u8]) -> Option<([u16; 2], &[u8])> {
    let (kind, rest) = extensions.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    Some(([u16::from_be_bytes(*kind), u16::from_be_bytes(*length)], rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_hello(extensions: &[u8]) -> Vec<u8> {
        let mut hello = vec![22, 3, 3, 0, 0, 2, 0, 0, 0, 3, 3];
        hello.extend([7; 32]);
        hello.extend([2, 9, 9, 0, 0x2f, 0]);
        if !extensions.is_empty() {
            hello.extend([0, extensions.len() as u8]);
            hello.extend(extensions);
        }
        hello
    }

    #[test]
    fn a_server_hello_tells_whether_encrypt_then_mac_was_accepted() {
        let other = [0xff, 1, 0, 1, 0];
        let both = [0xff, 1, 0, 1, 0, 0, 22, 0, 0];
        assert_eq!(encrypt_then_mac(&server_hello(&both)), Some(true));
        assert_eq!(encrypt_then_mac(&server_hello(&other)), Some(false));
        assert_eq!(encrypt_then_mac(&server_hello(&[])), Some(false));
    }

    #[test]
    fn what_is_no_server_hello_tells_nothing() {
        let mut alert = server_hello(&[]);
        alert[0] = 21;
        assert_eq!(encrypt_then_mac(&alert), None);
        let hello = server_hello(&[0, 22, 0, 0]);
        for length in 0..hello.len() - 6 {
            assert_eq!(encrypt_then_mac(&hello[..length]), None, "{length}");
        }
    }
}

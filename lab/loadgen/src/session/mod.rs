//! A TLS session between two buffers; sockets are none of its business.

mod legacy;
mod modern;
mod server_hello;

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, NamedGroup};

pub use self::legacy::Legacy;
use self::legacy::LegacySession;
use self::modern::ModernSession;
use crate::tally::Failure;

/// How to speak TLS.
pub enum Speech {
    /// By rustls.
    Modern(Arc<ClientConfig>),
    /// By OpenSSL, for ciphers that rustls leaves out.
    Legacy(Arc<Legacy>),
}

/// Bytes to be sent; one buffer serves all sessions in turn.
pub struct Outgoing {
    bytes: Vec<u8>,
    used: usize,
}

impl Outgoing {
    /// An empty buffer.
    pub fn new() -> Self {
        Outgoing { bytes: vec![0; 4096], used: 0 }
    }

    /// What is to be sent.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// Appends bytes.
    fn extend(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[self.used..end].copy_from_slice(bytes);
        self.used = end;
    }

    /// Appends what `write` writes; it is called again with more room if it asks for that.
    fn append<E: TooSmall>(
        &mut self,
        mut write: impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), Failure> {
        loop {
            match write(&mut self.bytes[self.used..]) {
                Ok(count) => {
                    self.used += count;
                    return Ok(());
                }
                Err(error) => match error.required_size() {
                    Some(size) => self.bytes.resize(self.used + size, 0),
                    None => return Err(Failure::Exhausted),
                },
            }
        }
    }
}

/// An error that may mean that the buffer was too small.
trait TooSmall {
    fn required_size(&self) -> Option<usize>;
}

/// One TLS session of a client.
#[allow(clippy::large_enum_variant, reason = "nearly all sessions are of the larger kind")]
pub enum Session {
    /// By rustls.
    Modern(ModernSession),
    /// By OpenSSL.
    Legacy(LegacySession),
}

impl Session {
    /// Begins a session; its ClientHello goes to `outgoing`.
    pub fn open(
        speech: &Speech,
        name: &ServerName<'static>,
        outgoing: &mut Outgoing,
    ) -> Result<Self, Failure> {
        Ok(match speech {
            Speech::Modern(config) => Session::Modern(ModernSession::open(config, name, outgoing)?),
            Speech::Legacy(legacy) => Session::Legacy(LegacySession::open(legacy, name, outgoing)?),
        })
    }

    /// Takes whole records from the front of `incoming`, returns their length, and hands what they
    /// say to `plain`. What is to be answered goes to `outgoing`.
    pub fn receive(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Outgoing,
        plain: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        match self {
            Session::Modern(session) => session.receive(incoming, outgoing, plain),
            Session::Legacy(session) => session.receive(incoming, outgoing, plain),
        }
    }

    /// Puts `plain` into `outgoing`, encrypted.
    pub fn send(&mut self, plain: &[u8], outgoing: &mut Outgoing) -> Result<(), Failure> {
        match self {
            Session::Modern(session) => session.send(plain, outgoing),
            Session::Legacy(session) => session.send(plain, outgoing),
        }
    }

    /// Puts `close_notify` into `outgoing`.
    pub fn close(&mut self, outgoing: &mut Outgoing) -> Result<(), Failure> {
        match self {
            Session::Modern(session) => session.close(outgoing),
            Session::Legacy(session) => session.close(outgoing),
        }
    }

    /// Whether the handshake is still under way.
    pub fn is_handshaking(&self) -> bool {
        match self {
            Session::Modern(session) => session.is_handshaking(),
            Session::Legacy(session) => session.is_handshaking(),
        }
    }

    /// Whether a finished handshake resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        match self {
            Session::Modern(session) => session.is_resumed(),
            Session::Legacy(session) => session.is_resumed(),
        }
    }

    /// Whether encrypt-then-MAC was negotiated.
    pub fn encrypts_then_macs(&self) -> bool {
        match self {
            Session::Modern(_) => false,
            Session::Legacy(session) => session.encrypts_then_macs(),
        }
    }

    /// The group of the key exchange, if there was one.
    pub fn group(&self) -> Option<NamedGroup> {
        match self {
            Session::Modern(session) => session.group(),
            Session::Legacy(_) => None,
        }
    }
}

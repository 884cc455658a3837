//! TLS by rustls, without its own buffers.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use rustls::{ClientConfig, HandshakeKind, NamedGroup};

use super::{Outgoing, TooSmall};
use crate::tally::Failure;

impl TooSmall for EncodeError {
    fn required_size(&self) -> Option<usize> {
        match self {
            EncodeError::InsufficientSize(InsufficientSizeError { required_size }) => {
                Some(*required_size)
            }
            EncodeError::AlreadyEncoded => None,
        }
    }
}

impl TooSmall for EncryptError {
    fn required_size(&self) -> Option<usize> {
        match self {
            EncryptError::InsufficientSize(InsufficientSizeError { required_size }) => {
                Some(*required_size)
            }
            EncryptError::EncryptExhausted => None,
        }
    }
}

/// A session of rustls.
pub struct ModernSession(UnbufferedClientConnection);

impl ModernSession {
    /// See [`Session`](super::Session) for this and what follows.
    pub fn open(
        config: &Arc<ClientConfig>,
        name: &ServerName<'static>,
        outgoing: &mut Outgoing,
    ) -> Result<Self, Failure> {
        let connection = UnbufferedClientConnection::new(Arc::clone(config), name.clone())?;
        let mut session = ModernSession(connection);
        session.receive(&mut [], outgoing, |_| Ok(()))?;
        Ok(session)
    }

    /// Takes whole records from the front of `incoming`, returns their length, and hands what they
    /// say to `plain`. What is to be answered goes to `outgoing`.
    pub fn receive(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Outgoing,
        mut plain: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let mut taken = 0;
        loop {
            let UnbufferedStatus { discard, state } =
                self.0.process_tls_records(&mut incoming[taken..]);
            let more = match state? {
                ConnectionState::EncodeTlsData(mut data) => {
                    outgoing.append(|room| data.encode(room))?;
                    true
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    true
                }
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        plain(record?.payload)?;
                    }
                    true
                }
                ConnectionState::PeerClosed => true,
                _ => false,
            };
            taken += discard;
            if !more {
                return Ok(taken);
            }
        }
    }

    /// Puts `plain` into `outgoing`, encrypted.
    pub fn send(&mut self, plain: &[u8], outgoing: &mut Outgoing) -> Result<(), Failure> {
        match self.0.process_tls_records(&mut []).state? {
            ConnectionState::WriteTraffic(mut traffic) => {
                outgoing.append(|room| traffic.encrypt(plain, room))
            }
            _ => Err(Failure::Closed),
        }
    }

    /// Puts `close_notify` into `outgoing`.
    pub fn close(&mut self, outgoing: &mut Outgoing) -> Result<(), Failure> {
        match self.0.process_tls_records(&mut []).state? {
            ConnectionState::WriteTraffic(mut traffic) => {
                outgoing.append(|room| traffic.queue_close_notify(room))
            }
            _ => Ok(()),
        }
    }

    /// Whether the handshake is still under way.
    pub fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Whether a finished handshake resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.0.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The group of the key exchange, if there was one.
    pub fn group(&self) -> Option<NamedGroup> {
        self.0.negotiated_key_exchange_group().map(|group| group.name())
    }
}

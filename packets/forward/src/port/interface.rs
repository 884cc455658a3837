//! An interface by its name: what the kernel calls it, and sending on it.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use super::offload::Offload;
use super::ring;

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// There is none of this name.
    #[error("there is no interface {0}; `ip link` lists those there are")]
    NoSuchInterface(String),
    /// The kernel refuses a packet socket.
    #[error("cannot open a packet socket on {name}{}", advice(error))]
    Socket {
        /// The interface.
        name: String,
        /// What the kernel says.
        #[source]
        error: io::Error,
    },
    /// The kernel does not let several rings share the frames of an interface.
    #[error("cannot share the frames of {name} among queues{}", if_down(error))]
    Queues {
        /// The interface.
        name: String,
        /// What the kernel says.
        #[source]
        error: io::Error,
    },
    /// Its frames do not begin with an Ethernet header: a tunnel, for one.
    #[error("{0} has no Ethernet header, as tunnels have none; a port is an Ethernet interface")]
    NotEthernet(String),
    /// It has been removed, perhaps to be made anew.
    #[error("interface {0} has been removed")]
    Gone(String),
}

/// What helps where the kernel refuses.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; it takes root or CAP_NET_RAW",
        _ => "",
    }
}

/// What helps where an interface that is down cannot have several queues.
fn if_down(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::InvalidInput => "; set it up first, as Linux before 6.13 requires",
        _ => "",
    }
}

/// An interface that frames can be sent on.
#[derive(Debug)]
pub struct Interface {
    name: String,
    index: u32,
    socket: OwnedFd,
}

/// Frames that are handed to the kernel at a time.
const SEND_MAX: usize = 64;

impl Interface {
    /// Opens an interface of this network namespace.
    ///
    /// # Errors
    ///
    /// If there is none, no socket can be opened on it, or its frames have no Ethernet header.
    pub fn open(name: &str) -> Result<Self, PortError> {
        let refused = |error| PortError::Socket { name: name.to_owned(), error };
        let socket = ring::packet_socket().map_err(refused)?;
        let index = name_to_index(&socket, name)
            .map_err(|_| PortError::NoSuchInterface(name.to_owned()))?;
        ring::bind_to_send(&socket, index).map_err(refused)?;
        match ring::ethernet_address(&socket).map_err(refused)? {
            Some(_) => Ok(Interface { name: name.to_owned(), index, socket }),
            None => Err(PortError::NotEthernet(name.to_owned())),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the kernel calls it.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its Ethernet address, as the kernel has it now: bonds change theirs when they fail over.
    ///
    /// # Errors
    ///
    /// If the interface has been removed.
    pub fn address(&self) -> Result<[u8; 6], PortError> {
        let address = ring::ethernet_address(&self.socket).ok().flatten();
        address.ok_or_else(|| PortError::Gone(self.name.clone()))
    }

    /// Sends frames, each with what is left to the network card, and returns the places of those
    /// that the kernel did not take. Does not wait: a frame that the kernel refuses is skipped, and
    /// when the socket's send buffer is full, so is the rest of that group of `SEND_MAX`.
    ///
    /// # Errors
    ///
    /// If the interface has been removed.
    pub fn send(&self, frames: &[(&[u8], Offload)]) -> Result<Vec<usize>, PortError> {
        let mut unsent = Vec::new();
        for (frames, first) in frames.chunks(SEND_MAX).zip((0..).step_by(SEND_MAX)) {
            self.send_some(frames, |place| unsent.push(first + place))?;
        }
        Ok(unsent)
    }

    fn send_some(
        &self,
        frames: &[(&[u8], Offload)],
        mut skip: impl FnMut(usize),
    ) -> Result<(), PortError> {
        let slices: Vec<[IoSlice<'_>; 2]> = frames
            .iter()
            .map(|(frame, offload)| [IoSlice::new(offload.bytes()), IoSlice::new(frame)])
            .collect();
        let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
            frames.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let pairs = slices.iter().zip(&mut controls);
        let mut messages: Vec<MMsgHdr<'_>> =
            pairs.map(|(slices, control)| MMsgHdr::new(slices, control)).collect();
        let mut at = 0;
        while at < messages.len() {
            match sendmmsg(&self.socket, &mut messages[at..], SendFlags::DONTWAIT) {
                Ok(count) => at += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    (at..messages.len()).for_each(skip);
                    break;
                }
                Err(Errno::NXIO | Errno::NODEV) => return Err(PortError::Gone(self.name.clone())),
                Err(_) => {
                    skip(at);
                    at += 1;
                }
            }
        }
        Ok(())
    }
}

/// Reads an Ethernet address, `02:00:00:00:00:01`.
pub fn parse_address(text: &str) -> Option<[u8; 6]> {
    let mut bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
    let address = [(); 6].map(|()| bytes.next().flatten());
    let complete = bytes.next().is_none() && address.iter().all(Option::is_some);
    complete.then(|| address.map(Option::unwrap_or_default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_whole_or_not_at_all() {
        assert_eq!(parse_address("02:00:00:00:0a:ff"), Some([2, 0, 0, 0, 10, 255]));
        for wrong in ["", "02:00:00:00:0a", "02:00:00:00:0a:ff:1", "02:00:00:00:0a:100"] {
            assert_eq!(parse_address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn advice_is_given_only_where_it_helps() {
        let socket = |error| PortError::Socket { name: "eth0".to_owned(), error };
        let text = |error: Errno| socket(io::Error::from(error)).to_string();
        let plain = "cannot open a packet socket on eth0";
        assert_eq!(text(Errno::NOMEM), plain);
        for refused in [Errno::PERM, Errno::ACCESS] {
            assert_eq!(text(refused), format!("{plain}; it takes root or CAP_NET_RAW"));
        }
        let queues = |error| PortError::Queues { name: "eth0".to_owned(), error };
        let text = |error: Errno| queues(io::Error::from(error)).to_string();
        let plain = "cannot share the frames of eth0 among queues";
        assert_eq!(text(Errno::NOSPC), plain);
        let wanted = format!("{plain}; set it up first, as Linux before 6.13 requires");
        assert_eq!(text(Errno::INVAL), wanted);
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        for name in ["nowhere0", "", "a name that is far too long for an interface"] {
            match Interface::open(name).unwrap_err() {
                PortError::NoSuchInterface(found) => assert_eq!(found, name),
                PortError::Socket { error, .. } => {
                    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                }
                other => panic!("{other}"),
            }
        }
    }
}

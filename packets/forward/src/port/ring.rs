//! Frames as the kernel lays them into memory that we share with it: TPACKET_V3.
#![allow(unsafe_code, reason = "packet sockets and their ring")]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::sockopt::{
    set_socket_send_buffer_size, set_socket_send_buffer_size_force, socket_error,
};
use rustix::net::{AddressFamily, SocketType, socket};

use super::interface::{Interface, PortError};
use super::offload::Offload;

/// Where the kernel puts the frames of an interface.
///
/// The memory is in blocks; the kernel fills one with many frames, hands it over, and gets it back
/// when all are dealt with.
#[derive(Debug)]
pub struct Ring {
    name: String,
    index: u32,
    socket: OwnedFd,
    memory: NonNull<u8>,
    next: usize,
}

/// The frames of a block.
#[derive(Debug, Default)]
pub struct Block<'a> {
    /// Frames that were sent to the interface's own Ethernet address.
    pub frames: Vec<&'a mut [u8]>,
    /// What their senders have left to a network card, one for each.
    pub offloads: Vec<Offload>,
    /// How many other frames there were: to all, to a group, or to others.
    pub not_addressed: u64,
}

// SAFETY: the mapping belongs to this value alone, whichever thread has it.
unsafe impl Send for Ring {}

/// Bytes of a block.
const BLOCK: usize = 256 << 10;
/// Room for one frame, by which the kernel checks the other numbers.
const FRAME: usize = 2048;
/// What frames under way may take of the kernel's memory.
const SEND_BUFFER: usize = 8 << 20;
/// Milliseconds after which a block that is not full is handed over.
const RETIRE_MS: u32 = 1;
/// What a packet socket listens to; the kernel wants network order.
const EVERYTHING: u16 = (libc::ETH_P_ALL as u16).to_be();

/// A new fanout group, whose number the kernel chooses. Its last flag is needed because
/// PACKET_IGNORE_OUTGOING of single sockets has no effect in a group.
const NEW_GROUP: u32 = (libc::PACKET_FANOUT_HASH
    | libc::PACKET_FANOUT_FLAG_UNIQUEID
    | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING)
    << 16;

// Places in a block's header and in that of a frame, as linux/if_packet.h has them.
const BLOCK_STATUS: usize = 8;
const BLOCK_FRAMES: usize = 12;
const BLOCK_FIRST: usize = 16;
const FRAME_NEXT: usize = 0;
const FRAME_BYTES: usize = 12;
const FRAME_START: usize = 24;
/// In the address behind a frame's header, whom the frame was sent to.
const FRAME_ADDRESSEE: usize = 48 + 10;

impl Ring {
    /// How many blocks there are.
    pub const BLOCKS: usize = 32;

    /// Receives all frames of an interface that come in. With `other`, a ring of the same
    /// interface, both join one fanout group: the kernel's hash of the flow decides which ring gets
    /// a frame.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn open(interface: &Interface, other: Option<&Ring>) -> Result<Self, PortError> {
        let name = || interface.name().to_owned();
        let ring =
            Self::try_open(interface).map_err(|error| PortError::Socket { name: name(), error })?;
        if let Some(other) = other {
            let joined = other.group().and_then(|of| set(&ring.socket, libc::PACKET_FANOUT, &of));
            joined.map_err(|error| PortError::Queues { name: name(), error })?;
        }
        Ok(ring)
    }

    fn try_open(interface: &Interface) -> io::Result<Self> {
        let socket = packet_socket()?;
        set(&socket, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as u32))?;
        // Before the ring is there: it lays out frames with this header.
        set(&socket, libc::PACKET_VNET_HDR, &1u32)?;
        let wanted = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: Self::BLOCKS as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (BLOCK / FRAME * Self::BLOCKS) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::PACKET_RX_RING, &wanted)?;
        // What others send on the interface, and we ourselves, does not come in by it.
        set(&socket, libc::PACKET_IGNORE_OUTGOING, &1u32)?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses an address that nothing else uses.
        let memory =
            unsafe { mmap(ptr::null_mut(), BLOCK * Self::BLOCKS, protection, flags, &socket, 0) }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::InvalidData)?;
        let (name, index) = (interface.name().to_owned(), interface.index());
        let ring = Ring { name, index, socket, memory, next: 0 };
        bind(&ring.socket, interface.index(), EVERYTHING)?;
        Ok(ring)
    }

    /// The group of rings that share their frames, as the kernel names it; a new one of this ring
    /// alone if it shares them with none yet.
    fn group(&self) -> io::Result<u32> {
        let mut group = 0;
        get(&self.socket, libc::PACKET_FANOUT, &mut group)?;
        if group == 0 {
            set(&self.socket, libc::PACKET_FANOUT, &NEW_GROUP)?;
            get(&self.socket, libc::PACKET_FANOUT, &mut group)?;
        }
        Ok(group)
    }

    /// Hands over the frames of the next block, if there is one, and gives it back to the kernel
    /// when `take` returns.
    pub fn next_block(&mut self, take: impl FnOnce(Block<'_>)) -> bool {
        // SAFETY: `next` is below `BLOCKS`, so that the block lies within the mapping.
        let block = unsafe { self.memory.add(self.next * BLOCK) };
        // SAFETY: the status lies in the block's header.
        let status = unsafe { block.add(BLOCK_STATUS) };
        // SAFETY: the mapping lives as long as `self`, the address is a multiple of four, and both
        // sides access this word as a whole.
        let status = unsafe { AtomicU32::from_ptr(status.cast().as_ptr()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        {
            // The header stays out of the slice, since its status is the kernel's too.
            // SAFETY: BLOCK_FRAMES is below BLOCK.
            let body = unsafe { block.add(BLOCK_FRAMES) };
            // SAFETY: the kernel does not touch a block that is ours until its status is set back,
            // and `&mut self` keeps others away.
            let body = unsafe { slice::from_raw_parts_mut(body.as_ptr(), BLOCK - BLOCK_FRAMES) };
            take(frames(body));
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % Self::BLOCKS;
        true
    }

    /// Waits until a block may be there, for at most so many milliseconds. An interface that is
    /// down may come up again.
    ///
    /// # Errors
    ///
    /// If the interface has been removed.
    pub fn wait(&self, milliseconds: u32) -> Result<(), PortError> {
        let limit = Timespec {
            tv_sec: i64::from(milliseconds / 1000),
            tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
        };
        let mut descriptors = [PollFd::new(&self.socket, PollFlags::IN)];
        // A signal ends the wait too, and the caller looks again in any case.
        let _ = poll(&mut descriptors, Some(&limit));
        if descriptors[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            // The interface has gone down. The wait would end at once until that is read.
            let _ = socket_error(&self.socket);
        }
        // It goes down before it is removed, and the latter is not always told separately.
        match local_address(&self.socket) {
            Ok(address) if address.sll_ifindex == self.index as i32 => Ok(()),
            _ => Err(PortError::Gone(self.name.clone())),
        }
    }

    /// How many frames the kernel has dropped for want of blocks since the last call.
    pub fn take_overrun(&self) -> u64 {
        // SAFETY: three numbers, of which all values are valid.
        let mut statistics: libc::tpacket_stats_v3 = unsafe { mem::zeroed() };
        match get(&self.socket, libc::PACKET_STATISTICS, &mut statistics) {
            Ok(()) => u64::from(statistics.tp_drops),
            Err(_) => 0,
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no slice of it outlives `self`.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), BLOCK * Self::BLOCKS) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}

/// The frames of a block, which begins with its number of frames.
fn frames(body: &mut [u8]) -> Block<'_> {
    let word = |bytes: &[u8], at: usize| {
        bytes
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |word| u32::from_ne_bytes(*word) as usize)
    };
    let count = word(body, 0);
    let first = word(body, BLOCK_FIRST - BLOCK_FRAMES).saturating_sub(BLOCK_FRAMES);
    let mut block = Block {
        frames: Vec::with_capacity(count),
        offloads: Vec::with_capacity(count),
        not_addressed: 0,
    };
    let mut rest = body.get_mut(first..).unwrap_or_default();
    for _ in 0..count {
        let next = match word(rest, FRAME_NEXT) {
            0 => rest.len(),
            next => next.min(rest.len()),
        };
        let (own, behind) = mem::take(&mut rest).split_at_mut(next);
        rest = behind;
        let start = word(own, FRAME_START) & 0xffff;
        let end = start + word(own, FRAME_BYTES);
        let is_own = own.get(FRAME_ADDRESSEE) == Some(&libc::PACKET_HOST);
        let with_header =
            start.checked_sub(Offload::BYTES).and_then(|start| own.get_mut(start..end));
        let split = with_header.and_then(|bytes| bytes.split_first_chunk_mut());
        let Some((header, frame)) = split.filter(|(_, frame)| !frame.is_empty()) else { break };
        match is_own {
            true => {
                block.offloads.push(Offload::of(*header, frame));
                block.frames.push(frame);
            }
            false => block.not_addressed += 1,
        }
    }
    block
}

/// Binds a socket to an interface to send on it.
pub(super) fn bind_to_send(socket: &OwnedFd, index: u32) -> io::Result<()> {
    bind(socket, index, 0)?;
    enlarge_send_buffer(socket)?;
    // Frames are sent the usual way, through the queue that shapes traffic: the way that passes it
    // by drops what the network card cannot cut into segments.
    set(socket, libc::PACKET_VNET_HDR, &1u32)
}

/// The present Ethernet address of the interface that a socket is bound to; none if its frames
/// have no Ethernet header, or it has been removed.
pub(super) fn ethernet_address(socket: &OwnedFd) -> io::Result<Option<[u8; 6]>> {
    let address = local_address(socket)?;
    let [a, b, c, d, e, f, ..] = address.sll_addr;
    let has_ethernet = [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&address.sll_hatype);
    Ok(has_ethernet.then_some([a, b, c, d, e, f]))
}

/// Makes room for bursts, so that what limits them is the interface's queue: fully with
/// CAP_NET_ADMIN, otherwise up to net.core.wmem_max.
fn enlarge_send_buffer(socket: &OwnedFd) -> io::Result<()> {
    set_socket_send_buffer_size_force(socket, SEND_BUFFER)
        .or_else(|_| set_socket_send_buffer_size(socket, SEND_BUFFER))?;
    Ok(())
}

/// What a socket is bound to. The number of an interface that has been removed is -1.
fn local_address(socket: &OwnedFd) -> io::Result<libc::sockaddr_ll> {
    // SAFETY: numbers, of which all values are valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let mut length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: both pointers are to locals, and `length` is the length of the first.
    let outcome = unsafe {
        libc::getsockname(socket.as_raw_fd(), ptr::from_mut(&mut address).cast(), &raw mut length)
    };
    if outcome == 0 { Ok(address) } else { Err(io::Error::last_os_error()) }
}

/// A packet socket that does not listen yet.
pub(super) fn packet_socket() -> io::Result<OwnedFd> {
    let family = AddressFamily::from_raw(libc::AF_PACKET as u16);
    Ok(socket(family, SocketType::RAW, None)?)
}

fn set<T>(socket: &impl AsFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            option,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option that consists of numbers.
fn get<T>(socket: &impl AsFd, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: both pointers are to what is borrowed here, and `bytes` is the length of the first.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            option,
            ptr::from_mut(value).cast(),
            &raw mut bytes,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(socket: &impl AsFd, index: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol,
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads the address, whose length is given.
    let outcome =
        unsafe { libc::bind(socket.as_fd().as_raw_fd(), ptr::from_ref(&address).cast(), length) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block behind its status, with frames that begin with their length, to the interface or to
    /// others.
    fn block(frames: &[(usize, u8)]) -> Vec<u8> {
        let mut body = vec![0; 4096];
        let mut put = |at: usize, value: u32| {
            body[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        put(0, frames.len() as u32);
        put(BLOCK_FIRST - BLOCK_FRAMES, 48);
        let mut at = 48 - BLOCK_FRAMES;
        for (index, &(length, addressee)) in frames.iter().enumerate() {
            let is_last = index + 1 == frames.len();
            put(at + FRAME_NEXT, if is_last { 0 } else { 256 });
            put(at + FRAME_BYTES, length as u32);
            put(at + FRAME_START, 92 | 106 << 16);
            put(at + FRAME_ADDRESSEE, addressee.into());
            // The header that goes before the frame: length of headers, then of segments.
            put(at + 84, 54 | 1448 << 16);
            put(at + 92, length as u32);
            at += 256;
        }
        body
    }

    const OWN: u8 = libc::PACKET_HOST;

    #[test]
    fn a_block_gives_its_frames() {
        let mut body = block(&[(60, OWN), (4, OWN), (100, OWN)]);
        let found = frames(&mut body);
        assert_eq!(found.frames.iter().map(|frame| frame.len()).collect::<Vec<_>>(), [60, 4, 100]);
        assert!(found.frames.iter().all(|frame| usize::from(frame[0]) == frame.len()));
        let lengths = [54u16.to_ne_bytes(), 1448u16.to_ne_bytes()].concat();
        assert!(found.offloads.iter().all(|offload| offload.bytes()[2..6] == lengths));
        assert_eq!((found.offloads.len(), found.not_addressed), (3, 0));
        assert!(frames(&mut block(&[])).frames.is_empty());
    }

    #[test]
    fn frames_to_others_are_counted_only() {
        // Broadcast, multicast, another's.
        let mut body = block(&[(60, 1), (61, OWN), (62, 2), (63, 3)]);
        let found = frames(&mut body);
        assert_eq!((found.frames.len(), found.offloads.len(), found.not_addressed), (1, 1, 3));
        assert_eq!(found.frames[0].len(), 61);
    }

    #[test]
    fn a_frame_that_reaches_beyond_its_block_ends_it() {
        assert_eq!(frames(&mut block(&[(60, OWN), (5000, OWN), (60, OWN)])).frames.len(), 1);
        let mut body = block(&[(60, OWN)]);
        body[BLOCK_FIRST - BLOCK_FRAMES..][..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(frames(&mut body).frames.is_empty());
        // Without room for the header before it.
        let mut body = block(&[(60, OWN)]);
        body[48 - BLOCK_FRAMES + FRAME_START..][..4].copy_from_slice(&9u32.to_ne_bytes());
        assert!(frames(&mut body).frames.is_empty());
    }
}

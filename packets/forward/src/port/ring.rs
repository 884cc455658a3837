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
use rustix::net::{AddressFamily, SocketType, socket};

use super::interface::{Interface, PortError};
use crate::checksum;

/// Where the kernel puts the frames of an interface.
///
/// The memory is in blocks; the kernel fills one with many frames, hands it over, and gets it back
/// when all are dealt with.
#[derive(Debug)]
pub struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone, whichever thread has it.
unsafe impl Send for Ring {}

/// Bytes of a block.
const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 32;
/// Room for one frame, by which the kernel checks the other numbers.
const FRAME: usize = 2048;
/// A block that is not full is handed over after so many milliseconds.
const RETIRE_MS: u32 = 1;
/// What a packet socket listens to; the kernel wants network order.
const EVERYTHING: u16 = (libc::ETH_P_ALL as u16).to_be();

// Places in a block's header and in that of a frame, as linux/if_packet.h has them.
const BLOCK_STATUS: usize = 8;
const BLOCK_FRAMES: usize = 12;
const BLOCK_FIRST: usize = 16;
const FRAME_NEXT: usize = 0;
const FRAME_BYTES: usize = 12;
const FRAME_STATUS: usize = 20;
const FRAME_START: usize = 24;

impl Ring {
    /// Receives all frames of an interface that come in; with `group`, those that the kernel's hash
    /// of their flow gives to this ring among all of the group.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn open(interface: &Interface, group: Option<u16>) -> Result<Self, PortError> {
        Self::try_open(interface, group)
            .map_err(|error| PortError::Socket { name: interface.name().to_owned(), error })
    }

    fn try_open(interface: &Interface, group: Option<u16>) -> io::Result<Self> {
        let socket = packet_socket()?;
        set(&socket, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as u32))?;
        let wanted = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (BLOCK / FRAME * BLOCKS) as u32,
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
            unsafe { mmap(ptr::null_mut(), BLOCK * BLOCKS, protection, flags, &socket, 0) }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::InvalidData)?;
        let ring = Ring { socket, memory, next: 0 };
        bind(&ring.socket, interface.index(), EVERYTHING)?;
        if let Some(group) = group {
            let group = u32::from(group) | libc::PACKET_FANOUT_HASH << 16;
            set(&ring.socket, libc::PACKET_FANOUT, &group)?;
        }
        Ok(ring)
    }

    /// Hands over the frames of the next block, if there is one, and gives it back to the kernel
    /// when `take` returns. Checksums that a sender on this machine has left open are filled in.
    pub fn next_block(&mut self, take: impl FnOnce(&mut [&mut [u8]])) -> bool {
        // SAFETY: `next` is below BLOCKS, so that the block lies within the mapping.
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
            take(&mut frames(body));
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % BLOCKS;
        true
    }

    /// Waits until a block may be there, for at most so many milliseconds.
    pub fn wait(&self, milliseconds: u32) {
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(milliseconds) * 1_000_000 };
        let mut descriptors = [PollFd::new(&self.socket, PollFlags::IN)];
        // A signal ends the wait too, and the caller looks again in any case.
        let _ = poll(&mut descriptors, Some(&limit));
    }

    /// How many frames the kernel has dropped for want of blocks since the last call.
    pub fn take_overrun(&self) -> u64 {
        // SAFETY: three numbers, of which all values are valid.
        let mut statistics: libc::tpacket_stats_v3 = unsafe { mem::zeroed() };
        let mut bytes = mem::size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: both pointers are to locals, and `bytes` is the length of the first.
        let outcome = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                ptr::from_mut(&mut statistics).cast(),
                &raw mut bytes,
            )
        };
        if outcome == 0 { u64::from(statistics.tp_drops) } else { 0 }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no slice of it outlives `self`.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), BLOCK * BLOCKS) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}

/// The frames of a block, which begins with its number of frames.
fn frames(body: &mut [u8]) -> Vec<&mut [u8]> {
    let word = |bytes: &[u8], at: usize| {
        bytes
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |word| u32::from_ne_bytes(*word) as usize)
    };
    let count = word(body, 0);
    let first = word(body, BLOCK_FIRST - BLOCK_FRAMES).saturating_sub(BLOCK_FRAMES);
    let mut found = Vec::with_capacity(count);
    let mut rest = body.get_mut(first..).unwrap_or_default();
    for _ in 0..count {
        let next = match word(rest, FRAME_NEXT) {
            0 => rest.len(),
            next => next.min(rest.len()),
        };
        let (own, behind) = mem::take(&mut rest).split_at_mut(next);
        rest = behind;
        let start = word(own, FRAME_START) & 0xffff;
        let (end, status) = (start + word(own, FRAME_BYTES), word(own, FRAME_STATUS));
        let frame = own.get_mut(start..end).filter(|frame| !frame.is_empty());
        let Some(frame) = frame else { break };
        if status as u32 & libc::TP_STATUS_CSUMNOTREADY != 0 {
            checksum::complete(frame);
        }
        found.push(frame);
    }
    found
}

/// Binds a socket to an interface to send on it, and tells the interface's address.
pub(super) fn bind_to_send(socket: &OwnedFd, index: u32) -> io::Result<[u8; 6]> {
    bind(socket, index, 0)?;
    // The queue that shapes traffic is passed by, as other forwarders do.
    set(socket, libc::PACKET_QDISC_BYPASS, &1u32)?;
    // SAFETY: numbers, of which all values are valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let mut length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: both pointers are to locals, and `length` is the length of the first.
    let outcome = unsafe {
        libc::getsockname(socket.as_raw_fd(), ptr::from_mut(&mut address).cast(), &raw mut length)
    };
    let [a, b, c, d, e, f, ..] = address.sll_addr;
    if outcome == 0 { Ok([a, b, c, d, e, f]) } else { Err(io::Error::last_os_error()) }
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

    /// A block behind its status, with frames that begin with their length.
    fn block(lengths: &[usize]) -> Vec<u8> {
        let mut body = vec![0; 4096];
        let mut put = |at: usize, value: u32| {
            body[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        put(0, lengths.len() as u32);
        put(BLOCK_FIRST - BLOCK_FRAMES, 48);
        let mut at = 48 - BLOCK_FRAMES;
        for (index, length) in lengths.iter().enumerate() {
            let is_last = index + 1 == lengths.len();
            put(at + FRAME_NEXT, if is_last { 0 } else { 256 });
            put(at + FRAME_BYTES, *length as u32);
            put(at + FRAME_START, 82 | 96 << 16);
            put(at + 82, *length as u32);
            at += 256;
        }
        body
    }

    #[test]
    fn a_block_gives_its_frames() {
        let mut body = block(&[60, 4, 100]);
        let found = frames(&mut body);
        assert_eq!(found.iter().map(|frame| frame.len()).collect::<Vec<_>>(), [60, 4, 100]);
        assert!(found.iter().all(|frame| usize::from(frame[0]) == frame.len()));
        assert!(frames(&mut block(&[])).is_empty());
    }

    #[test]
    fn a_frame_that_reaches_beyond_its_block_ends_it() {
        assert_eq!(frames(&mut block(&[60, 5000, 60])).len(), 1);
        let mut body = block(&[60]);
        body[BLOCK_FIRST - BLOCK_FRAMES..][..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(frames(&mut body).is_empty());
    }
}

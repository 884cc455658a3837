//! Captures: frames from a pcap or pcapng file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

use crate::headers::Link;

/// Frames in memory.
#[derive(Clone, Debug)]
pub struct Capture {
    bytes: Vec<u8>,
    frames: Vec<(Link, Range<usize>)>,
    /// Whether the file ends within a frame; the whole ones before it are here.
    pub is_cut: bool,
}

/// A source that keeps the error by which it failed, as `pcap_parser` tells of none.
struct Remembering<'a, R> {
    source: R,
    failure: &'a Mutex<Option<io::Error>>,
}

impl<R: io::Read> io::Read for Remembering<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.source.read(buffer).map_err(|error| {
            let kind = error.kind();
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            kind.into()
        })
    }
}

/// The error that was kept.
fn taken(failure: &Mutex<Option<io::Error>>) -> io::Error {
    let kept = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    kept.unwrap_or_else(|| io::Error::other("the source failed"))
}

/// Where frames of a capture come from.
struct Interface {
    link: Linktype,
    /// The most bytes of a frame that were kept; 0 for all.
    snaplen: u32,
}

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be read.
    #[error("cannot be read")]
    Read(#[from] io::Error),
    /// It is no capture.
    #[error("is neither a pcap nor a pcapng file")]
    NotACapture,
    /// Its frames begin with something that is not understood.
    #[error(
        "has frames of link type {0}{hint}; Ethernet (1) and raw IP (101, 228, 229) are understood",
        hint = advice(*.0)
    )]
    Link(i32),
    /// Its frames are in blocks of a kind that pcapng has given up.
    #[error("holds obsolete Packet Blocks; convert it with `editcap -F pcapng`")]
    Obsolete,
    /// Something between the frames is wrong.
    #[error("is damaged behind frame {0}")]
    Damaged(usize),
}

/// What to do about the link types that `tcpdump -i any` writes.
fn advice(link: i32) -> &'static str {
    match link {
        113 | 276 => {
            ", as `tcpdump -i any` writes (name an interface, or convert it with tcprewrite)"
        }
        _ => "",
    }
}

/// The kind of a pcapng file's obsolete Packet Blocks.
const PACKET_BLOCK: u32 = 2;
/// The bits of a pcap file's link field that hold the link type; the upper ones describe checksums
/// of frames.
const LINK_BITS: i32 = 0xffff;

/// Bytes read at a time, to begin with.
const BUFFER: usize = 1 << 16;
/// No block of a capture is larger.
const BUFFER_MAX: usize = 1 << 26;

impl Capture {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// See [`CaptureError`]. A file that is cut is no error; see [`is_cut`](Self::is_cut).
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        Self::read(File::open(path)?)
    }

    /// Reads from anywhere.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn read(source: impl io::Read + Send) -> Result<Self, CaptureError> {
        let mut capture = Capture { bytes: Vec::new(), frames: Vec::new(), is_cut: false };
        let mut interfaces = Vec::new();
        let failure = Mutex::new(None);
        let why = || CaptureError::Read(taken(&failure));
        let source = Remembering { source, failure: &failure };
        let mut reader = create_reader(BUFFER, source).map_err(|error| match error {
            PcapError::ReadError => why(),
            _ => CaptureError::NotACapture,
        })?;
        let mut room = BUFFER;
        loop {
            match reader.next() {
                Ok((used, block)) => {
                    capture.take(&block, &mut interfaces)?;
                    reader.consume(used);
                    continue;
                }
                Err(PcapError::Eof) => return Ok(capture),
                Err(PcapError::Incomplete(_)) => {}
                // A block that is larger than the buffer.
                Err(PcapError::BufferTooSmall) => {
                    room *= 2;
                    if room > BUFFER_MAX || !reader.grow(room) {
                        return Err(CaptureError::Damaged(capture.len()));
                    }
                }
                Err(PcapError::UnexpectedEof) => {
                    capture.is_cut = true;
                    return Ok(capture);
                }
                Err(_) => return Err(CaptureError::Damaged(capture.len())),
            }
            if reader.reader_exhausted() {
                capture.is_cut = true;
                return Ok(capture);
            }
            if matches!(reader.refill(), Err(PcapError::ReadError)) {
                return Err(why());
            }
        }
    }

    /// How many frames there are.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The frames, in the file's order, and what each begins with.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = (Link, &[u8])> {
        self.frames.iter().map(|(link, range)| (*link, &self.bytes[range.clone()]))
    }

    /// Brings the frames of each link together; among themselves they stay in the file's order.
    pub(crate) fn sort_by_link(&mut self) {
        self.frames.sort_by_key(|(link, _)| *link == Link::Ip);
    }

    /// The frames, up to `most` of one link at a time.
    pub(crate) fn bursts(
        &self,
        most: usize,
    ) -> impl Iterator<Item = (Link, impl ExactSizeIterator<Item = &[u8]>)> {
        let of_one_link = self.frames.chunk_by(|(one, _), (other, _)| one == other);
        of_one_link
            .flat_map(move |frames| frames.chunks(most))
            .map(|frames| (frames[0].0, frames.iter().map(|(_, range)| &self.bytes[range.clone()])))
    }

    fn take(
        &mut self,
        block: &PcapBlockOwned<'_>,
        interfaces: &mut Vec<Interface>,
    ) -> Result<(), CaptureError> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let link = Linktype(header.network.0 & LINK_BITS);
                interfaces.push(Interface { link, snaplen: header.snaplen });
            }
            PcapBlockOwned::Legacy(frame) => {
                self.push(interfaces.first(), frame.data, frame.caplen)?;
            }
            // Interfaces are numbered anew in every section.
            PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                let (link, snaplen) = (interface.linktype, interface.snaplen);
                interfaces.push(Interface { link, snaplen });
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(frame)) => {
                self.push(interfaces.get(frame.if_id as usize), frame.data, frame.caplen)?;
            }
            PcapBlockOwned::NG(Block::SimplePacket(frame)) => {
                let interface = interfaces.first();
                // The block has the frame's length on the wire, and not how much was kept.
                let length = match interface {
                    Some(interface) if interface.snaplen > 0 => {
                        frame.origlen.min(interface.snaplen)
                    }
                    _ => frame.origlen,
                };
                self.push(interface, frame.data, length)?;
            }
            // Its number is in the file's byte order.
            PcapBlockOwned::NG(Block::Unknown(block))
                if [PACKET_BLOCK, PACKET_BLOCK.swap_bytes()].contains(&block.block_type) =>
            {
                return Err(CaptureError::Obsolete);
            }
            PcapBlockOwned::NG(_) => {}
        }
        Ok(())
    }

    /// Takes a frame; blocks are padded, so that `data` may be longer than it.
    fn push(
        &mut self,
        interface: Option<&Interface>,
        data: &[u8],
        length: u32,
    ) -> Result<(), CaptureError> {
        let link = match interface.map(|interface| &interface.link) {
            Some(&Linktype(1)) => Link::Ethernet,
            Some(&Linktype(101 | 228 | 229)) => Link::Ip,
            Some(&Linktype(other)) => return Err(CaptureError::Link(other)),
            None => return Err(CaptureError::Damaged(self.len())),
        };
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&data[..data.len().min(length as usize)]);
        self.frames.push((link, start..self.bytes.len()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pcap file of Ethernet frames, by the format's description.
    fn pcap(link: u32, frames: &[&[u8]]) -> Vec<u8> {
        let header = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, link];
        let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        for frame in frames {
            let length = frame.len() as u32;
            bytes.extend([7, 0, length, length + 1].iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend_from_slice(frame);
        }
        bytes
    }

    /// A block of a pcapng file: some words, and bytes that are padded.
    fn block(kind: u32, words: &[u32], data: &[u8]) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        let mut body: Vec<u8> = words.chain(data.iter().copied()).collect();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, &body, &length].concat()
    }

    /// The beginning of a pcapng file with one interface of raw IP.
    fn section(snaplen: u32) -> Vec<u8> {
        let header = block(0x0a0d_0d0a, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX], &[]);
        [header, block(1, &[101, snaplen], &[])].concat()
    }

    /// A pcapng file.
    fn pcapng(frames: &[&[u8]]) -> Vec<u8> {
        let mut bytes = section(0);
        for frame in frames {
            let length = frame.len() as u32;
            bytes.extend(block(6, &[0, 0, 0, length, length], frame));
        }
        bytes
    }

    fn frames(bytes: &[u8]) -> (Vec<(Link, Vec<u8>)>, bool) {
        let capture = Capture::read(bytes).unwrap();
        let frames = capture.frames().map(|(link, frame)| (link, frame.to_vec()));
        (frames.collect(), capture.is_cut)
    }

    #[test]
    fn both_formats_give_their_frames() {
        let large = vec![5; 200_000];
        let (found, is_cut) = frames(&pcap(1, &[b"abc", &large, b""]));
        let own = |frame: &[u8]| (Link::Ethernet, frame.to_vec());
        assert_eq!(found, [own(b"abc"), own(&large), own(b"")]);
        assert!(!is_cut);
        let (found, is_cut) = frames(&pcapng(&[b"abcde", b"f"]));
        assert_eq!(found, [(Link::Ip, b"abcde".to_vec()), (Link::Ip, b"f".to_vec())]);
        assert!(!is_cut);
    }

    /// Ethernet frames with four bytes of checksum, as the upper bits of the link type say.
    #[test]
    fn frames_may_have_checksums() {
        assert_eq!(frames(&pcap(0x4400_0001, &[b"abc"])).0, [(Link::Ethernet, b"abc".to_vec())]);
    }

    /// Simple packet blocks do not say how much of a frame they have.
    #[test]
    fn a_simple_packet_has_what_its_interface_keeps() {
        let frame = [5; 37];
        for (snaplen, length) in [(37, 60), (0, 37), (100, 37)] {
            let bytes = [section(snaplen), block(3, &[length], &frame)].concat();
            assert_eq!(frames(&bytes).0, [(Link::Ip, frame.to_vec())], "{snaplen}, {length}");
        }
    }

    #[test]
    fn a_cut_file_gives_its_whole_frames() {
        for (bytes, header) in [(pcap(1, &[b"abc", b"defg"]), 24), (pcapng(&[b"abc", b"defg"]), 48)]
        {
            let ends: Vec<usize> = (header..=bytes.len())
                .filter(|&end| !Capture::read(&bytes[..end]).unwrap().is_cut)
                .collect();
            assert_eq!(ends.len(), 3, "between frames only: {ends:?}");
            for end in header..=bytes.len() {
                let whole = ends[1..].iter().filter(|&&frame| frame <= end).count();
                assert_eq!(frames(&bytes[..end]).0.len(), whole);
            }
        }
    }

    #[test]
    fn bursts_have_frames_of_one_link() {
        let (ethernet, ip) = (Link::Ethernet, Link::Ip);
        let frames = [(ip, 0..1), (ethernet, 1..3), (ip, 3..4), (ethernet, 4..5), (ethernet, 5..6)];
        let frames = frames.to_vec();
        let mut capture = Capture { bytes: b"abcdef".to_vec(), frames, is_cut: false };
        capture.sort_by_link();
        let found: Vec<(Link, Vec<&[u8]>)> =
            capture.bursts(2).map(|(link, frames)| (link, frames.collect())).collect();
        let wanted: [(Link, Vec<&[u8]>); 3] =
            [(ethernet, vec![b"bc", b"e"]), (ethernet, vec![b"f"]), (ip, vec![b"a", b"d"])];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_source_that_fails_says_why() {
        use std::error::Error;
        use std::io::Read;

        let why = |error: CaptureError| error.source().map(|why| why.to_string());
        let directory = Capture::open(Path::new("/")).unwrap_err();
        assert_eq!(why(directory).unwrap(), "Is a directory (os error 21)");
        // In the middle of a capture, which is longer than what is read at first.
        let whole = pcap(1, &[&[0; 60][..]; 1000]);
        let broken = whole.chain(File::open("/").unwrap());
        assert_eq!(
            why(Capture::read(broken).unwrap_err()).unwrap(),
            "Is a directory (os error 21)"
        );
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        let error = |bytes: &[u8]| Capture::read(bytes).unwrap_err().to_string();
        assert_eq!(error(b""), "is neither a pcap nor a pcapng file");
        assert_eq!(error(b"no capture, but a text"), "is neither a pcap nor a pcapng file");
        assert!(error(&pcap(105, &[b"abc"])).starts_with("has frames of link type 105;"));
        for any in [113, 276] {
            let wanted = format!("has frames of link type {any}, as `tcpdump -i any` writes");
            assert!(error(&pcap(any, &[b"abc"])).starts_with(&wanted));
        }
        // Interface, time, lengths.
        let obsolete = block(2, &[0, 0, 0, 3, 3], b"abc");
        let found = error(&[section(0), obsolete].concat());
        assert!(found.starts_with("holds obsolete Packet Blocks;"), "{found}");
        assert!(Capture::open(Path::new("/nowhere")).is_err());
    }
}

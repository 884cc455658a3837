//! What servers serve in bulk: bodies of a given length that repeat one pattern.
//!
//! nginx reads them from files, HAProxy gets them over plain HTTP from an [`Origin`] in this
//! process, and the embedded server makes them itself.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use widelane_meter::place;

/// Paths of bodies begin so; their length follows.
pub const PREFIX: &str = "/bytes/";

/// Longest request that the origin reads.
const REQUEST_BYTES_MAX: u64 = 16 << 10;

/// Pause after a connection that could not be accepted.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(5);

/// What all bodies repeat.
pub static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    // Multiples of an odd number by the word: no two parts of the pattern are alike.
    const WORDS: u32 = 16 << 10;
    (0..WORDS).flat_map(|index| index.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect()
});

/// The path of a body of `bytes` bytes.
pub fn path(bytes: u64) -> String {
    format!("{PREFIX}{bytes}")
}

/// The length of the body that a request line asks for, if it asks for one.
pub fn requested(line: &str) -> Option<u64> {
    line.split(' ').nth(1)?.strip_prefix(PREFIX)?.parse().ok()
}

/// The head of the answer with a body of `bytes` bytes.
pub fn head(bytes: u64) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n")
}

/// The next bytes of a body of which `sent` of `bytes` have been sent.
pub fn rest(sent: u64, bytes: u64) -> &'static [u8] {
    let rest = &PATTERN[(sent % PATTERN.len() as u64) as usize..];
    &rest[..(rest.len() as u64).min(bytes - sent) as usize]
}

/// Files and an origin with bodies.
pub struct Content {
    root: PathBuf,
    origin: Origin,
}

impl Content {
    /// Writes bodies of `sizes` below `directory` and starts the origin, which stays on `cpu`.
    ///
    /// # Errors
    ///
    /// Those of the operating system.
    pub fn make(directory: &Path, sizes: &[u64], cpu: Option<usize>) -> io::Result<Self> {
        let root = directory.join("content");
        for size in sizes {
            let file = root.join(path(*size).trim_start_matches('/'));
            if let Some(parent) = file.parent() {
                fs::create_dir_all(parent)?;
            }
            write_body(&mut File::create(file)?, *size)?;
        }
        Ok(Content { root, origin: Origin::start(cpu)? })
    }

    /// The directory below which the paths of bodies are files.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the origin listens.
    pub fn origin(&self) -> SocketAddr {
        self.origin.address
    }
}

fn write_body(to: &mut impl Write, bytes: u64) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes {
        let part = rest(sent, bytes);
        to.write_all(part)?;
        sent += part.len() as u64;
    }
    Ok(())
}

/// A server of bodies over plain HTTP, one request per connection, on threads of this process.
struct Origin {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    fn start(cpu: Option<usize>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let accept = move || {
            // The threads of connections inherit it. Where it is refused, the run is only noisier.
            place::roam(cpu.as_slice());
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                // A connection that fails is the client's to notice.
                match stream {
                    Ok(stream) => _ = thread::Builder::new().spawn(move || answer(stream)),
                    // Without open files it would fail again at once, on the CPU of the clients.
                    Err(_) => thread::sleep(PAUSE_AFTER_FAILURE),
                }
            }
        };
        let thread = thread::Builder::new().name("origin".to_owned()).spawn(accept)?;
        Ok(Origin { address, is_over, thread: Some(thread) })
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn answer(stream: TcpStream) -> io::Result<()> {
    let mut lines = BufReader::new(io::Read::take(&stream, REQUEST_BYTES_MAX)).lines();
    let line = lines.next().unwrap_or(Err(io::ErrorKind::UnexpectedEof.into()))?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut to = &stream;
    match requested(&line) {
        Some(bytes) => {
            to.write_all(head(bytes).as_bytes())?;
            write_body(&mut to, bytes)
        }
        None => to.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn bodies_repeat_the_pattern() {
        let mut body = Vec::new();
        let bytes = 3 * PATTERN.len() as u64 + 17;
        write_body(&mut body, bytes).unwrap();
        assert_eq!(body.len() as u64, bytes);
        assert!(body.chunks(PATTERN.len()).all(|part| *part == PATTERN[..part.len()]));
        assert_ne!(PATTERN[..64], PATTERN[64..128]);
    }

    #[test]
    fn a_request_names_a_length() {
        assert_eq!(requested(&format!("GET {} HTTP/1.1", path(1 << 20))), Some(1 << 20));
        assert_eq!(requested("GET / HTTP/1.1"), None);
        assert_eq!(requested("GET /bytes/-1 HTTP/1.1"), None);
        assert_eq!(requested(""), None);
    }

    #[test]
    fn files_and_origin_hold_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let content = Content::make(directory.path(), &[70_000], None).unwrap();
        let file = fs::read(content.root().join("bytes/70000")).unwrap();
        let mut stream = TcpStream::connect(content.origin()).unwrap();
        stream.write_all(b"GET /bytes/70000 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, [head(70_000).as_bytes(), &file].concat());
        let mut stream = TcpStream::connect(content.origin()).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        answer.clear();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 404"));
    }
}

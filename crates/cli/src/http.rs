//! Just enough of HTTP to answer a scraper: GET only, no state.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use rustix::event::{self, PollFd, PollFlags, Timespec};

/// Status line of a page that is there, without the version.
pub const OK: &str = "200 OK";
/// Status line of a page that does not exist, without the version.
pub const NOT_FOUND: &str = "404 Not Found";
/// Status line of a page that cannot be read now, without the version.
pub const UNAVAILABLE: &str = "503 Service Unavailable";

/// What a client gets.
pub struct Answer {
    /// Status line without the version.
    pub status: &'static str,
    /// Type of the body.
    pub content_type: &'static str,
    /// Body.
    pub body: String,
}

/// Answers requests over HTTP.
pub struct Server {
    listener: TcpListener,
}

/// How long the server waits for a client, or for the end of another, until it looks whether it is
/// to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
/// How long a client may take for its request, and again for taking the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many clients are answered at once; others wait to be accepted.
const CLIENTS_MAX: usize = 16;
/// No request is longer.
const REQUEST_MAX: usize = 8192;

/// Reads an address to listen at.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected ADDRESS:PORT, such as 127.0.0.1:9847".to_owned())
}

/// Why this process cannot listen at an address, and what to give instead.
fn obstacle(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => format!(
            "this machine has no address {}; give one of its own, such as 127.0.0.1, or 0.0.0.0 \
             for all of them",
            address.ip()
        ),
        io::ErrorKind::AddrInUse => {
            format!("another program listens there; give another port than {}", address.port())
        }
        _ => error.to_string(),
    }
}

impl Server {
    /// Listens.
    pub fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|error| {
                anyhow!("cannot listen at {address}: {}", obstacle(address, &error))
            })?;
        Ok(Server { listener })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers the paths that clients ask for, until the end, each client on a thread of its own:
    /// a slow one does not delay the others.
    pub fn serve(&self, ended: &AtomicBool, answer: impl Fn(&str) -> Answer + Sync) {
        let (answer, clients) = (&answer, &AtomicUsize::new(0));
        thread::scope(|scope| {
            while !ended.load(Ordering::Relaxed) {
                let has_room = clients.load(Ordering::Acquire) < CLIENTS_MAX;
                let client = match has_room.then(|| self.listener.accept()) {
                    Some(Ok((client, _))) => client,
                    refused => {
                        // Where places or descriptors are short, a client that waits for one would
                        // end each wait at once.
                        let is_idle = matches!(&refused, Some(Err(error))
                            if error.kind() == io::ErrorKind::WouldBlock);
                        let mut listener = [PollFd::new(&self.listener, PollFlags::IN)];
                        let awaited = if is_idle { &mut listener[..] } else { &mut [] };
                        // A signal ends it too, perhaps that which ends the server.
                        let _ = event::poll(awaited, Some(&LOOK));
                        continue;
                    }
                };
                let place = Place::take(clients);
                let talk = move || {
                    let _place = place;
                    // A client that has gone does not need its answer.
                    let _ = talk(client, answer);
                };
                // Where there is no thread to be had, the client finds its connection closed.
                let _ = thread::Builder::new().spawn_scoped(scope, talk);
            }
        });
    }
}

/// One of the clients that are answered at a time, however that ends.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(clients: &'a AtomicUsize) -> Self {
        clients.fetch_add(1, Ordering::Relaxed);
        Place(clients)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

fn talk(mut client: TcpStream, answer: impl Fn(&str) -> Answer) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let request = read_request(&mut client)?;
    let Answer { status, content_type, body } = match path(&request) {
        Some(path) => answer(path),
        None => Answer {
            status: "405 Method Not Allowed",
            content_type: "text/plain; charset=utf-8",
            body: "only GET is answered here\n".to_owned(),
        },
    };
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    send(&mut client, text.as_bytes())
}

/// What is left of a client's time.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Sends all of an answer, or as much as the client takes in time.
fn send(client: &mut TcpStream, mut answer: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !answer.is_empty() {
        client.set_write_timeout(Some(left(deadline)?))?;
        let count = client.write(answer)?;
        answer = &answer[count..];
    }
    Ok(())
}

/// The head of a request, or what came of it in the time that a client has.
fn read_request(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let (mut request, mut used) = (vec![0; REQUEST_MAX], 0);
    while !request[..used].windows(4).any(|end| end == b"\r\n\r\n") && used < REQUEST_MAX {
        client.set_read_timeout(Some(left(deadline)?))?;
        match client.read(&mut request[used..])? {
            0 => break,
            count => used += count,
        }
    }
    request.truncate(used);
    Ok(request)
}

/// The path of a GET, without its query.
fn path(request: &[u8]) -> Option<&str> {
    let line = request.split(|&byte| byte == b'\r').next()?;
    let target = std::str::from_utf8(line).ok()?.strip_prefix("GET ")?.split(' ').next()?;
    target.split('?').next()
}

#[cfg(test)]
mod tests {
    use std::panic::{self, AssertUnwindSafe};

    use super::*;

    #[test]
    fn the_path_of_a_get_is_found() {
        assert_eq!(path(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), Some("/metrics"));
        assert_eq!(path(b"GET /metrics?x=1 HTTP/1.0\r\n\r\n"), Some("/metrics"));
        for wrong in [&b"POST / HTTP/1.1\r\n\r\n"[..], b"", b"GET", b"GET \xff HTTP/1.1\r\n"] {
            assert_eq!(path(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn an_address_that_cannot_be_had_is_told_what_can() {
        let refusal = |address: SocketAddr| Server::open(address).err().unwrap().to_string();
        // Of a network for documents, which no machine has.
        let text = refusal(([192, 0, 2, 1], 0).into());
        assert!(text.contains("no address 192.0.2.1") && text.contains("127.0.0.1"), "{text}");
        let server = Server::open(([127, 0, 0, 1], 0).into()).unwrap();
        let text = refusal(server.address().unwrap());
        assert!(text.contains("another program listens there"), "{text}");
    }

    #[test]
    fn answers_that_panic_take_no_places_away() {
        let server = Server::open(([127, 0, 0, 1], 0).into()).unwrap();
        let address = server.address().unwrap();
        let ended = AtomicBool::new(false);
        let ask = |path: &str| {
            let mut client = TcpStream::connect(address)?;
            client.set_read_timeout(Some(PATIENCE * 5))?;
            client.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes())?;
            io::read_to_string(client)
        };
        let mut said = Ok(String::new());
        let talk = AssertUnwindSafe(|| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    server.serve(&ended, |path| match path {
                        "/panic" => panic::resume_unwind(Box::new("on purpose")),
                        _ => Answer { status: OK, content_type: "text/plain", body: String::new() },
                    })
                });
                for _ in 0..CLIENTS_MAX {
                    drop(ask("/panic"));
                }
                said = ask("/healthz");
                ended.store(true, Ordering::Relaxed);
            });
        });
        assert!(panic::catch_unwind(talk).is_err(), "the server's scope tells of panics");
        assert!(said.is_ok_and(|said| said.starts_with("HTTP/1.1 200 OK\r\n")));
    }

    #[test]
    fn a_client_is_answered_while_others_are_silent() {
        let server = Server::open(([127, 0, 0, 1], 0).into()).unwrap();
        let address = server.address().unwrap();
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                server.serve(&ended, |path| Answer {
                    status: OK,
                    content_type: "text/plain",
                    body: path.to_owned(),
                });
            });
            let _silent: Vec<_> =
                (1..CLIENTS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
            let mut client = TcpStream::connect(address).unwrap();
            // One after the other, the silent ones would take longer.
            client.set_read_timeout(Some(PATIENCE * 5)).unwrap();
            client.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
            let mut said = String::new();
            client.read_to_string(&mut said).unwrap();
            ended.store(true, Ordering::Relaxed);
            assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n/healthz"));
        });
    }
}

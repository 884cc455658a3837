//! What HAProxy says last leaves with the end of the stream, or with its turn's.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libssl and epoll by their C interfaces")]

use std::ffi::{c_char, c_int, c_void};
use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use std::mem;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use openssl::ssl::{Ssl, SslContext, SslMethod, SslStream};
use openssl_sys as sys;

use crate::ahead::{BIO_meth_set_write, Function, kind_of_haproxy, send, sending_kind};
use crate::support::by_hand::{
    BIO_s_socket, Epoll, accelerated, accelerated_and_native, context, file, ssl_over,
};

/// What a server does behind its goodbye.
const THEN: [&str; 5] = [
    "closes",
    "closes, with something unread",
    "closes, and lets nothing linger",
    "waits",
    "writes nothing more",
];

#[test]
fn goodbyes_leave_with_the_end_of_the_stream() {
    let ([accelerated, native], _) = accelerated_and_native("goodbye::scenario_goodbye");
    let changed = accelerated.lines().zip(native.lines()).filter(|(ours, theirs)| ours != theirs);
    let changed: Vec<_> = changed.collect();
    let held = |then| {
        (
            format!("haproxy, then {then}: held, told: close notify"),
            format!("haproxy, then {then}: sent, told: close notify"),
        )
    };
    let expected = THEN.map(held);
    assert_eq!(changed.len(), expected.len(), "{accelerated}{native}");
    for (changed, expected) in changed.iter().zip(&expected) {
        assert_eq!(*changed, (&expected.0[..], &expected.1[..]));
    }
    assert_eq!(native.lines().count(), accelerated.lines().count());
}

#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario_goodbye() {
    let context = context();
    // SAFETY: libcrypto's constant table.
    let socket = unsafe { BIO_s_socket() };
    let mut answers = String::new();
    for (program, kind) in [("haproxy", sending_kind()), ("another", socket)] {
        for then in THEN {
            let said = goodbye(kind, &context, then);
            let _ = writeln!(answers, "{program}, then {then}: {said}");
        }
    }
    std::fs::write(file("answers"), answers).expect("a short write");
}

#[test]
fn what_throws_past_a_goodbye_holds_nothing() {
    accelerated("goodbye::scenario_thrown");
}

/// `SSL_shutdown`, of a type that lets a callback unwind through it. It is looked up by its name,
/// because `openssl_sys` declares it as a function that never unwinds, and the compiler may apply
/// that to a second declaration of the same name.
fn shut_down_or_throw() -> unsafe extern "C-unwind" fn(*mut sys::SSL) -> c_int {
    // SAFETY: the name ends with zero.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"SSL_shutdown".as_ptr()) };
    assert!(!address.is_null());
    // SAFETY: the type of the function.
    unsafe {
        mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(*mut sys::SSL) -> c_int>(address)
    }
}

/// Whether a BIO throws instead of sending.
static THROWS: AtomicBool = AtomicBool::new(false);

extern "C-unwind" fn send_or_throw(bio: *mut sys::BIO, data: *const c_char, bytes: c_int) -> c_int {
    assert!(!THROWS.load(Ordering::Relaxed));
    send(bio, data, bytes)
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_thrown() {
    let (kind, epoll) = (kind_of_haproxy(), Epoll::new());
    // SAFETY: writes an entry of the table just made.
    assert_eq!(unsafe { BIO_meth_set_write(kind, send_or_throw as Function) }, 1);
    let (ssl, _socket, _client) = established(kind, &context(), &epoll);
    THROWS.store(true, Ordering::Relaxed);
    let shut_down = shut_down_or_throw();
    // SAFETY: a live SSL, which nobody uses any more.
    std::panic::catch_unwind(|| unsafe { shut_down(ssl) }).expect_err("thrown");
    assert_eq!(epoll.wait(0), None);
    let [server, client] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    server.connect(client.local_addr().expect("bound")).expect("a peer");
    server.send(b"datagram").expect("room");
    client.set_nonblocking(true).expect("our own socket");
    client.recv(&mut [0; 16]).expect("sent at once");
}

/// What a client hears when a server says goodbye, and after what the server does `then`.
pub(crate) fn goodbye(kind: *const sys::BIO_METHOD, context: &SslContext, then: &str) -> String {
    let epoll = Epoll::new();
    let (ssl, socket, mut stream) = established(kind, context, &epoll);
    let descriptor = socket.as_raw_fd();
    let mut socket = Some(socket);
    drain(&mut stream);
    if then.contains("unread") {
        stream.write_all(b"more").expect("room");
    }
    if then.contains("linger") {
        let option = libc::linger { l_onoff: 1, l_linger: 0 };
        let bytes = size_of_val(&option) as libc::socklen_t;
        let (level, option) = (libc::SOL_SOCKET, (&raw const option).cast());
        // SAFETY: the kernel reads the structure, of this size.
        let done = unsafe { libc::setsockopt(descriptor, level, libc::SO_LINGER, option, bytes) };
        assert_eq!(done, 0);
    }
    // SAFETY: a live SSL.
    assert_eq!(unsafe { sys::SSL_shutdown(ssl) }, 0);
    let is_held = !is_readable(stream.get_ref());
    match then {
        "waits" => _ = epoll.wait(0),
        // SAFETY: another thing that a turn may end with.
        "writes nothing more" => _ = unsafe { libc::poll(std::ptr::null_mut(), 0, 0) },
        _ => drop(socket.take()),
    }
    stream.get_ref().set_nonblocking(false).expect("our own socket");
    let told = match stream.ssl_read(&mut [0; 16]) {
        Err(error) if error.code() == openssl::ssl::ErrorCode::ZERO_RETURN => "close notify".into(),
        other => format!("{other:?}"),
    };
    // SAFETY: called once, at the end.
    unsafe { sys::SSL_free(ssl) };
    format!("{}, told: {told}", if is_held { "held" } else { "sent" })
}

/// A server's SSL over a BIO of this kind, its socket, and its client.
fn established(
    kind: *const sys::BIO_METHOD,
    context: &SslContext,
    epoll: &Epoll,
) -> (*mut sys::SSL, TcpStream, SslStream<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a listener");
    let (socket, _) = listener.accept().expect("a client");
    let descriptor = socket.as_raw_fd();
    socket.set_nonblocking(true).expect("our own socket");
    // As HAProxy has it: the kernel holds nothing by itself.
    socket.set_nodelay(true).expect("our own socket");
    epoll.add(descriptor, libc::EPOLLIN);
    let ssl = ssl_over(kind, context, descriptor);
    let stream = thread::scope(|scope| {
        let client = scope.spawn(|| {
            let context = SslContext::builder(SslMethod::tls()).expect("OpenSSL").build();
            let stream = Ssl::new(&context).expect("a connection").connect(client);
            stream.expect("a handshake")
        });
        // SAFETY: a live SSL.
        while unsafe { sys::SSL_do_handshake(ssl) } != 1 {
            // SAFETY: as above. HAProxy's are not told when they can go on, but to ask again.
            if unsafe { sys::SSL_get_error(ssl, -1) } == sys::SSL_ERROR_WANT_READ {
                epoll.wait(10_000).expect("the client goes on");
            }
        }
        client.join().expect("a client")
    });
    // The tickets of TLS 1.3, and whatever is held so far.
    assert_eq!(epoll.wait(0), None);
    (ssl, socket, stream)
}

/// Reads what there is.
fn drain(stream: &mut SslStream<TcpStream>) {
    stream.get_ref().set_nonblocking(true).expect("our own socket");
    let error = stream.ssl_read(&mut [0; 16]).expect_err("no data");
    assert_eq!(error.io_error().map(std::io::Error::kind), Some(ErrorKind::WouldBlock));
}

fn is_readable(socket: &TcpStream) -> bool {
    match socket.peek(&mut [0]) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

//! Sessions are encoded as libcrypto encodes them, and programs hear of those that they can use.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "sessions by libssl's C interface")]

use std::ffi::{CString, c_char, c_int, c_long, c_uchar, c_ulong, c_void};
use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::thread;

use foreign_types::ForeignTypeRef;
use openssl::ssl::{
    ClientHelloResponse, Ssl, SslContext, SslContextBuilder, SslMethod, SslOptions, SslVersion,
};
use openssl::x509::X509;
use openssl_sys as sys;
use widelane_testkit::random::Random;

use crate::ahead::kind_of_haproxy;
use crate::support::by_hand::{
    BIO_s_socket, Connection, accelerated, accelerated_and_native, context, file, rare_context_with,
};

const SEED: u64 = 72;

#[test]
fn sessions_are_encoded_as_by_libcrypto() {
    accelerated("sessions::scenario_encodings");
}

#[test]
fn certificates_stand_in_their_place_once() {
    let ([accelerated, native], _) = accelerated_and_native("sessions::scenario_places");
    assert_eq!(native, "in its place: true\nearlier: false\nlater: false\ntwice: false\n");
    assert_eq!(accelerated, native);
}

#[test]
fn one_with_a_certificate_does_not_decide_for_all() {
    accelerated("sessions::scenario_first");
}

#[test]
fn haproxy_stores_only_what_it_is_asked_for() {
    let ([accelerated, native], _) = accelerated_and_native("sessions::scenario_storing");
    let changed = accelerated.lines().zip(native.lines()).filter(|(ours, theirs)| ours != theirs);
    let changed: Vec<_> = changed.collect();
    let expected = ("haproxy, TLS 1.3, tickets: 0", "haproxy, TLS 1.3, tickets: 2");
    assert_eq!(changed, [expected], "{native}");
    assert_eq!(native.lines().count(), accelerated.lines().count());
}

type NewSession = extern "C" fn(*mut sys::SSL, *mut sys::SSL_SESSION) -> c_int;

unsafe extern "C" {
    fn SSL_CTX_sess_get_new_cb(context: *mut sys::SSL_CTX) -> Option<NewSession>;
    fn SSL_SESSION_new() -> *mut sys::SSL_SESSION;
    fn SSL_SESSION_set1_id(session: *mut sys::SSL_SESSION, id: *const c_uchar, bytes: u32)
    -> c_int;
    fn SSL_SESSION_set1_id_context(
        session: *mut sys::SSL_SESSION,
        context: *const c_uchar,
        bytes: u32,
    ) -> c_int;
    fn SSL_SESSION_set1_master_key(
        session: *mut sys::SSL_SESSION,
        key: *const c_uchar,
        bytes: usize,
    ) -> c_int;
    fn SSL_SESSION_set1_hostname(session: *mut sys::SSL_SESSION, name: *const c_char) -> c_int;
    fn SSL_SESSION_set1_alpn_selected(
        session: *mut sys::SSL_SESSION,
        name: *const c_uchar,
        bytes: usize,
    ) -> c_int;
    fn SSL_SESSION_set1_ticket_appdata(
        session: *mut sys::SSL_SESSION,
        data: *const c_void,
        bytes: usize,
    ) -> c_int;
    fn SSL_SESSION_set_cipher(
        session: *mut sys::SSL_SESSION,
        cipher: *const sys::SSL_CIPHER,
    ) -> c_int;
    fn SSL_SESSION_set_protocol_version(session: *mut sys::SSL_SESSION, version: c_int) -> c_int;
    fn SSL_SESSION_set_time(session: *mut sys::SSL_SESSION, time: c_long) -> c_long;
    fn SSL_SESSION_set_timeout(session: *mut sys::SSL_SESSION, timeout: c_long) -> c_long;
    fn SSL_CIPHER_find(ssl: *mut sys::SSL, number: *const c_uchar) -> *const sys::SSL_CIPHER;
}

/// The encoding of a session, as the runtime makes it: into memory of the caller's.
fn encoding(session: *const sys::SSL_SESSION) -> Vec<u8> {
    // SAFETY: a live session; asks for the length.
    let bytes = unsafe { sys::i2d_SSL_SESSION(session, ptr::null_mut()) };
    let mut encoding = vec![0xA5; usize::try_from(bytes).expect("a length") + 8];
    let mut end = encoding.as_mut_ptr();
    // SAFETY: room for the whole encoding.
    assert_eq!(unsafe { sys::i2d_SSL_SESSION(session, &mut end) }, bytes);
    assert_eq!(end, encoding[bytes as usize..].as_mut_ptr());
    assert_eq!(encoding.split_off(bytes as usize), [0xA5; 8], "nothing behind it");
    encoding
}

/// The same as libcrypto makes it, into memory that it allocates: no door is in front of that.
fn expected(session: *const sys::SSL_SESSION) -> Vec<u8> {
    let mut start = ptr::null_mut();
    // SAFETY: a live session; libcrypto allocates.
    let bytes = unsafe { sys::i2d_SSL_SESSION(session, &mut start) };
    let bytes = usize::try_from(bytes).expect("a length");
    // SAFETY: what libcrypto has just written.
    let expected = unsafe { std::slice::from_raw_parts(start, bytes) }.to_vec();
    // SAFETY: allocated by libcrypto, and nobody else's.
    unsafe { sys::CRYPTO_free(start.cast(), c"".as_ptr(), 0) };
    expected
}

fn assert_same(session: *const sys::SSL_SESSION, what: &str) -> Vec<u8> {
    let encoding = encoding(session);
    assert_eq!(encoding, expected(session), "{what}");
    let mut start = encoding.as_ptr();
    let bytes = encoding.len() as c_long;
    // SAFETY: the encoding, of this length.
    let decoded = unsafe { sys::d2i_SSL_SESSION(ptr::null_mut(), &mut start, bytes) };
    assert!(!decoded.is_null(), "{what}");
    // Not always the same again: no time becomes the time now.
    assert_eq!(self::encoding(decoded), expected(decoded), "{what}, decoded");
    // SAFETY: made above, and nobody else's.
    unsafe { sys::SSL_SESSION_free(decoded) };
    encoding
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_encodings() {
    let context = context();
    let ssl = Ssl::new(&context).expect("a connection");
    let mut random = Random::new(SEED);
    for index in 0..2_000 {
        let session = session(ssl.as_ptr(), &mut random);
        let encoding = assert_same(session, &format!("session {index}, seed {SEED}"));
        if index % 100 == 0 {
            with_certificate(&encoding);
        }
        // SAFETY: made above, and nobody else's.
        unsafe { sys::SSL_SESSION_free(session) };
    }
    // Not a session: libcrypto's own, as ever.
    let certificate = std::fs::read(file("usual.pem")).expect("a file");
    let certificate = X509::from_pem(&certificate).expect("a certificate");
    let der = certificate.to_der().expect("an encoding");
    assert_eq!(X509::from_der(&der).expect("the same").to_der().expect("an encoding"), der);
}

/// A session with fields by chance, each of them now and then absent, short, long or extreme.
fn session(ssl: *mut sys::SSL, random: &mut Random) -> *mut sys::SSL_SESSION {
    // SAFETY: makes a session.
    let session = unsafe { SSL_SESSION_new() };
    let mut bytes = |most: usize| {
        let count = (random.next_u64() as usize) % (most + 1);
        (0..count).map(|_| random.next_u64() as u8 | 1).collect::<Vec<_>>()
    };
    let (id, of, key) = (bytes(32), bytes(32), bytes(48));
    let (name, alpn, data) = (bytes(300), bytes(40), bytes(700));
    let numbers = [0, 1, 127, 128, 255, 256, 7_200, i64::from(u32::MAX), 1 << 40, -1, -129];
    let mut number = || numbers[(random.next_u64() as usize) % numbers.len()];
    let (time, timeout, early) = (number(), number(), number() as u32);
    let version = if early % 2 == 0 { sys::TLS1_3_VERSION } else { sys::TLS1_2_VERSION };
    let cipher: [u8; 2] = if early % 2 == 0 { [0x13, 0x02] } else { [0xC0, 0x2F] };
    // SAFETY: a live connection, and two bytes.
    let cipher = unsafe { SSL_CIPHER_find(ssl, cipher.as_ptr()) };
    assert!(!cipher.is_null());
    let name = CString::new(name).expect("no zeroes");
    macro_rules! set {
        ($($set:path, $($argument:expr),+;)*) => {
            $(
                // SAFETY: a live session, of which libssl copies all that it is given.
                assert_eq!(unsafe { $set(session, $($argument),+) }, 1);
            )*
        };
    }
    set! {
        SSL_SESSION_set_cipher, cipher;
        SSL_SESSION_set_protocol_version, version;
        SSL_SESSION_set1_id, id.as_ptr(), id.len() as u32;
        SSL_SESSION_set1_id_context, of.as_ptr(), of.len() as u32;
        SSL_SESSION_set1_master_key, key.as_ptr(), key.len();
        sys::SSL_SESSION_set_max_early_data, early;
    }
    if time % 2 == 0 {
        // SAFETY: as above.
        assert_eq!(unsafe { SSL_SESSION_set1_hostname(session, name.as_ptr()) }, 1);
    }
    if timeout % 2 == 0 {
        // SAFETY: as above.
        unsafe { SSL_SESSION_set1_alpn_selected(session, alpn.as_ptr(), alpn.len()) };
        // SAFETY: as above.
        unsafe { SSL_SESSION_set1_ticket_appdata(session, data.as_ptr().cast(), data.len()) };
    }
    // SAFETY: as above.
    unsafe { SSL_SESSION_set_time(session, time) };
    // SAFETY: as above.
    unsafe { SSL_SESSION_set_timeout(session, timeout) };
    session
}

/// The same session with the certificate of its peer.
fn with_certificate(encoding: &[u8]) {
    let changed = with_certificates_before(encoding, &[ID_CONTEXT]);
    let session = decoded(&changed);
    assert!(!session.is_null());
    let again = assert_same(session, "with a certificate");
    assert!(again.len() > encoding.len());
    // SAFETY: made above, and nobody else's.
    unsafe { sys::SSL_SESSION_free(session) };
}

/// The tags of the time, of the field behind the certificate, and of the one behind that.
const TIME: u8 = 0xA1;
const ID_CONTEXT: u8 = 0xA4;
const VERIFY_RESULT: u8 = 0xA5;

/// A session's encoding with a certificate of its peer before the field with each of these tags.
fn with_certificates_before(encoding: &[u8], tags: &[u8]) -> Vec<u8> {
    let certificate = std::fs::read(file("usual.pem")).expect("a file");
    let certificate = X509::from_pem(&certificate).expect("a certificate").to_der().expect("DER");
    let mut content = Vec::new();
    let mut count = 0;
    let field = |tag: u8, content: &[u8]| {
        let bytes = u16::try_from(content.len()).expect("short");
        [&[tag, 0x82], &bytes.to_be_bytes()[..], content].concat()
    };
    let (_, mut rest) = split(encoding);
    while !rest.is_empty() {
        let whole = rest;
        (rest, _) = split(rest);
        for _ in tags.iter().filter(|tag| **tag == whole[0]) {
            content.extend(field(0xA3, &certificate));
            count += 1;
        }
        content.extend(&whole[..whole.len() - rest.len()]);
    }
    assert_eq!(count, tags.len(), "{encoding:02x?}");
    field(0x30, &content)
}

/// A session with this encoding, null if it is not one.
fn decoded(encoding: &[u8]) -> *mut sys::SSL_SESSION {
    let (mut start, bytes) = (encoding.as_ptr(), encoding.len() as c_long);
    // SAFETY: an encoding of this length.
    unsafe { sys::d2i_SSL_SESSION(ptr::null_mut(), &mut start, bytes) }
}

/// Decodes sessions within libssl, where the runtime does that.
#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario_places() {
    let context = context();
    let ssl = Ssl::new(&context).expect("a connection");
    let session = session(ssl.as_ptr(), &mut Random::new(SEED));
    // SAFETY: a live session.
    unsafe { SSL_SESSION_set_time(session, 7) };
    let encoding = encoding(session);
    // SAFETY: made above, and nobody else's.
    unsafe { sys::SSL_SESSION_free(session) };
    let places: [(&str, &[u8]); 4] = [
        ("in its place", &[ID_CONTEXT]),
        ("earlier", &[TIME]),
        ("later", &[VERIFY_RESULT]),
        ("twice", &[ID_CONTEXT; 2]),
    ];
    let encodings = places.map(|(what, tags)| (what, with_certificates_before(&encoding, tags)));
    let mut nowhere = ptr::null();
    // SAFETY: no encoding.
    assert!(unsafe { sys::d2i_SSL_SESSION(ptr::null_mut(), &mut nowhere, 0) }.is_null());
    let within = rare_context_with(move || {
        let mut answers = String::new();
        for (what, encoding) in &encodings {
            let session = decoded(encoding);
            let _ = writeln!(answers, "{what}: {}", !session.is_null());
            // SAFETY: null, or nobody else's.
            unsafe { sys::SSL_SESSION_free(session) };
        }
        std::fs::write(file("answers"), answers).expect("a short write");
        ClientHelloResponse::SUCCESS
    });
    let connection = Connection::new(&within, false);
    connection.handshake();
    connection.free();
}

/// What is behind the first value of an encoding, and what is in that value.
fn split(encoding: &[u8]) -> (&[u8], &[u8]) {
    let (header, bytes) = match encoding[1] {
        short @ 0..=0x7F => (2, usize::from(short)),
        0x81 => (3, usize::from(encoding[2])),
        _ => (4, usize::from(u16::from_be_bytes([encoding[2], encoding[3]]))),
    };
    let (value, behind) = encoding.split_at(header + bytes);
    (behind, &value[header..])
}

/// `ASN1_ITEM` and `ASN1_TEMPLATE`, as the public header has them.
#[repr(C)]
struct Item {
    kind: c_char,
    universal: c_long,
    templates: *const Template,
    count: c_long,
    functions: *const c_void,
    size: c_long,
    name: *const c_char,
}

#[repr(C)]
struct Template {
    flags: c_ulong,
    tag: c_long,
    offset: c_ulong,
    name: *const c_char,
    item: extern "C" fn() -> *const c_void,
}

unsafe extern "C" {
    fn ASN1_INTEGER_new() -> *mut sys::ASN1_INTEGER;
    fn ASN1_INTEGER_it() -> *const c_void;
    fn INT32_it() -> *const c_void;
    fn ASN1_item_i2d(value: *const c_void, output: *mut *mut c_uchar, item: *const c_void)
    -> c_int;
}

/// What is taken for a session: a number, and something that seldom is there.
#[repr(C)]
struct Session {
    seldom: *mut sys::ASN1_INTEGER,
    number: i32,
}

impl Session {
    fn encoding(&self, item: *const c_void) -> Vec<u8> {
        let mut encoding = vec![0; 16];
        let (value, mut end) = (ptr::from_ref(self).cast(), encoding.as_mut_ptr());
        // SAFETY: a structure as the item says, and room for its encoding.
        let bytes = unsafe { ASN1_item_i2d(value, &mut end, item) };
        encoding.truncate(usize::try_from(bytes).expect("a length"));
        encoding
    }
}

/// How often anybody has asked for the type of the number.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// The item to encode by in a child, while its parent is asked for the type of the number.
static ENCODED_IN_CHILD: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

extern "C" fn seldom() -> *const c_void {
    // SAFETY: no precondition.
    unsafe { ASN1_INTEGER_it() }
}

extern "C" fn number() -> *const c_void {
    ASKED.fetch_add(1, Ordering::Relaxed);
    let item = ENCODED_IN_CHILD.swap(ptr::null_mut(), Ordering::Relaxed);
    if !item.is_null() {
        // SAFETY: the child encodes, which allocates at most, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child if it hangs.
            unsafe { libc::alarm(30) };
            let is_right = PLAIN.encoding(item) == ENCODING;
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = 0;
        // SAFETY: waits for our child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child has encoded");
    }
    // SAFETY: no precondition.
    unsafe { INT32_it() }
}

const PLAIN: Session = Session { seldom: ptr::null_mut(), number: 7 };
const ENCODING: [u8; 5] = [0x30, 3, 2, 1, 7];

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_first() {
    // Makes this process one whose sessions are encoded by the runtime.
    drop(context());
    const OPTIONAL: c_ulong = 0x1;
    const EMBEDDED: c_ulong = 0x1000;
    let template = |flags, offset: usize, item| {
        let (offset, name) = (offset as c_ulong, c"field".as_ptr());
        Template { flags, tag: 0, offset, name, item }
    };
    let templates = [
        template(OPTIONAL, std::mem::offset_of!(Session, seldom), seldom as _),
        template(EMBEDDED, std::mem::offset_of!(Session, number), number),
    ];
    let item = Item {
        kind: 1, // ASN1_ITYPE_SEQUENCE
        universal: 16,
        templates: templates.as_ptr(),
        count: 2,
        functions: ptr::null(),
        size: size_of::<Session>() as c_long,
        name: c"SSL_SESSION_ASN1".as_ptr(),
    };
    let item = ptr::from_ref(&item).cast::<c_void>();
    // SAFETY: makes a number.
    let seldom = unsafe { ASN1_INTEGER_new() };
    // SAFETY: a live number.
    assert_eq!(unsafe { sys::ASN1_INTEGER_set(seldom, 9) }, 1);
    let first = Session { seldom, number: 7 };
    ENCODED_IN_CHILD.store(item.cast_mut(), Ordering::Relaxed);
    assert_eq!(first.encoding(item), [0x30, 6, 2, 1, 9, 2, 1, 7]);
    assert_eq!(PLAIN.encoding(item), ENCODING);
    let asked = ASKED.load(Ordering::Relaxed);
    assert_eq!(PLAIN.encoding(item), ENCODING);
    assert_eq!(ASKED.load(Ordering::Relaxed), asked, "libcrypto goes by the templates each time");
    assert_eq!(first.encoding(item), [0x30, 6, 2, 1, 9, 2, 1, 7]);
    assert!(ASKED.load(Ordering::Relaxed) > asked);
    // SAFETY: made above, and nobody else's.
    unsafe { sys::ASN1_INTEGER_free(seldom) };
}

static STORED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn store(_ssl: *mut sys::SSL, _session: *mut sys::SSL_SESSION) -> c_int {
    STORED.fetch_add(1, Ordering::Relaxed);
    0
}

#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario_storing() {
    // SAFETY: libcrypto's constant table.
    let socket = unsafe { BIO_s_socket() };
    let mut answers = String::new();
    for (program, kind) in [("haproxy", kind_of_haproxy().cast_const()), ("another", socket)] {
        for (version, name) in [(SslVersion::TLS1_2, "1.2"), (SslVersion::TLS1_3, "1.3")] {
            for (way, options) in
                [("tickets", SslOptions::empty()), ("none", SslOptions::NO_TICKET)]
            {
                let context = storing_context(|context| {
                    context.set_options(options);
                });
                let stored = stored(kind, &context, version);
                let _ = writeln!(answers, "{program}, TLS {name}, {way}: {stored}");
            }
        }
        // Early data that libssl itself protects from replay are looked up by a session's number.
        let context = storing_context(|context| {
            context.set_max_early_data(1024).expect("a length");
        });
        let stored = stored(kind, &context, SslVersion::TLS1_3);
        let _ = writeln!(answers, "{program}, TLS 1.3, early data: {stored}");
    }
    std::fs::write(file("answers"), answers).expect("a short write");
}

fn storing_context(change: impl Fn(&mut SslContextBuilder)) -> SslContext {
    let mut context = SslContext::builder(SslMethod::tls()).expect("OpenSSL");
    context.set_private_key_file(file("usual.key"), openssl::ssl::SslFiletype::PEM).expect("a key");
    context.set_certificate_chain_file(file("usual.pem")).expect("a certificate");
    change(&mut context);
    let context = context.build();
    // SAFETY: a live context.
    unsafe { sys::SSL_CTX_sess_set_new_cb(context.as_ptr(), Some(store)) };
    // SAFETY: as above.
    let registered = unsafe { SSL_CTX_sess_get_new_cb(context.as_ptr()) };
    assert!(registered.is_some_and(|it| ptr::fn_addr_eq(it, store as NewSession)));
    context
}

/// How many sessions a program is told to store in a handshake.
fn stored(kind: *const sys::BIO_METHOD, context: &SslContext, version: SslVersion) -> usize {
    let before = STORED.load(Ordering::Relaxed);
    let connection = Connection::silent(kind, context, true);
    let client = connection.client.try_clone().expect("a second handle");
    let client = thread::spawn(move || client_of(version, client));
    assert_eq!(connection.handshake(), 1);
    connection.free();
    drop(connection);
    client.join().expect("no failure");
    STORED.load(Ordering::Relaxed) - before
}

/// A client that handshakes, and reads until the server hangs up.
fn client_of(version: SslVersion, socket: UnixStream) {
    let mut context = SslContext::builder(SslMethod::tls()).expect("OpenSSL");
    context.set_max_proto_version(Some(version)).expect("a version");
    let ssl = Ssl::new(&context.build()).expect("a connection");
    let mut stream = ssl.connect(socket).expect("a handshake");
    let _ = stream.read(&mut [0; 16]);
}

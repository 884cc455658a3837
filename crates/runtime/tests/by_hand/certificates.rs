//! Certificates that clients show are decoded once, and nothing that a program sees is changed by
//! it but where they are in memory.
#![allow(unsafe_code, reason = "certificates by libssl's C interface")]

use std::ffi::{c_int, c_void};
use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::{Arc, Mutex};
use std::thread;

use foreign_types::ForeignType;
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{Ssl, SslContext, SslMethod, SslSession, SslSessionCacheMode, SslVersion};
use openssl::x509::{X509, X509NameBuilder};
use openssl_sys as sys;

use crate::support::by_hand::{
    BIO_s_socket, Connection, accelerated, accelerated_and_native, file,
};

/// More than a thread keeps.
const MANY: u32 = 80;

#[test]
fn certificates_are_decoded_once() {
    let ([accelerated, native], _) = accelerated_and_native("certificates::scenario");
    let expected = native.replace("same object: false", "same object: true");
    assert!(native.contains("same object: false"), "{native}");
    assert_eq!(accelerated, expected);
}

#[test]
fn data_of_another_thread_are_noticed() {
    accelerated("certificates::scenario_another_thread");
}

#[test]
fn so_are_data_in_one_that_is_not_kept_any_more() {
    accelerated("certificates::scenario_replaced");
}

unsafe extern "C" {
    fn SSL_get1_peer_certificate(ssl: *const sys::SSL) -> *mut sys::X509;
    fn CRYPTO_get_ex_new_index(
        class: c_int,
        number: i64,
        pointer: *mut c_void,
        new: *const c_void,
        duplicate: *const c_void,
        free: *const c_void,
    ) -> c_int;
    fn X509_set_ex_data(certificate: *mut sys::X509, index: c_int, data: *mut c_void) -> c_int;
    fn X509_get_ex_data(certificate: *mut sys::X509, index: c_int) -> *mut c_void;
}

const CRYPTO_EX_INDEX_X509: c_int = 3;

/// A client, by its certificate.
struct Identity {
    key: PKey<Private>,
    certificate: X509,
}

impl Identity {
    fn new(number: u32) -> Self {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("P-256");
        let key = EcKey::generate(&group).and_then(PKey::from_ec_key).expect("a key");
        let mut name = X509NameBuilder::new().expect("memory");
        name.append_entry_by_text("CN", &format!("client {number}")).expect("a name");
        let name = name.build();
        let mut certificate = X509::builder().expect("memory");
        certificate.set_version(2).expect("version 3");
        let serial = BigNum::from_u32(number + 1).and_then(|it| it.to_asn1_integer());
        certificate.set_serial_number(&serial.expect("a number")).expect("a number");
        certificate.set_subject_name(&name).expect("a name");
        certificate.set_issuer_name(&name).expect("a name");
        certificate.set_pubkey(&key).expect("a key");
        let (begin, end) = (Asn1Time::days_from_now(0), Asn1Time::days_from_now(2));
        certificate.set_not_before(&begin.expect("a time")).expect("a time");
        certificate.set_not_after(&end.expect("a time")).expect("a time");
        certificate.sign(&key, MessageDigest::sha256()).expect("a signature");
        Identity { key, certificate: certificate.build() }
    }
}

/// A handshake as the server saw it.
struct Seen {
    /// The client's certificate, which stays where it is.
    certificate: X509,
    is_resumed: bool,
    /// What the client can resume.
    session: Option<SslSession>,
}

fn server() -> SslContext {
    let mut context = SslContext::builder(SslMethod::tls()).expect("OpenSSL");
    context.set_private_key_file(file("quick.key"), openssl::ssl::SslFiletype::PEM).expect("a key");
    context.set_certificate_chain_file(file("quick.pem")).expect("a certificate");
    context.set_session_id_context(b"certificates").expect("short");
    let context = context.build();
    let mode = sys::SSL_VERIFY_PEER | sys::SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    // SAFETY: a live context.
    unsafe { sys::SSL_CTX_set_verify(context.as_ptr(), mode, Some(accept)) };
    context
}

/// Accepts whatever certificate; that its key can be used is seen by the client's signature.
extern "C" fn accept(_is_valid: c_int, _chain: *mut sys::X509_STORE_CTX) -> c_int {
    1
}

fn handshake(
    server: &SslContext,
    identity: &Identity,
    version: SslVersion,
    session: Option<SslSession>,
) -> Seen {
    // SAFETY: libcrypto's constant table.
    let connection = Connection::silent(unsafe { BIO_s_socket() }, server, true);
    let socket = connection.client.try_clone().expect("a second handle");
    let (key, certificate) = (identity.key.clone(), identity.certificate.clone());
    let client = thread::spawn(move || client(socket, &key, &certificate, version, session));
    assert_eq!(connection.handshake(), 1);
    // SAFETY: a live connection.
    let certificate = unsafe { SSL_get1_peer_certificate(connection.ssl) };
    assert!(!certificate.is_null());
    // SAFETY: a reference of our own.
    let certificate = unsafe { X509::from_ptr(certificate) };
    assert_eq!(certificate.to_der().expect("DER"), identity.certificate.to_der().expect("DER"));
    // SAFETY: a live connection.
    let is_resumed = unsafe { sys::SSL_session_reused(connection.ssl) } == 1;
    // SAFETY: as above.
    unsafe { sys::SSL_shutdown(connection.ssl) };
    let session = client.join().expect("a client");
    connection.free();
    Seen { certificate, is_resumed, session }
}

/// A client that reads until the server says goodbye.
fn client(
    socket: UnixStream,
    key: &PKey<Private>,
    certificate: &X509,
    version: SslVersion,
    session: Option<SslSession>,
) -> Option<SslSession> {
    let mut context = SslContext::builder(SslMethod::tls()).expect("OpenSSL");
    context.set_private_key(key).expect("a key");
    context.set_certificate(certificate).expect("a certificate");
    context.set_max_proto_version(Some(version)).expect("a version");
    context.set_session_cache_mode(SslSessionCacheMode::CLIENT);
    let last = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&last);
    context.set_new_session_callback(move |_, session| {
        *keep.lock().expect("nobody panics") = Some(session);
    });
    let mut ssl = Ssl::new(&context.build()).expect("a connection");
    if let Some(session) = session {
        // SAFETY: libssl checks that the session may be resumed here.
        unsafe { ssl.set_session(&session) }.expect("a session");
    }
    let mut stream = ssl.connect(socket).expect("a handshake");
    let _ = stream.read(&mut [0; 16]);
    last.lock().expect("nobody panics").take()
}

fn is_same(one: &X509, other: &X509) -> bool {
    ptr::eq(one.as_ptr(), other.as_ptr())
}

#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario() {
    let (server, mut answers) = (server(), String::new());
    let identities: Vec<Identity> = (0..MANY).map(Identity::new).collect();
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let again = |session| handshake(&server, &identities[0], version, session);
        let first = again(None);
        let another = handshake(&server, &identities[1], version, None);
        let second = again(None);
        assert!(!is_same(&first.certificate, &another.certificate));
        let same = is_same(&first.certificate, &second.certificate);
        let _ = writeln!(answers, "shown again: same object: {same}");
        let resumed = again(second.session);
        let same = is_same(&resumed.certificate, &second.certificate);
        let _ = writeln!(answers, "resumed: {}, same object: {same}", resumed.is_resumed);
        let once_more = again(resumed.session);
        let _ = writeln!(answers, "resumed once more: {}", once_more.is_resumed);
    }
    // More than are kept: each connection has its own client's, whichever are.
    for _ in 0..2 {
        for identity in &identities {
            let seen = handshake(&server, identity, SslVersion::TLS1_3, None);
            assert!(!seen.is_resumed);
        }
    }
    // Data of the program's stay with the connection that they were stored for.
    let again = || handshake(&server, &identities[0], SslVersion::TLS1_3, None).certificate;
    let (index, marked) = (new_index(), again());
    store(index, &marked);
    assert_own_objects(index, &marked, again);
    std::fs::write(file("answers"), answers).expect("a short write");
}

/// A server whose connections are done by one thread, and their clients' certificates by others.
#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_another_thread() {
    let (server, identity, index) = (server(), Identity::new(0), new_index());
    let again = || handshake(&server, &identity, SslVersion::TLS1_3, None).certificate;
    let marked = again();
    assert!(is_same(&marked, &again()), "certificates are kept");
    thread::scope(|scope| {
        scope.spawn(|| store(index, &marked));
    });
    assert_own_objects(index, &marked, again);
}

/// A client that comes back when others were there, more than are kept.
#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_replaced() {
    let (server, index) = (server(), new_index());
    let shown = |identity| handshake(&server, identity, SslVersion::TLS1_3, None).certificate;
    let identities: Vec<Identity> = (0..MANY).map(Identity::new).collect();
    let all: Vec<X509> = identities.iter().map(&shown).collect();
    let again: Vec<X509> = identities.iter().map(&shown).collect();
    let is_replaced = |place: &usize| !is_same(&all[*place], &again[*place]);
    let place = (0..all.len()).find(is_replaced).expect("more than are kept");
    store(index, &all[place]);
    assert_own_objects(index, &all[place], || shown(&identities[place]));
}

/// An index without functions.
fn new_index() -> c_int {
    let none = ptr::null();
    // SAFETY: no function is called for it.
    unsafe { CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_X509, 0, ptr::null_mut(), none, none, none) }
}

/// Stores data of the program's in a certificate.
fn store(index: c_int, certificate: &X509) {
    let data = ptr::from_ref(certificate).cast_mut().cast();
    // SAFETY: a live certificate, and an address that is not used.
    assert_eq!(unsafe { X509_set_ex_data(certificate.as_ptr(), index, data) }, 1);
}

/// Each connection has a certificate of its own, without data, since some are in `marked`.
fn assert_own_objects(index: c_int, marked: &X509, again: impl Fn() -> X509) {
    let later = [again(), again(), again()];
    for (place, certificate) in later.iter().enumerate() {
        let others = later[..place].iter().chain([marked]);
        assert!(others.into_iter().all(|other| !is_same(certificate, other)));
        // SAFETY: a live certificate.
        assert!(unsafe { X509_get_ex_data(certificate.as_ptr(), index) }.is_null());
    }
}

//! What a device can do, asked for as programs do.

use std::fmt;
use std::os::unix::net::UnixStream;
use std::thread;

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::derive::Deriver;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, PKeyRef, Private, Public};
use openssl::rsa::{Padding, Rsa};
use openssl::sign::{Signer, Verifier};
use openssl::ssl::{Ssl, SslContext, SslMethod, SslVersion};
use openssl::x509::{X509, X509Name};
use widelane_testkit::rsa::test_keys;

/// One kind of job, with its keys.
pub enum Job {
    /// A signature.
    Sign(PKey<Private>),
    /// A shared secret, made on both sides.
    Exchange([PKey<Private>; 2]),
    /// A handshake of TLS 1.2 whose premaster secret the server decrypts. Client and server share
    /// the context, which takes longer to set up than many handshakes do.
    Decrypt(SslContext),
}

impl Job {
    /// All kinds.
    pub fn all() -> Vec<Job> {
        let curves = [Nid::X9_62_PRIME256V1, Nid::SECP384R1];
        let mut jobs: Vec<Job> = [2048, 3072, 4096].map(rsa).map(Job::Sign).into();
        jobs.extend(curves.map(|curve| Job::Sign(ec(curve))));
        jobs.extend(curves.map(|curve| Job::Exchange([ec(curve), ec(curve)])));
        jobs.push(Job::Exchange([0, 1].map(|_| PKey::generate_x25519().unwrap())));
        jobs.push(Job::Decrypt(decrypting_context(&rsa(2048))));
        jobs
    }

    /// Those for which the stand-in does not need so long that several at a time are late.
    pub fn quick() -> Vec<Job> {
        let is_quick = |job: &Job| match job {
            Job::Sign(key) => key.id() != Id::RSA || key.bits() == 2048,
            Job::Exchange(_) | Job::Decrypt(..) => true,
        };
        Job::all().into_iter().filter(is_quick).collect()
    }

    /// Operations with private keys that one of these needs.
    pub fn operations(&self) -> u64 {
        match self {
            Job::Sign(_) | Job::Decrypt(..) => 1,
            Job::Exchange(_) => 2,
        }
    }

    /// Does so many, and demands that each result is right.
    pub fn run(&self, times: usize) {
        match self {
            Job::Sign(key) => sign(key, times),
            Job::Exchange([ours, theirs]) => (0..times).for_each(|_| exchange(ours, theirs)),
            Job::Decrypt(context) => (0..times).for_each(|_| decrypt(context)),
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, key) = match self {
            Job::Sign(key) => ("sign", key.as_ref()),
            Job::Exchange([key, _]) => ("exchange", key.as_ref()),
            Job::Decrypt(context) => ("decrypt", context.private_key().unwrap()),
        };
        write!(formatter, "{name} by {:?} of {} bits", key.id(), key.bits())
    }
}

/// A key of RSA, which would take long to make.
pub fn rsa(bits: usize) -> PKey<Private> {
    let key = &test_keys(bits)[0];
    let [n, e, d, p, q, dp, dq, qinv] =
        [&key.n, &key.e, &key.d, &key.p, &key.q, &key.dp, &key.dq, &key.qinv]
            .map(|bytes| BigNum::from_slice(bytes).unwrap());
    let key = Rsa::from_private_components(n, e, d, p, q, dp, dq, qinv).unwrap();
    PKey::from_rsa(key).unwrap()
}

/// One that is too short to be ours.
pub fn short_rsa() -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(1024).unwrap()).unwrap()
}

fn ec(curve: Nid) -> PKey<Private> {
    let group = EcGroup::from_curve_name(curve).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn certificate(key: &PKeyRef<Private>) -> X509 {
    let mut name = X509Name::builder().unwrap();
    name.append_entry_by_text("CN", "localhost").unwrap();
    let name = name.build();
    let mut certificate = X509::builder().unwrap();
    certificate.set_subject_name(&name).unwrap();
    certificate.set_issuer_name(&name).unwrap();
    certificate.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    certificate.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    certificate.set_pubkey(key).unwrap();
    // By another key: the client does not look, and this one's operations are counted.
    certificate.sign(&short_rsa(), MessageDigest::sha256()).unwrap();
    certificate.build()
}

/// Makes signatures and verifies each.
pub fn sign(key: &PKey<Private>, signatures: usize) {
    for number in 0..signatures {
        let message = number.to_le_bytes();
        let padding = [Padding::PKCS1, Padding::PKCS1_PSS][number % 2];
        let is_rsa = key.id() == Id::RSA;
        let mut signer = Signer::new(MessageDigest::sha256(), key).unwrap();
        if is_rsa {
            signer.set_rsa_padding(padding).unwrap();
        }
        let signature = signer.sign_oneshot_to_vec(&message).unwrap();
        let mut verifier = Verifier::new(MessageDigest::sha256(), key).unwrap();
        if is_rsa {
            verifier.set_rsa_padding(padding).unwrap();
        }
        assert!(verifier.verify_oneshot(&signature, &message).unwrap());
    }
}

/// Makes a shared secret on both sides.
fn exchange(ours: &PKey<Private>, theirs: &PKey<Private>) {
    let derive = |private: &PKey<Private>, peer: &PKey<Private>| {
        let peer: PKey<Public> =
            PKey::public_key_from_der(&peer.public_key_to_der().unwrap()).unwrap();
        let mut deriver = Deriver::new(private).unwrap();
        deriver.set_peer(&peer).unwrap();
        deriver.derive_to_vec().unwrap()
    };
    assert_eq!(derive(ours, theirs), derive(theirs, ours));
}

fn decrypting_context(key: &PKeyRef<Private>) -> SslContext {
    let mut context = SslContext::builder(SslMethod::tls()).unwrap();
    context.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
    context.set_cipher_list("AES128-GCM-SHA256").unwrap();
    context.set_private_key(key).unwrap();
    context.set_certificate(&certificate(key)).unwrap();
    context.build()
}

/// Has a client send a premaster secret.
fn decrypt(context: &SslContext) {
    let (client, server) = UnixStream::pair().unwrap();
    let [connecting, accepting] = [0, 1].map(|_| Ssl::new(context).unwrap());
    thread::scope(|scope| {
        scope.spawn(|| connecting.connect(client).unwrap());
        accepting.accept(server).unwrap();
    });
}

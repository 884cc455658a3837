//! Causes of CPU time, found from call stacks.
//!
//! A sample belongs to the first cause in the list that any function of its stack matches. So the
//! list goes from the most specific, such as an allocation, to its callers.

use std::collections::BTreeMap;

/// What CPU time is spent on, in microseconds per handshake.
pub struct Costs {
    by_cause: BTreeMap<&'static str, f64>,
}

impl Costs {
    /// That of one cause.
    pub fn of(&self, cause: &str) -> f64 {
        self.by_cause.get(cause).copied().unwrap_or(0.0)
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.by_cause.values().sum()
    }

    /// Those of all causes.
    pub fn by_cause(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.by_cause.iter().map(|(cause, us)| (*cause, *us))
    }
}

/// A function in a stack, and the file that it is in.
struct Frame<'a> {
    function: &'a str,
    file: &'a str,
}

/// Finds the causes in what `perf script --fields=ip,sym,dso` prints; a handshake takes `us`.
pub fn read(stacks: &str, us: f64) -> Costs {
    let mut counts: BTreeMap<&'static str, u32> = BTreeMap::new();
    for stack in stacks.split("\n\n") {
        let frames: Vec<Frame<'_>> = stack.lines().filter_map(frame).collect();
        if !frames.is_empty() {
            *counts.entry(cause(&frames)).or_default() += 1;
        }
    }
    let samples: u32 = counts.values().sum();
    let share = |count| us * f64::from(count) / f64::from(samples);
    Costs { by_cause: counts.into_iter().map(|(cause, count)| (cause, share(count))).collect() }
}

/// Reads `ffffffff81234567 function (file)`.
fn frame(line: &str) -> Option<Frame<'_>> {
    let (_, rest) = line.trim().split_once(' ')?;
    let (function, file) = rest.rsplit_once(" (")?;
    let file = file.trim_end_matches(')');
    Some(Frame { function, file: file.rsplit('/').next().unwrap_or(file) })
}

fn cause(stack: &[Frame<'_>]) -> &'static str {
    let is_kernel = stack[0].file.starts_with("[kernel");
    let tells = |words: &[&str]| {
        let has_word = |frame: &Frame<'_>| words.iter().any(|word| frame.function.contains(word));
        stack.iter().any(has_word)
    };
    let causes = if is_kernel { KERNEL } else { USER };
    if let Some((cause, _)) = causes.iter().find(|(_, words)| tells(words)) {
        return cause;
    }
    if is_kernel {
        return "kernel: other";
    }
    let is_in = |name: &str| stack.iter().any(|frame| frame.file.starts_with(name));
    FILES.iter().find(|(name, _)| is_in(name)).map_or("the server itself", |(_, cause)| cause)
}

/// Causes and what the names of their functions contain.
type Causes = &'static [(&'static str, &'static [&'static str])];

const KERNEL: Causes = &[
    ("kernel: send", &["sys_sendto", "sys_write", "sys_sendmsg"]),
    ("kernel: receive", &["sys_recvfrom", "sys_read"]),
    ("kernel: wait for events", &["sys_epoll", "sys_poll", "sys_ppoll"]),
    ("kernel: accept and close", &["accept4", "sys_close", "sys_shutdown", "sys_setsockopt"]),
    ("kernel: process number, clock", &["sys_getpid", "sys_clock_gettime"]),
];

const USER: Causes = &[
    (
        "allocation",
        &["malloc", "calloc", "realloc", "memalign", "_int_free", "cfree", "GI___libc_free"],
    ),
    ("wiping", &["OPENSSL_cleanse", "explicit_bzero", "CRYPTO_clear_free"]),
    (
        "private key: signature",
        &[
            "sign_digest",
            "sign_batch",
            "private_batch",
            "ECDSA_sign",
            "ecdsa_sign",
            "EVP_DigestSignFinal",
            "EVP_DigestSign",
        ],
    ),
    ("private key: key exchange", &["derive_batch", "EVP_PKEY_derive", "x25519_fe", "X25519"]),
    ("ephemeral key pair", &["EVP_PKEY_generate", "EVP_PKEY_keygen", "pool::"]),
    ("random bytes", &["RAND_bytes", "RAND_priv_bytes", "EVP_RAND"]),
    ("look-ups by name", &["_fetch", "names_do_all", "OPENSSL_LH_", "ossl_namemap"]),
    ("key schedule", &["EVP_KDF_derive", "kdf::", "tls13_hkdf_expand", "EVP_Q_mac", "HMAC_"]),
    (
        "hash of the handshake",
        &["EVP_DigestUpdate", "EVP_DigestFinal", "sha512_block", "sha256_block"],
    ),
    (
        "records: encryption",
        &["EVP_CipherUpdate", "EVP_EncryptUpdate", "EVP_DecryptUpdate", "EVP_Cipher", "tls13_enc"],
    ),
    ("certificates", &["X509", "ASN1", "asn1", "i2d_", "d2i_"]),
    (
        "contexts and parameters",
        &[
            "EVP_PKEY_CTX",
            "EVP_MD_CTX",
            "EVP_KDF_CTX",
            "EVP_MAC_CTX",
            "OSSL_PARAM",
            "EVP_DigestSignInit",
            "EVP_PKEY_",
        ],
    ),
    ("BIO", &["BIO_"]),
];

/// Files, and what is left of the time in them.
const FILES: &[(&str, &str)] = &[
    ("libssl", "libssl: state machine, messages, records"),
    ("libwidelane_runtime", "runtime: fibres, event loop"),
    ("libwidelane", "provider: other"),
    ("libcrypto", "libcrypto: other"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const STACKS: &str = "\
\t    7f01 _int_malloc (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t    7f02 CRYPTO_zalloc (/usr/lib/x86_64-linux-gnu/libcrypto.so.3)
\t    7f03 EVP_KDF_CTX_new (/usr/lib/x86_64-linux-gnu/libcrypto.so.3)

\tffff01 tcp_sendmsg ([kernel.kallsyms])
\tffff02 __x64_sys_sendto ([kernel.kallsyms])
\t    7f04 __libc_malloc (/usr/lib/x86_64-linux-gnu/libc.so.6)

\t    7f05 <widelane::kdf::Context as core::ops::Drop>::drop (/opt/libwidelane.so)
\t    7f06 [unknown] (/usr/lib/x86_64-linux-gnu/libssl.so.3)

\t    7f07 [unknown] (/usr/lib/x86_64-linux-gnu/libssl.so.3)
\t    7f08 main (/usr/sbin/haproxy)
";

    #[test]
    fn a_sample_belongs_to_its_most_telling_cause() {
        let costs = read(STACKS, 100.0);
        assert!((costs.total() - 100.0).abs() < 1e-9);
        for cause in ["allocation", "kernel: send", "key schedule", FILES[0].1] {
            assert!((costs.of(cause) - 25.0).abs() < 1e-9, "{cause}");
        }
        assert_eq!(costs.by_cause().count(), 4);
    }

    #[test]
    fn without_samples_nothing_is_told() {
        assert_eq!(read("", 100.0).by_cause().count(), 0);
    }
}

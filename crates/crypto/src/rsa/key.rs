//! RSA private keys: import, validation, and what is computed once per key.

use thiserror::Error;
use widelane_kernels::mont::portable::{self, Modulus};
use widelane_kernels::mont::{CrtKey, CrtParts};
use widelane_secret::stack::{kib, wiped};
use widelane_secret::{Mask, wipe};
use widelane_vault::Vault;

use super::single::in_range;

/// Stack of an import.
const KEY_STACK: usize = kib(72);

/// Exclusive upper bound of the public exponents we take.
const PUBLIC_EXPONENT_LIMIT: u64 = 1 << 33;

/// A modulus length that the batch kernels know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeySize {
    /// 2048 bits: primes of 1024.
    Rsa2048,
    /// 3072 bits: primes of 1536.
    Rsa3072,
    /// 4096 bits: primes of 2048.
    Rsa4096,
}

impl KeySize {
    /// Every size, smallest first.
    pub const ALL: [KeySize; 3] = [KeySize::Rsa2048, KeySize::Rsa3072, KeySize::Rsa4096];

    /// Bits of the modulus.
    pub const fn bits(self) -> usize {
        match self {
            KeySize::Rsa2048 => 2048,
            KeySize::Rsa3072 => 3072,
            KeySize::Rsa4096 => 4096,
        }
    }

    /// Bytes of the modulus, and of the input and output of the private operation.
    pub const fn bytes(self) -> usize {
        self.bits() / 8
    }
}

/// The numbers of an RSA private key (RFC 8017 section 3.2), big-endian, leading zeros allowed.
#[derive(Clone, Copy)]
pub struct Components<'a> {
    /// The modulus.
    pub n: &'a [u8],
    /// The public exponent.
    pub e: &'a [u8],
    /// The first prime.
    pub p: &'a [u8],
    /// The second prime.
    pub q: &'a [u8],
    /// The inverse of `e` modulo `p` - 1.
    pub dp: &'a [u8],
    /// The inverse of `e` modulo `q` - 1.
    pub dq: &'a [u8],
    /// The inverse of `q` modulo `p`.
    pub qinv: &'a [u8],
}

/// Why a key cannot be used here. The default provider may still take it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The modulus has a length that the kernels do not know.
    #[error("the modulus has {bits} bits; use a key of 2048, 3072 or 4096 bits")]
    ModulusSize {
        /// Bits of the modulus.
        bits: usize,
    },
    /// The public exponent is even, or out of range.
    #[error("the public exponent is not an odd number between 3 and 2^33; make a key with 65537")]
    PublicExponent,
    /// A prime is even, or has not exactly half as many bits as the modulus: the key is damaged,
    /// or has more than two.
    #[error(
        "p and q are not odd numbers of half as many bits as the modulus; \
         keys of more than two primes are not supported"
    )]
    Prime,
    /// The modulus is not the product of the primes.
    #[error("the modulus is not p times q; the key is damaged")]
    ModulusMismatch,
    /// A private exponent does not invert the public one.
    #[error("dP or dQ does not invert the public exponent; the key is damaged")]
    PrivateExponent,
    /// The coefficient does not invert `q` modulo `p`.
    #[error("qInv does not invert q modulo p; the key is damaged")]
    Coefficient,
}

/// A validated RSA private key with all that is computed once per key; wiped when dropped.
///
/// Validation costs no exponentiation: it proves the components consistent with one another, not
/// the primes prime. It need not, because a private operation with a wrong key fails its check with
/// the public exponent, and its outcome never leaves.
pub struct PrivateKey {
    pub(super) material: Material,
}

/// What is computed of a key, by size; in a vault, so that moving a key leaves no copies behind.
pub(super) enum Material {
    Rsa2048(Vault<Precomputed<16, 32, 20, 40>>),
    Rsa3072(Vault<Precomputed<24, 48, 30, 60>>),
    Rsa4096(Vault<Precomputed<32, 64, 40, 80>>),
}

/// A key in the forms of the portable room and of the batch rooms.
pub(super) struct Precomputed<
    const HALF: usize,
    const FULL: usize,
    const HALF_DIGITS: usize,
    const FULL_DIGITS: usize,
> {
    pub numbers: Numbers<HALF, FULL>,
    pub lanes: CrtKey<HALF_DIGITS, FULL_DIGITS>,
}

/// The numbers of a key with primes of `HALF` and a modulus of `FULL` limbs of 64 bits.
pub(super) struct Numbers<const HALF: usize, const FULL: usize> {
    pub n: Modulus<FULL>,
    pub p: Modulus<HALF>,
    pub q: Modulus<HALF>,
    pub e: u64,
    pub dp: [u64; HALF],
    pub dq: [u64; HALF],
    /// In Montgomery form.
    pub qinv: [u64; HALF],
}

impl PrivateKey {
    /// Takes over a key. Uses up to 80 KiB of stack.
    ///
    /// Secrets: all but `n` and `e`. The time tells the lengths of the components and whether the
    /// key is refused, nothing else.
    ///
    /// # Errors
    /// A [`KeyError`] when the key is damaged or of a kind that is not supported.
    pub fn from_components(components: &Components<'_>) -> Result<Self, KeyError> {
        wiped::<KEY_STACK, _>(|| Self::import(&components.trimmed()))
    }

    /// Validates and precomputes.
    fn import(components: &Components<'_>) -> Result<Self, KeyError> {
        let material = match bits(components.n) {
            2048 => Material::Rsa2048(Precomputed::new(components)?),
            3072 => Material::Rsa3072(Precomputed::new(components)?),
            4096 => Material::Rsa4096(Precomputed::new(components)?),
            bits => return Err(KeyError::ModulusSize { bits }),
        };
        Ok(PrivateKey { material })
    }

    /// The length of the modulus.
    pub fn size(&self) -> KeySize {
        match self.material {
            Material::Rsa2048(_) => KeySize::Rsa2048,
            Material::Rsa3072(_) => KeySize::Rsa3072,
            Material::Rsa4096(_) => KeySize::Rsa4096,
        }
    }

    /// Whether the private operation takes `input`: it is as long as the modulus, and below it.
    #[must_use]
    pub fn is_input(&self, input: &[u8]) -> bool {
        match &self.material {
            Material::Rsa2048(key) => in_range(&key.numbers, input).is_some(),
            Material::Rsa3072(key) => in_range(&key.numbers, input).is_some(),
            Material::Rsa4096(key) => in_range(&key.numbers, input).is_some(),
        }
    }
}

impl<'a> Components<'a> {
    /// The same numbers without leading zeros.
    fn trimmed(&self) -> Self {
        let trim = |bytes: &'a [u8]| {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            &bytes[zeros..]
        };
        Components {
            n: trim(self.n),
            e: trim(self.e),
            p: trim(self.p),
            q: trim(self.q),
            dp: trim(self.dp),
            dq: trim(self.dq),
            qinv: trim(self.qinv),
        }
    }
}

impl<const HALF: usize, const FULL: usize, const HALF_DIGITS: usize, const FULL_DIGITS: usize>
    Precomputed<HALF, FULL, HALF_DIGITS, FULL_DIGITS>
{
    fn new(components: &Components<'_>) -> Result<Vault<Self>, KeyError> {
        let numbers = Numbers::new(components)?;
        let Components { n, p, q, dp, dq, qinv, .. } = *components;
        let lanes = CrtKey::new(&CrtParts { n, e: numbers.e, p, q, dp, dq, qinv });
        Ok(Vault::new(Precomputed { numbers, lanes }))
    }
}

impl<const HALF: usize, const FULL: usize> Numbers<HALF, FULL> {
    /// Reads and validates the components, in an order that makes each error name the first cause.
    fn new(components: &Components<'_>) -> Result<Self, KeyError> {
        let e = public_exponent(components.e).ok_or(KeyError::PublicExponent)?;
        let p = modulus(components.p).ok_or(KeyError::Prime)?;
        let q = modulus(components.q).ok_or(KeyError::Prime)?;
        let n = modulus(components.n).ok_or(KeyError::ModulusMismatch)?;
        let mut numbers = Numbers {
            n,
            p,
            q,
            e,
            dp: limbs(components.dp).ok_or(KeyError::PrivateExponent)?,
            dq: limbs(components.dq).ok_or(KeyError::PrivateExponent)?,
            qinv: limbs(components.qinv).ok_or(KeyError::Coefficient)?,
        };
        if !numbers.modulus_is_product() {
            return Err(KeyError::ModulusMismatch);
        }
        if !inverts(&numbers.dp, e, &numbers.p) || !inverts(&numbers.dq, e, &numbers.q) {
            return Err(KeyError::PrivateExponent);
        }
        if !numbers.prepare_coefficient() {
            return Err(KeyError::Coefficient);
        }
        Ok(numbers)
    }

    /// Whether n = p·q.
    fn modulus_is_product(&self) -> bool {
        let mut product = [0; FULL];
        portable::multiply_wide(&mut product, self.p.limbs(), self.q.limbs(), &[0; HALF]);
        let equal = equal(&product, self.n.limbs());
        wipe(&mut product);
        equal
    }

    /// Takes qinv to Montgomery form and returns whether it was below p and qinv·q = 1 mod p.
    fn prepare_coefficient(&mut self) -> bool {
        let mut buffer = self.qinv;
        let in_range = portable::subtract(&mut buffer, self.p.limbs());
        self.p.enter_montgomery(&mut buffer, &self.qinv);
        self.qinv = buffer;
        self.p.multiply(&mut buffer, &self.qinv, self.q.limbs());
        let inverts = equal(&buffer, &one());
        wipe(&mut buffer);
        in_range && inverts
    }
}

impl<const HALF: usize, const FULL: usize> Drop for Numbers<HALF, FULL> {
    fn drop(&mut self) {
        wipe(&mut self.dp);
        wipe(&mut self.dq);
        wipe(&mut self.qinv);
    }
}

/// Whether `exponent` < p - 1 and e·`exponent` = 1 mod p - 1.
fn inverts<const HALF: usize>(exponent: &[u64; HALF], e: u64, p: &Modulus<HALF>) -> bool {
    let mut order = *p.limbs();
    order[0] &= !1;
    let mut product = *exponent;
    let in_range = portable::subtract(&mut product, &order);
    product.fill(0);
    // Doubling and adding over the bits of e, which is public.
    for bit in (0..=e.ilog2()).rev() {
        let addend = product;
        portable::add_modulo(&mut product, &addend, &order);
        if e >> bit & 1 == 1 {
            portable::add_modulo(&mut product, exponent, &order);
        }
    }
    let inverts = equal(&product, &one());
    wipe(&mut order);
    wipe(&mut product);
    in_range && inverts
}

/// The modulus that `bytes` says, if Montgomery arithmetic of that length takes it.
pub(super) fn modulus<const LIMBS: usize>(bytes: &[u8]) -> Option<Modulus<LIMBS>> {
    Modulus::new(&limbs(bytes)?)
}

/// Reads a big-endian number; `None` when it does not fit.
pub(super) fn limbs<const LIMBS: usize>(bytes: &[u8]) -> Option<[u64; LIMBS]> {
    let (excess, bytes) = bytes.split_at(bytes.len().saturating_sub(8 * LIMBS));
    let mut limbs = [0; LIMBS];
    for (limb, chunk) in limbs.iter_mut().zip(bytes.rchunks(8)) {
        *limb = chunk.iter().fold(0, |limb, byte| limb << 8 | u64::from(*byte));
    }
    (excess.iter().fold(0, |any, byte| any | byte) == 0).then_some(limbs)
}

/// Reads an odd public exponent from 3 up to the limit.
pub(super) fn public_exponent(bytes: &[u8]) -> Option<u64> {
    let [e] = limbs(bytes)?;
    (e & 1 == 1 && (3..PUBLIC_EXPONENT_LIMIT).contains(&e)).then_some(e)
}

/// The length in bits of a public big-endian number without leading zeros.
pub(super) fn bits(bytes: &[u8]) -> usize {
    bytes.first().map_or(0, |first| 8 * bytes.len() - first.leading_zeros() as usize)
}

/// Whether two numbers are equal, having read all of both.
pub(super) fn equal<const LIMBS: usize>(x: &[u64; LIMBS], y: &[u64; LIMBS]) -> bool {
    Mask::equal_words(x, y).declassify()
}

/// The number one.
fn one<const LIMBS: usize>() -> [u64; LIMBS] {
    let mut one = [0; LIMBS];
    one[0] = 1;
    one
}

//! Our keys on elliptic curves.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{CStr, c_int, c_void};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use widelane_bridge::counters::OperationKind;
use widelane_cpu::{Policy, Room, Width};
use widelane_crypto::{ec, ed25519, x25519};
use widelane_ossl_sys::core::{self, OsslParam};
use widelane_ossl_sys::dispatch::KeymgmtFunctions;

use crate::choosing::is_open;
use crate::curve::generation::Generation;
use crate::curve::params::{Halves, KeyParams, Plain};
use crate::curve::{Algorithm, Curve};
use crate::delegate::{Delegate, OnDemand, Owned};
use crate::errors::{quietly, tell_of_unlocked_keys};
use crate::keymgmt::ManagedKey;
use crate::known::{Known, Unknown};
use crate::params::{self, Array, Text, Value};
use crate::pool::Pair;
use crate::stack;

/// A key on an elliptic curve.
///
/// Keys that we generate, public keys that a peer has sent, and imported keys of which curve and
/// halves say everything are *ours*: those are held here, and the default provider's key is an
/// image of them that is made when it is first needed. All others, imported and generated ones, are
/// *theirs*: the default provider's key is what counts, and what we need of it is exported when it
/// is first used. A new key is neither, until something is imported or asked.
pub(crate) struct Key {
    delegate: Arc<Delegate>,
    algorithm: Algorithm,
    mode: AtomicU8,
    curve: Known<Curve>,
    public: Known<Public>,
    private: Known<Private>,
    inner: OnDemand,
}

/// Which of the two keys counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Neither: nothing was imported yet.
    New = 0,
    /// The one that we hold.
    Ours = 1,
    /// The default provider's, generated on a curve by its name: nothing else is known of it.
    Generated = 2,
    /// The default provider's.
    Theirs = 3,
    /// The default provider's, and what we hold is out of date.
    Changed = 4,
}

/// A public key, on its curve.
struct Public {
    encoded: Encoded,
    /// The point, from when it is first used.
    point: Known<ec::PublicKey>,
}

/// A public key as protocols send it.
#[derive(Clone, Copy)]
pub(crate) struct Encoded {
    bytes: [u8; PUBLIC_BYTES_MAX],
    length: usize,
}

/// A private key.
enum Private {
    Ec(ec::PrivateKey),
    Ed25519(ed25519::SigningKey),
    X25519(x25519::PrivateKey),
}

/// Bytes of the longest encoded public key.
pub(crate) const PUBLIC_BYTES_MAX: usize = ec::Curve::LARGEST.public_bytes();

impl Key {
    /// A key with nothing in it yet.
    pub(crate) fn new(delegate: &Arc<Delegate>, algorithm: Algorithm) -> Self {
        Key::empty(delegate, algorithm, Mode::New)
    }

    /// Wraps a key that the default provider has just generated on a curve, given by its name.
    pub(crate) fn adopt_generated(
        delegate: &Arc<Delegate>,
        curve: Curve,
        inner: *mut c_void,
    ) -> Option<Arc<Self>> {
        let inner = Owned::adopt(inner, curve.algorithm().keymgmt(delegate).free)?;
        let mut key = Key::empty(delegate, curve.algorithm(), Mode::Generated);
        (key.inner, key.curve) = (OnDemand::of(inner), Known::of(curve));
        Some(Arc::new(key))
    }

    /// A key of ours on a curve, with neither half.
    pub(crate) fn parameters(delegate: &Arc<Delegate>, curve: Curve) -> Self {
        let mut key = Key::empty(delegate, curve.algorithm(), Mode::Ours);
        key.curve = Known::of(curve);
        key
    }

    /// A key of ours with both halves; nothing if they are none.
    pub(crate) fn generated(delegate: &Arc<Delegate>, curve: Curve, pair: &Pair) -> Option<Self> {
        let private = Private::read(curve, pair.private())?;
        let mut key = Key::parameters(delegate, curve);
        key.private = Known::of(private);
        key.public = Known::of(Public::new(Encoded::new(pair.public())?));
        Some(key)
    }

    /// A key of ours of which the public half is computed, slowly; nothing if the private one is
    /// none.
    pub(crate) fn from_private(
        delegate: &Arc<Delegate>,
        curve: Curve,
        private: &[u8],
    ) -> Option<Self> {
        let private = Private::read(curve, private)?;
        let mut public = Encoded { bytes: [0; PUBLIC_BYTES_MAX], length: curve.public_bytes() };
        let mut policy = Policy::up_to(Width::W128);
        policy.rooms_closed.extend([Room::Adx].into_iter().filter(|room| !is_open(*room)));
        let place = &mut public.bytes[..public.length];
        match &private {
            Private::Ec(key) => {
                let mut job = ec::GenerateJob::new(key, place);
                ec::Ec::choose(&policy).generate_batch(slice::from_mut(&mut job));
                (job.outcome == ec::Outcome::Done).then_some(())?;
            }
            Private::X25519(key) => {
                let mut job = x25519::GenerateJob::new(key, place.first_chunk_mut()?);
                x25519::X25519::choose(&policy).generate_batch(slice::from_mut(&mut job));
            }
            Private::Ed25519(_) => return None,
        }
        let mut key = Key::parameters(delegate, curve);
        (key.private, key.public) = (Known::of(private), Known::of(Public::new(public)));
        Some(key)
    }

    fn empty(delegate: &Arc<Delegate>, algorithm: Algorithm, mode: Mode) -> Self {
        Key {
            delegate: Arc::clone(delegate),
            algorithm,
            mode: AtomicU8::new(mode as u8),
            curve: Known::new(),
            public: Known::new(),
            private: Known::new(),
            inner: OnDemand::new(),
        }
    }

    /// Whether what we hold is what counts.
    pub(crate) fn is_ours(&self) -> bool {
        self.mode() == Mode::Ours
    }

    /// Keeps an imported key of which curve and halves say everything; false if they are none, if
    /// there are no lanes to fill, or if there is something here already.
    pub(crate) fn keep(&self, imported: Plain) -> bool {
        if !imported.is_batched() {
            return false;
        }
        let Plain { curve, halves } = imported;
        // An import may come on the stack of an ASYNC job.
        let read = || {
            let public = Public::read(curve, halves.public.as_deref()?)?;
            let private = match halves.private {
                Some(_) => Some(Private::read(curve, &halves.private(curve.private_bytes())?)?),
                None => None,
            };
            // A public key alone is used to verify, and keeps its decoded point. A key that signs
            // does without, which saves memory; the point is decoded again should the key be used
            // as a peer's.
            let is_half = private.is_none();
            Some((if is_half { public } else { Public::new(public.encoded) }, private))
        };
        let Some((public, private)) = stack::on_large(read).flatten() else { return false };
        if !self.settle(Mode::Ours) {
            return false;
        }
        self.curve.set(Some(curve));
        self.public.set(Some(public));
        if let Some(private) = private {
            self.private.set(Some(private));
        }
        true
    }

    /// Says of a new key which one counts; false if that is settled.
    fn settle(&self, mode: Mode) -> bool {
        let (from, to) = (Mode::New as u8, mode as u8);
        self.mode.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// From now on the default provider's key counts; `changed` says that it will be another one.
    pub(crate) fn hand_over(&self, changed: bool) {
        let mode = if changed { Mode::Changed } else { Mode::Theirs };
        self.mode.fetch_max(mode as u8, Ordering::AcqRel);
    }

    /// Its curve, if we know it.
    pub(crate) fn curve(&self) -> Option<Curve> {
        match self.mode() {
            Mode::Ours => self.curve.get().copied(),
            Mode::New | Mode::Generated | Mode::Theirs => {
                self.curve.get_or_find(|| self.quietly(Self::find_curve)).copied()
            }
            Mode::Changed => None,
        }
    }

    /// Its curve, if we know it already: asking does not count as a use.
    pub(crate) fn known_curve(&self) -> Option<Curve> {
        self.curve.get().copied().filter(|_| self.mode() != Mode::Changed)
    }

    /// Its curve, if this is a private key whose operations can be batched there: one that is out
    /// of range cannot, and a batch fails as a whole.
    pub(crate) fn private_curve(&self) -> Option<Curve> {
        self.curve()
            .filter(|_| self.has_parts(core::SELECT_PRIVATE_KEY) && self.private().is_some())
    }

    /// Whether it has these parts.
    fn has_parts(&self, selection: c_int) -> bool {
        if self.is_ours() {
            let has = |part, is_there: bool| selection & part == 0 || is_there;
            return has(core::SELECT_PRIVATE_KEY, self.private.get().is_some())
                && has(core::SELECT_PUBLIC_KEY, self.public.get().is_some());
        }
        let (Some(has), Some(inner)) = (self.functions().has, self.inner()) else { return false };
        // SAFETY: a key of the default provider.
        unsafe { has(inner, selection) > 0 }
    }

    /// What its private-key operation with a peer is counted as.
    pub(crate) fn derive_kind(&self) -> OperationKind {
        self.known_curve().map_or(OperationKind::Other, Curve::derive_kind)
    }

    /// Its public half, encoded, if we hold it.
    pub(crate) fn known_public(&self) -> Option<&[u8]> {
        if self.mode() == Mode::Changed {
            return None;
        }
        Some(self.public.get()?.encoded.as_slice())
    }

    /// Its public half, encoded, wherever it is.
    pub(crate) fn encoded_public(&self) -> Option<&[u8]> {
        Some(self.public()?.encoded.as_slice())
    }

    /// Its private half, encoded; nothing for Ed25519.
    pub(crate) fn private_bytes(&self) -> Option<&[u8]> {
        Some(self.private()?.as_bytes()).filter(|bytes| !bytes.is_empty())
    }

    /// Takes a peer's public key; false if it is none of its curve, or if this key has a half or an
    /// image already, which would not know of the new one.
    pub(crate) fn set_public(&self, encoded: &[u8]) -> bool {
        let Some(curve) = self.known_curve().filter(|_| self.is_ours()) else { return false };
        let has_half = self.private.is_known() || self.public.is_known();
        if has_half || self.inner.get().is_some() {
            return false;
        }
        Public::read(curve, encoded).is_some_and(|public| self.public.set(Some(public)))
    }

    /// Its private half, on P-256 or P-384.
    pub(crate) fn ec(&self) -> Option<&ec::PrivateKey> {
        match self.private()? {
            Private::Ec(key) => Some(key),
            _ => None,
        }
    }

    /// Its public half, on P-256 or P-384.
    pub(crate) fn ec_public(&self) -> Option<&ec::PublicKey> {
        let Some(Curve::Ec(curve)) = self.curve() else { return None };
        let public = self.public()?;
        let read = || ec::PublicKey::from_uncompressed(curve, public.encoded.as_slice()).ok();
        public.point.get_or_find(|| Ok(read()))
    }

    /// Its private half, on the curve of X25519.
    pub(crate) fn x25519(&self) -> Option<&x25519::PrivateKey> {
        match self.private()? {
            Private::X25519(key) => Some(key),
            _ => None,
        }
    }

    /// Its public half, on the curve of X25519.
    pub(crate) fn x25519_public(&self) -> Option<&[u8; 32]> {
        let Curve::X25519 = self.curve()? else { return None };
        self.public()?.encoded.as_slice().try_into().ok()
    }

    /// Its private half, on the curve of Ed25519.
    pub(crate) fn ed25519(&self) -> Option<&ed25519::SigningKey> {
        match self.private()? {
            Private::Ed25519(key) => Some(key),
            _ => None,
        }
    }

    /// Whether it can be the peer of a key on `curve`.
    pub(crate) fn is_peer_on(&self, curve: Curve) -> bool {
        self.curve() == Some(curve) && self.public().is_some()
    }

    fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            0 => Mode::New,
            1 => Mode::Ours,
            2 => Mode::Generated,
            3 => Mode::Theirs,
            _ => Mode::Changed,
        }
    }

    fn public(&self) -> Option<&Public> {
        match self.mode() {
            Mode::Ours => self.public.get(),
            Mode::New | Mode::Generated | Mode::Theirs => {
                self.public.get_or_find(|| self.quietly(Self::export_public))
            }
            Mode::Changed => None,
        }
    }

    fn private(&self) -> Option<&Private> {
        match self.mode() {
            Mode::Ours => self.private.get(),
            Mode::New | Mode::Generated | Mode::Theirs => {
                // The caller may be on the small stack of an ASYNC job.
                let export = || stack::on_large(|| self.quietly(Self::export_private));
                self.private.get_or_find(|| export().unwrap_or(Err(Unknown)))
            }
            Mode::Changed => None,
        }
    }

    /// Asks the default provider, and forgets why it does not answer: it says so again when it
    /// does the operation itself.
    fn quietly<T>(&self, ask: impl FnOnce(&Self) -> T) -> T {
        quietly(&self.delegate.libcrypto, || ask(self))
    }

    /// Asks the default provider for the curve of its key; nothing where there are no lanes to
    /// fill.
    fn find_curve(&self) -> Result<Option<Curve>, Unknown> {
        Ok(self.ask_for_curve()?.filter(|curve| curve.has_kernels()))
    }

    /// Its curve, whether or not there are lanes to fill.
    pub(crate) fn named_curve(&self) -> Option<Curve> {
        self.ask_for_curve().ok().flatten()
    }

    fn ask_for_curve(&self) -> Result<Option<Curve>, Unknown> {
        if let Some(curve) = self.known_curve() {
            return Ok(Some(curve));
        }
        match self.algorithm {
            Algorithm::Ed25519 => Ok(Some(Curve::Ed25519)),
            Algorithm::X25519 => Ok(Some(Curve::X25519)),
            Algorithm::Ec => {
                let Some(get_params) = self.functions().get_params else { return Ok(None) };
                let inner = self.inner().ok_or(Unknown)?;
                let mut name = Text::empty();
                let mut asked =
                    [params::text(core::PKEY_PARAM_GROUP_NAME, &mut name), OsslParam::END];
                // SAFETY: the key is the default provider's; `asked` has an end.
                let told = unsafe { get_params(inner, asked.as_mut_ptr()) > 0 };
                // A curve without a name is none of ours. Where there is none at all, one may come.
                told.then(|| Curve::by_name(self.algorithm, name.as_c_str())).ok_or(Unknown)
            }
        }
    }

    /// OpenSSL before 3.0.8 exports points compressed, and encodes them as we need them.
    fn export_public(&self) -> Result<Option<Public>, Unknown> {
        let Some(curve) = self.ask_for_curve()? else { return Ok(None) };
        if self.algorithm == Algorithm::Ec {
            return Ok(Public::read(curve, self.ask_for_point()?.as_slice()));
        }
        let selection = core::SELECT_PUBLIC_KEY | core::SELECT_ALL_PARAMETERS;
        let exported = Halves::of(self, selection).ok_or(Unknown)?;
        Ok(exported.public.as_deref().and_then(|public| Public::read(curve, public)))
    }

    /// Its point, which is on a curve of ours.
    fn ask_for_point(&self) -> Result<Encoded, Unknown> {
        let get_params = self.functions().get_params.ok_or(Unknown)?;
        if !self.has_parts(core::SELECT_PUBLIC_KEY) {
            return Err(Unknown);
        }
        let mut encoded = Encoded { bytes: [0; PUBLIC_BYTES_MAX], length: 0 };
        let name = core::PKEY_PARAM_ENCODED_PUBLIC_KEY;
        let mut asked = [params::octets_out(name, &mut encoded.bytes), OsslParam::END];
        // SAFETY: the key is the default provider's; `asked` has an end.
        let told = unsafe { get_params(self.inner().ok_or(Unknown)?, asked.as_mut_ptr()) > 0 };
        encoded.length = asked[0].return_size;
        (told && encoded.length <= PUBLIC_BYTES_MAX).then_some(encoded).ok_or(Unknown)
    }

    fn export_private(&self) -> Result<Option<Private>, Unknown> {
        let Some(curve) = self.ask_for_curve()? else { return Ok(None) };
        let exported = Halves::of(self, core::SELECT_ALL).ok_or(Unknown)?;
        let private = exported.private(curve.private_bytes());
        Ok(private.and_then(|private| Private::read(curve, &private)))
    }

    /// Makes a key of the default provider with nothing in it.
    fn make_inner(&self) -> Option<Owned> {
        let functions = self.functions();
        Owned::made(functions.new, &self.delegate, functions.free)
    }

    /// Makes a key of the default provider with all that we hold.
    fn make_image(&self) -> Option<Owned> {
        let curve = *self.curve.get()?;
        let image = self.make_inner()?;
        let private = self.private.get().map(Private::as_bytes);
        let params = KeyParams::new(curve, self.known_public(), private);
        let selection = params.selection();
        if selection & core::SELECT_KEYPAIR == 0 && curve.group_name().is_none() {
            // A key of X25519 without halves is one that was just made.
            return Some(image);
        }
        let import = self.functions().import?;
        // SAFETY: the key was made above; the parameters have an end.
        let imported = unsafe { import(image.as_ptr(), selection, params.as_ptr()) > 0 };
        imported.then_some(image)
    }
}

impl ManagedKey for Key {
    type Kind = Algorithm;
    type Generation = Generation;

    fn functions_of(kind: Algorithm, delegate: &Delegate) -> &KeymgmtFunctions {
        kind.keymgmt(delegate)
    }

    fn make(delegate: &Arc<Delegate>, kind: Algorithm) -> Option<Arc<Self>> {
        Some(Arc::new(Key::new(delegate, kind)))
    }

    fn adopt(delegate: &Arc<Delegate>, kind: Algorithm, inner: *mut c_void) -> Option<Arc<Self>> {
        let inner = Owned::adopt(inner, kind.keymgmt(delegate).free)?;
        let mut key = Key::empty(delegate, kind, Mode::Theirs);
        key.inner = OnDemand::of(inner);
        Some(Arc::new(key))
    }

    unsafe fn generate(
        delegate: &Arc<Delegate>,
        kind: Algorithm,
        selection: c_int,
        params: *const OsslParam,
    ) -> Option<Generation> {
        // SAFETY: passed on to the caller.
        unsafe { Generation::begin(delegate, kind, selection, params) }
    }

    fn delegate(&self) -> &Arc<Delegate> {
        &self.delegate
    }

    fn kind(&self) -> Algorithm {
        self.algorithm
    }

    fn inner(&self) -> Option<*mut c_void> {
        // An image of ours, or a new key that was not needed yet.
        self.settle(Mode::Theirs);
        let make = || if self.is_ours() { self.make_image() } else { self.make_inner() };
        self.inner.get_or_make(make)
    }

    fn is_in_use(&self) -> bool {
        self.is_ours() || self.curve.is_known()
    }

    fn has(&self, selection: c_int) -> Option<bool> {
        Some(self.has_parts(selection))
    }

    unsafe fn get_params(&self, params: *mut OsslParam) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { params::answer_all(params, |name| known(self, name)) }
    }

    unsafe fn set_params(&self, params: *const OsslParam) -> bool {
        // SAFETY: passed on to the caller.
        let given = unsafe { Array::new(params) };
        let encoded =
            |param: &&OsslParam| params::key(param) == core::PKEY_PARAM_ENCODED_PUBLIC_KEY;
        let mut first_two = given.iter();
        if let (Some(first), None) = (first_two.next().filter(encoded), first_two.next())
            && params::octets(first).is_some_and(|public| self.set_public(public))
        {
            return true;
        }
        // The default provider's key is made as this one is now.
        if self.functions().set_params.is_some() && self.inner().is_some() {
            self.hand_over(given.iter().any(|param| encoded(&param)));
        }
        false
    }

    fn is_valid(&self, selection: c_int) -> bool {
        // A public key that we hold is on its curve, of which the cofactor is 1: it has the right
        // order as well. X25519 takes any.
        self.is_ours() && selection == core::SELECT_PUBLIC_KEY && self.known_public().is_some()
    }

    fn matches(&self, other: &Self, selection: c_int) -> Option<bool> {
        let with_halves = selection & core::SELECT_KEYPAIR != 0;
        let with_public = selection & core::SELECT_PUBLIC_KEY != 0;
        if !self.is_ours() || !other.is_ours() || with_halves && !with_public {
            return None;
        }
        let same_curve = self.known_curve()? == other.known_curve()?;
        Some(same_curve && (!with_halves || self.known_public()? == other.known_public()?))
    }

    unsafe fn import(&self, selection: c_int, params: *const OsslParam) -> bool {
        // SAFETY: passed on to the caller.
        let given = unsafe { Array::new(params) };
        self.algorithm == Algorithm::Ec
            && Plain::read(selection, given).is_some_and(|plain| self.keep(plain))
    }

    fn duplicate(&self, selection: c_int) -> Option<Self> {
        let without_curve = selection & core::SELECT_DOMAIN_PARAMETERS == 0;
        let is_plain = matches!(self.mode(), Mode::Ours | Mode::Generated);
        if !is_plain || without_curve && self.algorithm == Algorithm::Ec {
            return None;
        }
        let copy = Key::parameters(&self.delegate, self.known_curve()?);
        if selection & core::SELECT_KEYPAIR == 0 {
            return Some(copy);
        }
        if !self.is_ours() {
            return None;
        }
        if selection & core::SELECT_PRIVATE_KEY != 0
            && let Some(private) = self.private.get()
        {
            copy.private.set(private.duplicate());
        }
        if selection & core::SELECT_PUBLIC_KEY != 0
            && let Some(public) = self.public.get()
        {
            copy.public.set(Some(Public::new(public.encoded)));
        }
        Some(copy)
    }
}

/// What a key says of itself without the default provider.
fn known<'a>(key: &'a Key, name: &CStr) -> Option<Value<'a>> {
    let curve = key.known_curve()?;
    let [bits, strength, longest] = curve.sizes();
    if name == core::PKEY_PARAM_BITS {
        Some(Value::Int(bits))
    } else if name == core::PKEY_PARAM_SECURITY_BITS {
        Some(Value::Int(strength))
    } else if name == core::PKEY_PARAM_SECURITY_CATEGORY {
        Some(Value::Int(0))
    } else if name == core::PKEY_PARAM_MAX_SIZE {
        Some(Value::Int(longest))
    } else if name == core::PKEY_PARAM_GROUP_NAME {
        curve.group_name().map(Value::Text)
    } else if name == core::PKEY_PARAM_ENCODED_PUBLIC_KEY && curve != Curve::Ed25519 {
        key.known_public().map(Value::Octets)
    } else {
        None
    }
}

impl Public {
    fn new(encoded: Encoded) -> Self {
        Public { encoded, point: Known::new() }
    }

    /// Reads a public key that may be none.
    fn read(curve: Curve, bytes: &[u8]) -> Option<Self> {
        if bytes.len() != curve.public_bytes() {
            return None;
        }
        let public = Public::new(Encoded::new(bytes)?);
        if let Curve::Ec(curve) = curve {
            let point = ec::PublicKey::from_uncompressed(curve, bytes).ok()?;
            public.point.set(Some(point));
        }
        Some(public)
    }
}

impl Encoded {
    fn new(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; PUBLIC_BYTES_MAX];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Encoded { bytes, length: from.len() })
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Private {
    fn read(curve: Curve, bytes: &[u8]) -> Option<Self> {
        let private = match curve {
            Curve::Ec(curve) => Private::Ec(ec::PrivateKey::from_bytes(curve, bytes).ok()?),
            Curve::Ed25519 => {
                Private::Ed25519(ed25519::SigningKey::from_seed(bytes.try_into().ok()?))
            }
            Curve::X25519 => {
                Private::X25519(x25519::PrivateKey::from_bytes(bytes.try_into().ok()?))
            }
        };
        tell_of_unlocked_keys();
        Some(private)
    }

    /// The bytes that it was read from; nothing for a key that is never an image.
    fn as_bytes(&self) -> &[u8] {
        match self {
            Private::Ec(key) => key.as_bytes(),
            Private::Ed25519(_) => &[],
            Private::X25519(key) => key.as_bytes(),
        }
    }

    fn duplicate(&self) -> Option<Self> {
        match self {
            Private::Ec(key) => Private::read(Curve::Ec(key.curve()), key.as_bytes()),
            Private::Ed25519(_) => None,
            Private::X25519(key) => Private::read(Curve::X25519, key.as_bytes()),
        }
    }
}

//! Secrets made ready for derivations, and values derived before they are asked for, kept while a
//! thread runs a handshake's fibre.
//!
//! libssl derives two or three values from each secret, one right behind the other or in turns with
//! a second secret, and making a secret ready is half of the hashing of each. Which values follow
//! is laid down by TLS 1.3 and by libssl's state machine: those that depend on nothing else are
//! derived at once, in lanes, when the first of them is asked for:
//!
//! | asked for | from | derived with it |
//! |---|---|---|
//! | `s hs traffic`, `c hs traffic` | the handshake's secret | the other one |
//! | `key` | one of these | `iv` and `finished`, and all three of the other one |
//! | `key` | `s ap traffic` | `iv`, and `exp master` of the master secret |
//! | `key` | `c ap traffic` | `iv` |
//!
//! What is kept is wiped as soon as the fibre is left, when the handshake pauses or its call ends:
//! no secret outlives the call that derived from it. Without a runtime that signals this, nothing
//! is kept, and nothing is derived but what is asked for.

use std::cell::RefCell;

use widelane_crypto::kdf::tls13::{self, EXPANSIONS_MAX, Expansion, Source};
use widelane_crypto::kdf::{Hash, Kdf, Secret};
use widelane_secret::{Mask, wipe};

/// As many as libssl derives from in turns: one of a stage of the handshake, one of a direction.
const KEPT_MAX: usize = 2;

/// As many values as two directions of a stage have.
const VALUES_MAX: usize = 8;

/// What labels of TLS 1.3 begin with.
pub(super) const PREFIX: &[u8] = b"tls13 ";

const SERVER_HANDSHAKE: &[u8] = b"s hs traffic";
const CLIENT_HANDSHAKE: &[u8] = b"c hs traffic";
const SERVER_APPLICATION: &[u8] = b"s ap traffic";
const CLIENT_APPLICATION: &[u8] = b"c ap traffic";
const EXPORTER: &[u8] = b"exp master";
const KEY: &[u8] = b"key";
const IV: &[u8] = b"iv";
const FINISHED: &[u8] = b"finished";

/// Bytes of an initialization vector of any cipher of TLS 1.3.
const IV_BYTES: usize = 12;

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept::EMPTY) };
}

/// What is kept of the handshake that the thread runs.
struct Kept {
    is_on_fibre: bool,
    secrets: Secrets,
    values: Values,
}

/// Secrets of the handshake.
struct Secrets {
    places: [Place; KEPT_MAX],
    /// The place whose secret was used last.
    last: usize,
}

/// A secret as it is and made ready, if there is one.
struct Place {
    bytes: Bytes,
    ready: Option<(Hash, Secret)>,
}

/// As many bytes as a digest has.
type Bytes = [u8; Hash::BYTES_MAX];

/// Values derived from secrets of the handshake.
struct Values {
    places: [Value; VALUES_MAX],
    /// The place that the next one takes.
    next: usize,
}

/// A value, what it is derived from and what for.
struct Value {
    /// Nothing if there is none.
    label: Option<(Hash, &'static [u8])>,
    context: Bytes,
    context_bytes: usize,
    secret: Bytes,
    output: Bytes,
    output_bytes: usize,
}

/// What is to be derived from a secret.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) secret: &'a [u8],
    pub(super) prefix: &'a [u8],
    pub(super) label: &'a [u8],
    pub(super) context: &'a [u8],
}

/// Calls `derive` with a secret made ready.
pub(super) fn with_secret<T>(kdf: &Kdf, bytes: &[u8], mut derive: impl FnMut(&Secret) -> T) -> T {
    let on_fibre = |kept: &mut Kept| {
        (bytes.len() == kdf.hash().bytes()).then(|| derive(kept.secrets.ready(kdf, bytes)))
    };
    while_on_fibre(on_fibre).unwrap_or_else(|| derive(&kdf.secret(bytes)))
}

/// Derives a value; nothing if it is none that TLS 1.3 has.
pub(super) fn expand(kdf: &Kdf, ask: Ask<'_>, output: &mut [u8]) -> Option<()> {
    let is_usual = ask.secret.len() == kdf.hash().bytes() && ask.prefix == PREFIX;
    let is_done =
        is_usual && while_on_fibre(|kept| kept.expand(kdf, ask, output).then_some(())).is_some();
    if is_done {
        return Some(());
    }
    with_secret(kdf, ask.secret, |secret| {
        secret.expand_label(ask.prefix, ask.label, ask.context, output).ok()
    })
}

/// Calls `work` with what is kept, if the thread runs a fibre.
fn while_on_fibre<T>(work: impl FnOnce(&mut Kept) -> Option<T>) -> Option<T> {
    let on_fibre = KEPT
        .try_with(|kept| work(&mut *kept.try_borrow_mut().ok().filter(|kept| kept.is_on_fibre)?));
    on_fibre.ok().flatten()
}

/// The calling thread begins to run a handshake's fibre, or has left it.
pub(crate) fn fibre(is_begun: bool) {
    let _ = KEPT.try_with(|kept| {
        let Ok(mut kept) = kept.try_borrow_mut() else { return };
        kept.is_on_fibre = is_begun;
        kept.secrets.places.iter_mut().for_each(Place::clear);
        kept.values.places.iter_mut().for_each(Value::clear);
        kept.values.next = 0;
    });
}

/// Makes the calling thread's variable.
pub(crate) fn begin_thread() {
    fibre(false);
}

impl Kept {
    const EMPTY: Self = Self { is_on_fibre: false, secrets: Secrets::EMPTY, values: Values::EMPTY };

    /// Derives a value that others are derived with, or was; false if it is another one.
    fn expand(&mut self, kdf: &Kdf, ask: Ask<'_>, output: &mut [u8]) -> bool {
        if self.values.answer(kdf.hash(), ask, output) {
            return true;
        }
        if ask.label == KEY && ask.context.is_empty() {
            return self.expand_keys(kdf, ask, output);
        }
        let (labels, count) = match ask.label {
            SERVER_HANDSHAKE => ([SERVER_HANDSHAKE, CLIENT_HANDSHAKE], 2),
            CLIENT_HANDSHAKE => ([CLIENT_HANDSHAKE, SERVER_HANDSHAKE], 2),
            SERVER_APPLICATION => ([SERVER_APPLICATION; 2], 1),
            CLIENT_APPLICATION => ([CLIENT_APPLICATION; 2], 1),
            _ => return false,
        };
        let bytes = kdf.hash().bytes();
        let is_usual = output.len() == bytes && ask.context.len() == bytes;
        if !is_usual || !kdf.gains_at_once() {
            return false;
        }
        let source = Source::Ready(self.secrets.ready(kdf, ask.secret));
        let wanted = labels.map(|label| expansion(0, label, ask.context, bytes));
        self.values.derive(kdf, &[ask.secret], &[source], &wanted[..count], output)
    }

    /// Derives the key of a direction, if it is one whose secret was derived before, with all that
    /// libssl will ask for next.
    fn expand_keys(&mut self, kdf: &Kdf, ask: Ask<'_>, output: &mut [u8]) -> bool {
        let Kept { secrets, values, .. } = self;
        let Some(traffic) = values.of_output(kdf.hash(), ask.secret) else { return false };
        let (hash_bytes, key_bytes) = (kdf.hash().bytes(), output.len());
        let traffic = &values.places[traffic];
        let label = traffic.label.map_or(&[][..], |(_, label)| label);
        let keys = |source| {
            [(KEY, key_bytes), (IV, IV_BYTES), (FINISHED, hash_bytes)]
                .map(|(label, bytes)| expansion(source, label, &[], bytes))
        };
        let [key, iv, finished] = keys(0);
        // Copies, since the values that are derived may take the places of these.
        let (mut other, mut context) = ([0; Hash::BYTES_MAX], [0; Hash::BYTES_MAX]);
        let context = &mut context[..traffic.context_bytes];
        context.copy_from_slice(&traffic.context[..traffic.context_bytes]);
        let other = &mut other[..hash_bytes];
        let own = Source::Bytes(ask.secret);
        let done = match label {
            SERVER_HANDSHAKE | CLIENT_HANDSHAKE => {
                let is_server = label == SERVER_HANDSHAKE;
                let opposite = Ask {
                    secret: &traffic.secret[..hash_bytes],
                    prefix: PREFIX,
                    label: if is_server { CLIENT_HANDSHAKE } else { SERVER_HANDSHAKE },
                    context,
                };
                if values.answer(kdf.hash(), opposite, other) {
                    let [other_key, other_iv, other_finished] = keys(1);
                    let wanted = [key, iv, finished, other_key, other_iv, other_finished];
                    let sources = [own, Source::Bytes(other)];
                    values.derive(kdf, &[ask.secret, other], &sources, &wanted, output)
                } else {
                    values.derive(kdf, &[ask.secret], &[own], &[key, iv, finished], output)
                }
            }
            SERVER_APPLICATION => {
                other.copy_from_slice(&traffic.secret[..hash_bytes]);
                let sources = [own, Source::Ready(secrets.ready(kdf, other))];
                let wanted = [key, iv, expansion(1, EXPORTER, context, hash_bytes)];
                values.derive(kdf, &[ask.secret, other], &sources, &wanted, output)
            }
            CLIENT_APPLICATION => values.derive(kdf, &[ask.secret], &[own], &[key, iv], output),
            _ => false,
        };
        wipe(other);
        done
    }
}

impl Secrets {
    const EMPTY: Self = Self { places: [const { Place::EMPTY }; KEPT_MAX], last: 0 };

    /// The secret, made ready before or now.
    fn ready(&mut self, kdf: &Kdf, bytes: &[u8]) -> &Secret {
        let found = self.places.iter().position(|place| place.is(kdf.hash(), bytes));
        self.last = found.unwrap_or((self.last + 1) % KEPT_MAX);
        let place = &mut self.places[self.last];
        if found.is_none() {
            place.clear();
            place.bytes[..bytes.len()].copy_from_slice(bytes);
        }
        let (_, secret) = place.ready.get_or_insert_with(|| (kdf.hash(), kdf.secret(bytes)));
        secret
    }
}

impl Place {
    const EMPTY: Self = Self { bytes: [0; Hash::BYTES_MAX], ready: None };

    /// Whether this is the secret, compared in constant time.
    fn is(&self, hash: Hash, bytes: &[u8]) -> bool {
        self.ready.as_ref().is_some_and(|(known, _)| *known == hash)
            && Mask::equal_bytes(&self.bytes[..hash.bytes()], bytes).declassify()
    }

    fn clear(&mut self) {
        if self.ready.take().is_some() {
            wipe(&mut self.bytes);
        }
    }
}

impl Values {
    const EMPTY: Self = Self { places: [const { Value::EMPTY }; VALUES_MAX], next: 0 };

    /// Answers with a value that is there.
    fn answer(&self, hash: Hash, ask: Ask<'_>, output: &mut [u8]) -> bool {
        let Some(value) = self.places.iter().find(|value| value.is(hash, ask, output.len())) else {
            return false;
        };
        output.copy_from_slice(&value.output[..output.len()]);
        true
    }

    /// The place of the value that is this secret.
    fn of_output(&self, hash: Hash, secret: &[u8]) -> Option<usize> {
        self.places.iter().position(|value| {
            value.label.is_some_and(|(known, _)| known == hash)
                && value.output_bytes == secret.len()
                && Mask::equal_bytes(&value.output[..secret.len()], secret).declassify()
        })
    }

    /// Derives values at once and keeps them; the first is what is asked for.
    fn derive(
        &mut self,
        kdf: &Kdf,
        secrets: &[&[u8]],
        sources: &[Source<'_>],
        wanted: &[(&'static [u8], Expansion<'_>)],
        output: &mut [u8],
    ) -> bool {
        let mut made = [[0; Hash::BYTES_MAX]; EXPANSIONS_MAX];
        let made = &mut made[..wanted.len()];
        let mut expansions = [wanted[0].1; EXPANSIONS_MAX];
        expansions.iter_mut().zip(wanted).for_each(|(place, (_, it))| *place = *it);
        let expansions = &expansions[..wanted.len()];
        let done = tls13::expand_labels(kdf, sources, PREFIX, expansions, made).is_ok();
        if done {
            output.copy_from_slice(&made[0][..output.len()]);
            for ((label, it), made) in wanted.iter().zip(&*made) {
                let value = &mut self.places[self.next];
                self.next = (self.next + 1) % VALUES_MAX;
                let secret = secrets[it.source];
                value.label = Some((kdf.hash(), *label));
                value.context[..it.context.len()].copy_from_slice(it.context);
                value.context_bytes = it.context.len();
                value.secret[..secret.len()].copy_from_slice(secret);
                value.output = *made;
                value.output_bytes = it.bytes;
            }
        }
        wipe(made.as_flattened_mut());
        done
    }
}

/// What [`Values::derive`] takes, with the label that is kept.
fn expansion<'a>(
    source: usize,
    label: &'static [u8],
    context: &'a [u8],
    bytes: usize,
) -> (&'static [u8], Expansion<'a>) {
    (label, Expansion { source, label, context, bytes })
}

impl Value {
    const EMPTY: Self = Self {
        label: None,
        context: [0; Hash::BYTES_MAX],
        context_bytes: 0,
        secret: [0; Hash::BYTES_MAX],
        output: [0; Hash::BYTES_MAX],
        output_bytes: 0,
    };

    /// Whether this is what is asked for. Nothing is revealed of the secret but whether it matches.
    fn is(&self, hash: Hash, ask: Ask<'_>, bytes: usize) -> bool {
        self.output_bytes == bytes
            && self.label.is_some_and(|(known, label)| known == hash && label == ask.label)
            && self.context[..self.context_bytes] == *ask.context
            && Mask::equal_bytes(&self.secret[..hash.bytes()], ask.secret).declassify()
    }

    fn clear(&mut self) {
        if self.label.take().is_some() {
            wipe(&mut self.secret);
            wipe(&mut self.output);
        }
    }
}

#[cfg(test)]
mod tests {
    use widelane_cpu::{Policy, Width};
    use widelane_testkit::random::Random;

    use super::*;

    /// What is derived from a secret, and how many are kept behind it.
    fn derived(kdf: &Kdf, secret: &[u8]) -> (Vec<u8>, usize) {
        let mut output = vec![0; 16];
        with_secret(kdf, secret, |secret| secret.expand_label(PREFIX, b"key", b"", &mut output))
            .expect("short enough");
        let is_kept = |place: &&Place| place.ready.is_some();
        (output, KEPT.with_borrow(|kept| kept.secrets.places.iter().filter(is_kept).count()))
    }

    #[test]
    fn secrets_are_kept_on_a_fibre_only_and_told_apart() {
        for hash in Hash::ALL {
            let kdf = Kdf::choose(hash, &Policy::open());
            let secrets = [1, 2, 3].map(|byte| vec![byte; hash.bytes()]);
            let expected = secrets.each_ref().map(|secret| derived(&kdf, secret).0);
            assert_eq!(derived(&kdf, &secrets[0]).1, 0, "not on a fibre");
            fibre(true);
            for which in [0, 0, 1, 0, 1, 2, 1, 0, 2] {
                assert_eq!(derived(&kdf, &secrets[which]).0, expected[which]);
            }
            assert_eq!(derived(&kdf, &secrets[0]).1, KEPT_MAX);
            fibre(false);
            assert_eq!(derived(&kdf, &secrets[0]), (expected[0].clone(), 0));
            let is_wiped = |place: &Place| place.bytes == [0; Hash::BYTES_MAX];
            assert!(KEPT.with_borrow(|kept| kept.secrets.places.iter().all(is_wiped)));
        }
    }

    #[test]
    fn the_beginning_of_a_secret_is_another_secret() {
        let [short, long] = Hash::ALL.map(|hash| Kdf::choose(hash, &Policy::open()));
        let secret = [7; 48];
        let expected = [derived(&short, &secret[..32]).0, derived(&long, &secret).0];
        fibre(true);
        for _ in 0..2 {
            assert_eq!(derived(&long, &secret).0, expected[1]);
            assert_eq!(derived(&short, &secret[..32]).0, expected[0]);
            assert_ne!(derived(&long, &secret[..32]).0, expected[1]);
        }
        fibre(false);
    }

    /// What is asked for: a place among the secrets, a label, a context and a length.
    type Question<'a> = (&'a [u8], &'a [u8], &'a [u8], &'a [u8], usize);

    fn answer(kdf: &Kdf, (secret, prefix, label, context, bytes): Question<'_>) -> Option<Vec<u8>> {
        let mut output = vec![0; bytes];
        expand(kdf, Ask { secret, prefix, label, context }, &mut output).map(|()| output)
    }

    /// Values that are kept.
    fn values() -> usize {
        let is_kept = |value: &&Value| value.label.is_some();
        KEPT.with_borrow(|kept| kept.values.places.iter().filter(is_kept).count())
    }

    #[test]
    fn values_are_the_same_in_any_order_and_gone_behind_the_fibre() {
        for hash in Hash::ALL {
            let narrow = [Width::W256, Width::W128].map(Policy::up_to);
            for policy in narrow.into_iter().chain([Policy::open()]) {
                let kdf = Kdf::choose(hash, &policy);
                let bytes = hash.bytes();
                let contexts = [vec![5; bytes], vec![6; bytes], vec![5; bytes - 1], vec![]];
                // Two secrets of a stage, all that is derived from them, and theirs.
                let mut secrets = vec![vec![1; bytes], vec![2; bytes], vec![3; bytes - 1]];
                for from in 0..2 {
                    for label in
                        [SERVER_HANDSHAKE, CLIENT_HANDSHAKE, SERVER_APPLICATION, CLIENT_APPLICATION]
                    {
                        let question = (&secrets[from][..], PREFIX, label, &contexts[0][..], bytes);
                        secrets.push(answer(&kdf, question).expect("usual"));
                    }
                }
                let labels = [
                    SERVER_HANDSHAKE,
                    CLIENT_HANDSHAKE,
                    SERVER_APPLICATION,
                    CLIENT_APPLICATION,
                    EXPORTER,
                    KEY,
                    IV,
                    FINISHED,
                    b"res master",
                ];
                let mut random = Random::new(bytes as u64);
                let mut pick = |count: usize| random.next_u64() as usize % count;
                let mut most = 0;
                for _ in 0..400 {
                    let mut questions: Vec<Question<'_>> = Vec::new();
                    for _ in 0..20 {
                        let label = labels[pick(labels.len())];
                        let usual = match label {
                            KEY => 32,
                            IV => 12,
                            _ => bytes,
                        };
                        let context = match label {
                            KEY | IV | FINISHED => &contexts[3],
                            _ => &contexts[pick(2)],
                        };
                        questions.push((
                            &secrets[pick(secrets.len())],
                            [PREFIX, b"quic "][usize::from(pick(16) == 0)],
                            label,
                            if pick(8) == 0 { &contexts[pick(4)] } else { context },
                            if pick(8) == 0 { pick(100) } else { usual },
                        ));
                    }
                    let expected: Vec<_> =
                        questions.iter().map(|question| answer(&kdf, *question)).collect();
                    assert_eq!(values(), 0, "not on a fibre");
                    fibre(true);
                    for (question, expected) in questions.iter().zip(&expected) {
                        assert_eq!(answer(&kdf, *question), *expected, "{hash:?}, {question:?}");
                    }
                    most = most.max(values());
                    fibre(false);
                    assert_eq!(values(), 0);
                    let is_wiped = |value: &Value| {
                        value.secret == [0; Hash::BYTES_MAX] && value.output == value.secret
                    };
                    assert!(KEPT.with_borrow(|kept| kept.values.places.iter().all(is_wiped)));
                }
                assert_eq!(most, if kdf.gains_at_once() { VALUES_MAX } else { 0 });
            }
        }
    }

    /// libssl's own calls of a handshake: what is derived with another value answers them.
    #[test]
    fn libssl_finds_what_was_derived_with_others() {
        for hash in Hash::ALL {
            let kdf = Kdf::choose(hash, &Policy::open());
            // Without lanes and SHA extensions nothing is derived before it is asked for.
            if !kdf.gains_at_once() {
                continue;
            }
            let bytes = hash.bytes();
            let (stage, context) = (vec![1; bytes], vec![2; bytes]);
            let ask = |secret: &[u8], label, context: &[u8], bytes| {
                let before = KEPT.with_borrow(|kept| kept.values.next);
                let output = answer(&kdf, (secret, PREFIX, label, context, bytes)).expect("usual");
                (output, KEPT.with_borrow(|kept| kept.values.next) == before)
            };
            fibre(true);
            let (server, _) = ask(&stage, SERVER_HANDSHAKE, &context, bytes);
            assert!(!ask(&server, KEY, &[], 16).1);
            assert!(ask(&server, IV, &[], IV_BYTES).1 && ask(&server, FINISHED, &[], bytes).1);
            let (client, is_found) = ask(&stage, CLIENT_HANDSHAKE, &context, bytes);
            assert!(is_found && ask(&client, KEY, &[], 16).1);
            assert!(ask(&client, IV, &[], IV_BYTES).1 && ask(&client, FINISHED, &[], bytes).1);
            let (server, _) = ask(&stage, SERVER_APPLICATION, &context, bytes);
            assert!(!ask(&server, KEY, &[], 16).1 && ask(&server, IV, &[], IV_BYTES).1);
            assert!(ask(&stage, EXPORTER, &context, bytes).1);
            let (client, _) = ask(&stage, CLIENT_APPLICATION, &context, bytes);
            assert!(!ask(&client, KEY, &[], 16).1 && ask(&client, IV, &[], IV_BYTES).1);
            fibre(false);
        }
    }
}

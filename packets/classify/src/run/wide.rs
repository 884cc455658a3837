//! What the two wide rooms have in common: doors, keys, index bits and prefetches.
#![allow(unsafe_code, reason = "text of rooms: their doors, loads and prefetches")]

/// Implements a room whose file has `matches_body`, which compares a chunk, and `first_body`, which
/// says what the first rule says that matches.
macro_rules! wide_room {
    ($token:ident, features = $features:literal) => {
        /// Looks up packets that are as long as the layout's span.
        pub(super) fn classify<W: Words, const K: usize, const C: usize>(
            room: $token,
            words: W,
            view: View<'_>,
            packets: &[&[u8]],
            results: &mut [u32],
        ) {
            if packets.len() <= FEW {
                // SAFETY: the token exists only if every feature enabled was detected.
                unsafe { few_body::<W, K, C>(room, words, view, packets, results) }
            } else {
                // SAFETY: the token exists only if every feature enabled was detected.
                unsafe { many_body::<W, K, C>(room, words, view, packets, results) }
            }
        }

        #[target_feature(enable = $features)]
        fn few_body<W: Words, const K: usize, const C: usize>(
            room: $token,
            words: W,
            view: View<'_>,
            packets: &[&[u8]],
            results: &mut [u32],
        ) {
            burst::few::<_, W, K, C>(Wide(room), words, view, packets, results);
        }

        #[target_feature(enable = $features)]
        fn many_body<W: Words, const K: usize, const C: usize>(
            room: $token,
            words: W,
            view: View<'_>,
            packets: &[&[u8]],
            results: &mut [u32],
        ) {
            burst::many::<_, W, K, C>(Wide(room), words, view, packets, results);
        }

        #[derive(Clone, Copy)]
        struct Wide($token);

        impl Engine for Wide {
            const COMPARES_AT_ONCE: bool = true;

            #[inline(always)]
            fn keys<W: Words, const K: usize, const N: usize>(
                self,
                recipe: &Recipe,
                packets: &[&[u8]],
                keys: &mut List<[u64; K], N>,
            ) {
                // SAFETY: the token in `self` proves the features.
                unsafe { keys_body::<W, K, N>(&recipe.windows, packets, keys) }
            }

            #[inline(always)]
            fn extract(self, word: u64, mask: u64) -> u64 {
                // SAFETY: the token in `self` proves the features.
                unsafe { extract_body(word, mask) }
            }

            #[inline(always)]
            fn first<W: Words>(self, words: W, chunk: &[u64], key: &[u64]) -> (bool, u64) {
                // SAFETY: the token in `self` proves the features.
                unsafe { first_body(words, chunk, key) }
            }

            #[inline(always)]
            fn matches<W: Words, const ALL: bool>(
                self,
                words: W,
                chunk: &[u64],
                key: &[u64],
            ) -> u32 {
                // SAFETY: the token in `self` proves the features.
                unsafe { matches_body(words, chunk, key) }
            }

            #[inline(always)]
            fn prefetch(self, words: &[u64]) {
                for line in words.chunks(8) {
                    // SAFETY: fetching ahead reads nothing that the program could see.
                    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) }
                }
            }

            #[inline(always)]
            fn pass_over<W: Words, const K: usize, const C: usize>(
                search: Search<'_, Self, W>,
                key: &[u64; K],
                best: &mut [u64; C],
                fresh: &[u64; C],
            ) {
                // SAFETY: the token in the room proves the features.
                unsafe { pass_over_body(search, key, best, fresh) }
            }

            #[inline(always)]
            fn go_on<W: Words, const K: usize, const C: usize>(
                search: Search<'_, Self, W>,
                keys: &[[u64; K]],
                best: &mut [[u64; C]],
                queues: &mut Queues,
            ) {
                // SAFETY: the token in the room proves the features.
                unsafe { go_on_body(search, keys, best, queues) }
            }
        }

        #[inline(never)]
        #[target_feature(enable = $features)]
        fn go_on_body<W: Words, const K: usize, const C: usize>(
            search: Search<'_, Wide, W>,
            keys: &[[u64; K]],
            best: &mut [[u64; C]],
            queues: &mut Queues,
        ) {
            search.go_on(keys, best, queues);
        }

        #[inline(never)]
        #[target_feature(enable = $features)]
        fn pass_over_body<W: Words, const K: usize, const C: usize>(
            search: Search<'_, Wide, W>,
            key: &[u64; K],
            best: &mut [u64; C],
            fresh: &[u64; C],
        ) {
            search.pass_over(key, best, fresh);
        }

        // One function for each kind of words: what is called in one place only becomes part of its
        // caller, which spares lone lookups a fifth.
        #[inline]
        #[target_feature(enable = $features)]
        fn keys_body<W: Words, const K: usize, const N: usize>(
            windows: &[Window],
            packets: &[&[u8]],
            keys: &mut List<[u64; K], N>,
        ) {
            let mut keys = keys.writer();
            if let ([only], true) = (windows, K == 2) {
                for packet in packets {
                    let mut key = [0; K];
                    key[..2].copy_from_slice(&words_of(pick(packet, only)));
                    keys.push(key);
                }
                return;
            }
            for packet in packets {
                let mut key = [0; K];
                for window in windows {
                    let block = &mut key.as_chunks_mut().0[window.block];
                    *block = words_of(_mm_or_si128(pick(packet, window), of_words(*block)));
                }
                keys.push(key);
            }
        }

        /// The bytes of a packet that a window holds, where they belong in two words of the key.
        #[inline]
        #[target_feature(enable = $features)]
        fn pick(packet: &[u8], window: &Window) -> __m128i {
            let bytes = match window.bytes(packet) {
                Some(bytes) => load_bytes(bytes),
                None => load_bytes(&window.last_bytes(packet)),
            };
            _mm_shuffle_epi8(bytes, load_bytes(&window.shuffle))
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn extract_body(word: u64, mask: u64) -> u64 {
            _pext_u64(word, mask)
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn load_bytes(bytes: &[u8; WINDOW]) -> __m128i {
            // SAFETY: an array of 16 bytes.
            unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn of_words(words: [u64; 2]) -> __m128i {
            _mm_set_epi64x(words[1] as i64, words[0] as i64)
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn words_of(block: __m128i) -> [u64; 2] {
            let mut words = [0; 2];
            // SAFETY: an array of 16 bytes.
            unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), block) }
            words
        }
    };
}

pub(super) use wide_room;

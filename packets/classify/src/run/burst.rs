//! The search that all rooms share.
//!
//! A few packets are looked up one after the other. More go through the trees side by side, in
//! loops whose turns do not wait for each other: in every group all packets take the first step,
//! and all compare the first chunk they come to. Packets that have to go on are put into a list
//! without a branch, and go on when all groups have been entered. So a processor predicts well and
//! has many loads under way, and few loops are too short to be worth their overhead.

use std::hint::select_unpredictable;
use std::mem;

use super::keys::Recipe;
use super::list::{List, Writer};
use super::shared::Chunks;
use crate::table::{Entry, Gone, NOTHING, Node, RULES_PER_CHUNK, Shape, Table, rank_of, verdict};

/// Packets that are looked up side by side.
const BURST: usize = 64;
/// Up to this many packets are looked up one after the other.
pub(super) const FEW: usize = 4;
/// When this many wait to go on, they do so before the next group is entered: what they find may
/// spare them the search there. Fewer would cost more alone than with others.
const MANY: usize = 8;
/// If one packet in this many of a burst comes to another node behind the first, all visit two.
const DEEP: usize = 4;
/// Places for those that wait.
const WAITING: usize = BURST + MANY;
/// Tables beyond this size are fetched ahead: they do not fit the nearest caches.
const NEAR_BYTES: usize = 1 << 20;

/// What a room does in its own way.
pub(super) trait Engine: Copy {
    /// Whether comparing a chunk costs less than a branch that is predicted wrongly.
    const COMPARES_AT_ONCE: bool;

    /// Reads the keys of packets.
    fn keys<W: Words, const K: usize, const N: usize>(
        self,
        recipe: &Recipe,
        packets: &[&[u8]],
        keys: &mut List<[u64; K], N>,
    );

    /// Gathers the bits of `word` under `mask` at the low end.
    fn extract(self, word: u64, mask: u64) -> u64;

    /// Whether any of the eight rules of a chunk matches, and what the first of those says, or
    /// [`NONE`].
    fn first<W: Words>(self, words: W, chunk: &[u64], key: &[u64]) -> (bool, u64);

    /// Which of the eight rules of a chunk match, the first in the lowest bit. Unless `ALL`, only
    /// the lowest bit that is set counts.
    fn matches<W: Words, const ALL: bool>(self, words: W, chunk: &[u64], key: &[u64]) -> u32;

    /// Fetches what will be read soon.
    fn prefetch(self, words: &[u64]);

    /// [`Search::pass_over`], as a function of its own: beside it, the search that every packet
    /// takes would become other code, which takes half as long again for long keys.
    fn pass_over<W: Words, const K: usize, const C: usize>(
        search: Search<'_, Self, W>,
        key: &[u64; K],
        best: &mut [u64; C],
        fresh: &[u64; C],
    );

    /// [`Search::go_on`], as a function of its own for the same reason.
    fn go_on<W: Words, const K: usize, const C: usize>(
        search: Search<'_, Self, W>,
        keys: &[[u64; K]],
        best: &mut [[u64; C]],
        queues: &mut Queues,
    );
}

/// The verdicts of a chunk.
#[inline(always)]
pub(super) fn verdicts(chunk: &[u64]) -> &[u64] {
    &chunk[chunk.len() - RULES_PER_CHUNK..]
}

/// What no rule says: all verdicts are less.
pub(super) const NONE: u64 = u64::MAX;

/// What the first of the rules says that match, of which each has a bit; and whether there is one.
#[inline(always)]
pub(super) fn first_of(matching: u32, chunk: &[u64]) -> (bool, u64) {
    let verdict = verdicts(chunk)[matching.trailing_zeros() as usize % RULES_PER_CHUNK];
    (matching != 0, verdict | if matching == 0 { NONE } else { 0 })
}

/// How many words of each kind a key has, if possible known when this is compiled.
pub(super) trait Words: Copy {
    fn shape(self) -> Shape;
}

/// A shape that has code of its own.
#[derive(Clone, Copy)]
pub(super) struct Fixed<const MASKS: usize, const HALVES: usize, const PAIRED: bool>;

impl<const MASKS: usize, const HALVES: usize, const PAIRED: bool> Words
    for Fixed<MASKS, HALVES, PAIRED>
{
    #[inline(always)]
    fn shape(self) -> Shape {
        Shape { masks: MASKS, halves: HALVES, wholes: 0, paired: PAIRED }
    }
}

impl Words for Shape {
    #[inline(always)]
    fn shape(self) -> Shape {
        self
    }
}

/// What a lookup needs.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub table: &'a Table,
    pub recipe: &'a Recipe,
    roots: &'a [u64],
    index: &'a [u64],
    chunks: Chunks<'a>,
    gone: &'a Gone,
    /// The verdict that nothing has been found.
    nothing: u64,
    far: bool,
}

impl<'a> View<'a> {
    #[inline(always)]
    pub fn new(table: &'a Table, recipe: &'a Recipe) -> Self {
        let (index, chunks) = (table.index(), table.chunks());
        let nothing = verdict(NOTHING, table.default());
        let far = table.searched_bytes() > NEAR_BYTES;
        let (roots, gone) = (&index[..table.roots()], table.gone());
        View { table, recipe, roots, index, chunks, gone, nothing, far }
    }
}

/// Looks up packets that are as long as the layout's span.
#[inline(always)]
pub(super) fn many<E: Engine, W: Words, const K: usize, const C: usize>(
    engine: E,
    words: W,
    view: View<'_>,
    packets: &[&[u8]],
    results: &mut [u32],
) {
    let search = Search { engine, words, view };
    let categories = if C == 1 { 1 } else { view.table.categories() };
    // Categories beyond those in use never ask for a search.
    let mut fresh = [0; C];
    fresh[..categories].fill(view.nothing);
    let mut keys = List::<[u64; K], BURST>::new();
    let mut best = List::<[u64; C], BURST>::new();
    for (packets, results) in packets.chunks(BURST).zip(results.chunks_mut(BURST * categories)) {
        keys.clear();
        engine.keys::<W, K, _>(view.recipe, packets, &mut keys);
        best.fill(packets.len(), fresh);
        search.side_by_side(keys.as_slice(), best.as_mut_slice());
        if !view.gone.ranks.is_empty() {
            for (key, best) in keys.as_slice().iter().zip(best.as_mut_slice()) {
                E::pass_over(search, key, best, &fresh);
            }
        }
        for (results, best) in results.chunks_mut(categories).zip(best.as_slice()) {
            for (result, best) in results.iter_mut().zip(best) {
                *result = *best as u32;
            }
        }
    }
}

/// Looks up few packets that are as long as the layout's span, one after the other.
#[inline(always)]
pub(super) fn few<E: Engine, W: Words, const K: usize, const C: usize>(
    engine: E,
    words: W,
    view: View<'_>,
    packets: &[&[u8]],
    results: &mut [u32],
) {
    let search = Search { engine, words, view };
    let categories = if C == 1 { 1 } else { view.table.categories() };
    let mut fresh = [0; C];
    fresh[..categories].fill(view.nothing);
    let mut keys = List::<[u64; K], FEW>::new();
    engine.keys::<W, K, _>(view.recipe, packets, &mut keys);
    for (key, results) in keys.as_slice().iter().zip(results.chunks_mut(categories)) {
        let mut best = fresh;
        for &root in view.roots {
            search.down(Entry(root), key, &mut best);
        }
        if !view.gone.ranks.is_empty() {
            E::pass_over(search, key, &mut best, &fresh);
        }
        for (result, best) in results.iter_mut().zip(best) {
            *result = best as u32;
        }
    }
}

/// A packet that goes on, and where.
#[derive(Clone, Copy)]
struct Waiting {
    entry: Entry,
    packet: u32,
}

/// Packets that go on: at nodes, and in leaves.
pub(super) struct Queues {
    nodes: List<Waiting, WAITING>,
    leaves: List<Waiting, WAITING>,
    /// Takes turns with the others.
    next: List<Waiting, WAITING>,
}

impl Queues {
    /// What adds to the nodes and to the leaves.
    #[inline(always)]
    fn writers(&mut self) -> [Writer<'_, Waiting, WAITING>; 2] {
        [self.nodes.writer(), self.leaves.writer()]
    }
}

/// A room at work on a table.
#[derive(Clone, Copy)]
pub(super) struct Search<'a, E, W> {
    engine: E,
    words: W,
    view: View<'a>,
}

impl<E: Engine, W: Words> Search<'_, E, W> {
    /// Takes one packet through a group.
    #[inline(always)]
    fn down<const K: usize, const C: usize>(
        self,
        root: Entry,
        key: &[u64; K],
        best: &mut [u64; C],
    ) {
        let mut entry = root;
        while entry.may_better(worst(best)) {
            if entry.is_node() {
                entry = self.step::<true, K>(&Node::at(self.view.index, entry.node_at()), key);
                continue;
            }
            let found = self.look::<false, C>(entry, key, best);
            if found && C == 1 || !entry.is_long() {
                return;
            }
            entry = entry.next_chunk();
        }
    }

    /// Searches again for a packet if it has met a rule that is gone, and passes over all such.
    #[inline(always)]
    pub(super) fn pass_over<const K: usize, const C: usize>(
        self,
        key: &[u64; K],
        best: &mut [u64; C],
        fresh: &[u64; C],
    ) {
        let gone = self.view.gone;
        if !best.iter().any(|verdict| gone.has(*verdict)) {
            return;
        }
        *best = *fresh;
        for &root in self.view.roots.iter().chain(&self.view.index[gone.shadowed..][..Gone::ROOTS])
        {
            let mut entry = Entry(root);
            while entry.may_better(worst(best)) && entry != Entry::EMPTY {
                if entry.is_node() {
                    entry = self.step::<true, K>(&Node::at(self.view.index, entry.node_at()), key);
                    continue;
                }
                let chunk = self.chunk(entry);
                let mut left = self.engine.matches::<W, true>(self.words, chunk, key);
                while left != 0 {
                    let verdict = verdicts(chunk)[left.trailing_zeros() as usize % RULES_PER_CHUNK];
                    if !gone.has(verdict) {
                        self.note(verdict, best);
                    }
                    left &= left - 1;
                }
                if !entry.is_long() {
                    break;
                }
                entry = entry.next_chunk();
            }
        }
    }

    /// Takes all packets of a burst through all groups.
    #[inline(always)]
    fn side_by_side<const K: usize, const C: usize>(
        self,
        keys: &[[u64; K]],
        best: &mut [[u64; C]],
    ) {
        let mut queues = Queues { nodes: List::new(), leaves: List::new(), next: List::new() };
        for (turn, &root) in self.view.roots.iter().enumerate() {
            let node = Node::at(self.view.index, Entry(root).node_at());
            if turn > 0 {
                self.enter_promising(&node, keys, best, &mut queues);
            } else if self.view.far {
                match node.leads_on() {
                    true => self.enter_far::<true, K, C>(&node, keys, best, &mut queues),
                    false => self.enter_far::<false, K, C>(&node, keys, best, &mut queues),
                }
            } else {
                match (node.leads_on(), node.second_mask != 0) {
                    (true, true) => self.enter::<true, true, K, C>(&node, keys, best, &mut queues),
                    (true, false) => {
                        self.enter::<true, false, K, C>(&node, keys, best, &mut queues);
                    }
                    (false, true) => {
                        self.enter::<false, true, K, C>(&node, keys, best, &mut queues);
                    }
                    (false, false) => {
                        self.enter::<false, false, K, C>(&node, keys, best, &mut queues);
                    }
                }
            }
            if queues.nodes.len() + queues.leaves.len() >= MANY {
                E::go_on(self, keys, best, &mut queues);
            }
        }
        if queues.nodes.len() + queues.leaves.len() > 0 {
            E::go_on(self, keys, best, &mut queues);
        }
    }

    /// Takes all packets through the first node of a group and the first chunk behind it. Those
    /// that have to go on wait; there are none if the node leads to single chunks only (`!ON`). The
    /// node looks at one word of the key, or at `TWO`.
    #[inline(always)]
    fn enter<const ON: bool, const TWO: bool, const K: usize, const C: usize>(
        self,
        node: &Node<'_>,
        keys: &[[u64; K]],
        best: &mut [[u64; C]],
        queues: &mut Queues,
    ) {
        let mut waiting = queues.writers();
        for (packet, (key, best)) in keys.iter().zip(best).enumerate() {
            let entry = self.step::<TWO, K>(node, key);
            if ON {
                self.arrive::<true, K, C>(entry, packet as u32, key, best, &mut waiting);
            } else {
                self.look::<true, C>(entry, key, best);
            }
        }
    }

    /// The same for a table that does not fit the nearest caches: all chunks are on their way
    /// before the first is compared. If many packets have another node to look at first (`ON`), all
    /// do so side by side; the others visit their first node once more, to no effect.
    #[inline(always)]
    fn enter_far<const ON: bool, const K: usize, const C: usize>(
        self,
        node: &Node<'_>,
        keys: &[[u64; K]],
        best: &mut [[u64; C]],
        queues: &mut Queues,
    ) {
        let mut entries = [Entry::EMPTY; BURST];
        let mut nodes = 0;
        for (key, entry) in keys.iter().zip(&mut entries) {
            *entry = self.step::<true, K>(node, key);
            nodes += usize::from(entry.is_node());
            if !ON {
                self.engine.prefetch(self.chunk(*entry));
            }
        }
        if ON && nodes * DEEP > keys.len() {
            self.go_deeper(keys, &mut entries);
        } else if ON {
            for entry in &entries[..keys.len()] {
                self.engine.prefetch(self.chunk(entry.or_nothing()));
            }
        }
        let mut waiting = queues.writers();
        for (packet, (key, best)) in keys.iter().zip(best).enumerate() {
            if ON {
                self.arrive::<true, K, C>(entries[packet], packet as u32, key, best, &mut waiting);
            } else {
                self.look::<true, C>(entries[packet], key, best);
            }
        }
    }

    /// Takes all packets that have come to another node through that one, and has their chunks
    /// fetched.
    #[inline(always)]
    fn go_deeper<const K: usize>(self, keys: &[[u64; K]], entries: &mut [Entry]) {
        let root_at = Entry(self.view.roots[0]).node_at();
        for (key, entry) in keys.iter().zip(entries) {
            let at = select_unpredictable(entry.is_node(), entry.node_at(), root_at);
            let next = self.step::<true, K>(&Node::at(self.view.index, at), key);
            *entry = select_unpredictable(entry.is_node(), next, *entry);
            self.engine.prefetch(self.chunk(entry.or_nothing()));
        }
    }

    /// The same for a group in which many packets have nothing to find: only those that may better
    /// what they know look at a chunk.
    #[inline(always)]
    fn enter_promising<const K: usize, const C: usize>(
        self,
        node: &Node<'_>,
        keys: &[[u64; K]],
        best: &mut [[u64; C]],
        queues: &mut Queues,
    ) {
        let mut list = List::<Waiting, BURST>::new();
        let mut promising = list.writer();
        for (packet, (key, best)) in keys.iter().zip(&*best).enumerate() {
            let entry = self.step::<true, K>(node, key);
            let packet = packet as u32;
            promising.push_if(entry.may_better(worst(best)), Waiting { entry, packet });
            if self.view.far {
                self.engine.prefetch(self.chunk(entry.or_nothing()));
            }
        }
        drop(promising);
        let mut waiting = queues.writers();
        for &Waiting { entry, packet } in list.as_slice() {
            let (key, best) = (&keys[packet as usize], &mut best[packet as usize]);
            self.arrive::<false, K, C>(entry, packet, key, best, &mut waiting);
        }
    }

    /// Compares a packet with the first chunk of the leaf it has come to, and notes if it has to go
    /// on.
    #[inline(always)]
    fn arrive<const FIRST: bool, const K: usize, const C: usize>(
        self,
        entry: Entry,
        packet: u32,
        key: &[u64; K],
        best: &mut [u64; C],
        [nodes, leaves]: &mut [Writer<'_, Waiting, WAITING>; 2],
    ) {
        let found = self.look::<FIRST, C>(entry.or_nothing(), key, best);
        // Few go on: a branch costs less than writing all of them down.
        if entry.is_node() | entry.is_long() & (!found | (C > 1)) {
            nodes.push_if(entry.is_node(), Waiting { entry, packet });
            leaves.push_if(!entry.is_node(), Waiting { entry: entry.next_chunk(), packet });
        }
    }

    /// Takes all that wait to where they end.
    #[inline(always)]
    pub(super) fn go_on<const K: usize, const C: usize>(
        self,
        keys: &[[u64; K]],
        best: &mut [[u64; C]],
        queues: &mut Queues,
    ) {
        let (mut nodes, mut leaves) = (&mut queues.nodes, &mut queues.leaves);
        let mut next = &mut queues.next;
        while nodes.len() > FEW {
            if self.view.far {
                for waiting in nodes.as_slice() {
                    let at = waiting.entry.node_at();
                    self.engine.prefetch(&self.view.index[at..at + 1]);
                }
            }
            next.clear();
            let (mut deeper, mut arrived) = (next.writer(), leaves.writer());
            for &Waiting { entry, packet } in nodes.as_slice() {
                let node = Node::at(self.view.index, entry.node_at());
                let entry = self.step::<true, K>(&node, &keys[packet as usize]);
                let promising = entry.may_better(worst(&best[packet as usize]));
                deeper.push_if(promising & entry.is_node(), Waiting { entry, packet });
                arrived.push_if(promising & !entry.is_node(), Waiting { entry, packet });
            }
            drop((deeper, arrived));
            mem::swap(&mut nodes, &mut next);
        }
        // One after the other: a loop for few costs more than it overlaps.
        for &Waiting { entry, packet } in nodes.as_slice() {
            self.down(entry, &keys[packet as usize], &mut best[packet as usize]);
        }
        while leaves.len() > FEW {
            if self.view.far {
                for waiting in leaves.as_slice() {
                    self.engine.prefetch(self.chunk(waiting.entry));
                }
            }
            next.clear();
            let mut more = next.writer();
            for &Waiting { entry, packet } in leaves.as_slice() {
                let (key, best) = (&keys[packet as usize], &mut best[packet as usize]);
                let entry = self.promising(entry, best);
                let found = self.look::<false, C>(entry, key, best);
                let goes_on = (!found | (C > 1)) & entry.is_long();
                more.push_if(goes_on, Waiting { entry: entry.next_chunk(), packet });
            }
            drop(more);
            mem::swap(&mut leaves, &mut next);
        }
        for &Waiting { entry, packet } in leaves.as_slice() {
            self.down(entry, &keys[packet as usize], &mut best[packet as usize]);
        }
        for queue in [nodes, leaves, next] {
            queue.clear();
        }
    }

    /// The leaf, or none if nothing better than what is known can be found there.
    #[inline(always)]
    fn promising<const C: usize>(self, entry: Entry, best: &[u64; C]) -> Entry {
        select_unpredictable(entry.may_better(worst(best)), entry, Entry::EMPTY)
    }

    /// Compares a key with the chunk that an entry names, and says whether a rule matches. `FIRST`
    /// says that nothing has been found yet.
    #[inline(always)]
    fn look<const FIRST: bool, const C: usize>(
        self,
        entry: Entry,
        key: &[u64],
        best: &mut [u64; C],
    ) -> bool {
        // Where a comparison is cheap, the miss chunk is compared like any other.
        if (!E::COMPARES_AT_ONCE || C > 1) && entry == Entry::EMPTY {
            return false;
        }
        let chunk = self.chunk(entry);
        if C == 1 {
            let (found, verdict) = self.engine.first(self.words, chunk, key);
            let known = if FIRST { self.view.nothing } else { best[0] };
            best[0] = select_unpredictable(verdict < known, verdict, known);
            return found;
        }
        let found = self.engine.matches::<W, true>(self.words, chunk, key);
        let mut left = found;
        while left != 0 {
            self.note(verdicts(chunk)[left.trailing_zeros() as usize % RULES_PER_CHUNK], best);
            left &= left - 1;
        }
        found != 0
    }

    /// Notes a verdict in the categories of its rule, where it is better than what is known. Of
    /// rules that share a rank, the one that comes first is the better one.
    #[inline(always)]
    fn note<const C: usize>(self, verdict: u64, best: &mut [u64; C]) {
        let of = if C == 1 { 1 } else { self.view.table.categories_of(rank_of(verdict)) };
        for (category, known) in best.iter_mut().enumerate() {
            if of >> category & 1 == 1 && rank_of(verdict) < rank_of(*known) {
                *known = verdict;
            }
        }
    }

    /// The chunk of a leaf.
    #[inline(always)]
    fn chunk(&self, entry: Entry) -> &[u64] {
        let stride = self.words.shape().chunk_words();
        self.view.chunks.get(entry.chunk() * stride, stride)
    }

    /// Looks at the bits of a key that a node names, in one word or in `TWO`.
    #[inline(always)]
    fn step<const TWO: bool, const K: usize>(self, node: &Node<'_>, key: &[u64; K]) -> Entry {
        let first = self.engine.extract(key[node.first() % K], node.first_mask);
        if !TWO {
            return Entry(node.entries[first as usize]);
        }
        let second = self.engine.extract(key[node.second() % K], node.second_mask);
        Entry(node.entries[(first | second << node.first_bits()) as usize])
    }
}

/// The weakest verdict of all categories: nothing weaker is of use.
#[inline(always)]
fn worst<const C: usize>(best: &[u64; C]) -> u64 {
    best.iter().copied().max().unwrap_or(0)
}

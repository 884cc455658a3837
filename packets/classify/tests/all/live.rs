//! Rules that change while packets are looked up, against a search of one rule after another.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use widelane_classify::live::{Live, RuleId, UpdateError};
use widelane_classify::rule::{Field, Layout, Match, Rule, RuleSet, classbench, dpdk};
use widelane_classify::{BuildError, Classifier, Flow, Limits};
use widelane_cpu::Policy;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::rules::{self, Family, Version};

/// The rules that a live set should have: what it is compared with.
#[derive(Clone)]
struct Model {
    /// No rules, but all else.
    shape: RuleSet,
    /// In the order of their numbers.
    rules: Vec<(RuleId, Rule)>,
}

impl Model {
    fn new(set: &RuleSet) -> Self {
        let ids = (0..).map(RuleId);
        let shape = RuleSet { rules: Vec::new(), ..set.clone() };
        Model { shape, rules: ids.zip(set.rules.iter().cloned()).collect() }
    }

    /// The results of packets, side by side.
    fn results(&self, packets: &[&[u8]]) -> Vec<u32> {
        let mut rules: Vec<&Rule> = self.rules.iter().map(|(_, rule)| rule).collect();
        rules.sort_by_key(|rule| Reverse(rule.priority));
        let layout = &self.shape.layout;
        let matches = |rule: &Rule, packet: &[u8]| {
            let mut pairs = rule.matches.iter().zip(layout.fields());
            pairs.all(|(of, field)| of.accepts(layout.value(field, packet)))
        };
        let result = |packet: &[u8], category: usize| {
            let of = |rule: &&&Rule| rule.categories >> category & 1 == 1 && matches(rule, packet);
            rules.iter().find(of).map_or(self.shape.default, |rule| rule.result)
        };
        let categories = 0..self.shape.categories;
        packets
            .iter()
            .flat_map(|packet| categories.clone().map(move |category| result(packet, category)))
            .collect()
    }

    /// Makes one change, the same here and there. `spare` has rules to insert.
    fn change(&mut self, live: &Live, spare: &[Rule], random: &mut Random) {
        let mut rule = spare[random.below(spare.len())].clone();
        rule.result = random.below(1000) as u32;
        rule.priority = random.below(3) as i32 - 1;
        let at = random.below(self.rules.len().max(1));
        match random.below(4) {
            1 if !self.rules.is_empty() => {
                let (id, old) = self.rules.remove(at);
                assert_eq!(live.remove(id).unwrap(), old);
            }
            2 if !self.rules.is_empty() => {
                live.change(self.rules[at].0, rule.clone()).unwrap();
                self.rules[at].1 = rule;
            }
            3 if !self.rules.is_empty() => {
                let changed = Rule { result: rule.result, ..self.rules[at].1.clone() };
                live.change(self.rules[at].0, changed.clone()).unwrap();
                self.rules[at].1 = changed;
            }
            _ => {
                let id = live.insert(rule.clone()).unwrap();
                assert!(self.rules.last().is_none_or(|(last, _)| *last < id));
                self.rules.push((id, rule));
            }
        }
    }
}

/// A set of a family, rules to insert into it, and flows for both.
fn family(family: Family, count: usize, seed: u64) -> (RuleSet, Vec<Rule>, Vec<Flow>) {
    let generated = rules::generate(family, 2 * count, seed);
    let mut set = match generated.version {
        Version::V4 => classbench::parse("generated", &rules::classbench(&generated)).unwrap(),
        Version::V6 => dpdk::parse("generated", &rules::dpdk(&generated)).unwrap(),
    };
    let flows = Flow::drawn(&set, 120, seed).unwrap();
    let spare = set.rules.split_off(count);
    (set, spare, flows)
}

#[test]
fn every_change_is_seen_at_once_and_rightly() {
    let families =
        [Family::Acl, Family::Fw, Family::Ipc, Family::Random, Family::OneField, Family::RandomV6];
    for_each_room_of(Classifier::ROOMS, |room, policy| {
        for (of, seed) in families.into_iter().zip(1..) {
            let (set, spare, flows) = family(of, 200, seed);
            let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
            let live = Live::new(&set, &Limits::default(), policy).unwrap();
            assert_eq!(live.room(), room);
            let mut reader = live.reader();
            let (mut model, mut random) = (Model::new(&set), Random::new(seed));
            let mut results = vec![0; packets.len()];
            for version in 0..40 {
                assert_eq!(reader.classify(&packets, &mut results), Ok(version));
                assert_eq!(results, model.results(&packets), "{of:?} {room} {version}");
                model.change(&live, &spare, &mut random);
                if version % 15 == 14 {
                    live.settle();
                    assert_eq!(live.pending(), 0);
                }
            }
            assert_eq!((live.trouble(), live.version()), (None, 40));
        }
    });
}

/// Rules over two short fields, with holes in their masks and ranges that are no prefixes.
fn odd_rules(count: usize, random: &mut Random) -> RuleSet {
    let field = |name: &str, offset, bytes| Field { name: name.to_owned(), offset, bytes };
    let layout = Layout::new(vec![field("a", 3, 1), field("b", 0, 2)]).unwrap();
    let rule = |_| Rule {
        matches: [
            Match::Mask { value: random.below(4) as u128, mask: random.below(256) as u128 },
            match random.below(3) {
                0 => Match::ANY,
                1 => Match::range(random.below(40) as u128, 40 + random.below(700) as u128),
                _ => Match::exact(random.below(300) as u128, 2),
            },
        ]
        .into(),
        priority: random.below(3) as i32,
        categories: 1 + random.below(7) as u16,
        result: random.below(1000) as u32,
        line: 0,
    };
    let rules = (0..count).map(rule).collect();
    RuleSet { categories: 3, default: 5000, rules, ..RuleSet::new(layout) }
}

#[test]
fn odd_fields_and_several_categories() {
    let mut random = Random::new(5);
    let mut set = odd_rules(120, &mut random);
    let spare = set.rules.split_off(60);
    let packet = |random: &mut Random| [0, random.below(300) as u8, 9, random.below(6) as u8];
    let packets: Vec<[u8; 4]> = (0..300).map(|_| packet(&mut random)).collect();
    let packets: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
    let live = Live::new(&set, &Limits::default(), &Policy::open()).unwrap();
    let (mut reader, mut model) = (live.reader(), Model::new(&set));
    let mut results = vec![0; 3 * packets.len()];
    for _ in 0..300 {
        model.change(&live, &spare, &mut random);
        reader.classify(&packets, &mut results).unwrap();
        assert_eq!(results, model.results(&packets));
    }
    let rules: Vec<RuleId> = live.rules().unwrap().into_iter().map(|(id, _)| id).collect();
    let mut ordered = model.rules.clone();
    ordered.sort_by_key(|(_, rule)| Reverse(rule.priority));
    assert_eq!(rules, ordered.into_iter().map(|(id, _)| id).collect::<Vec<_>>());
    // A set that has lost all its rules still answers.
    rules.into_iter().for_each(|id| drop(live.remove(id).unwrap()));
    reader.classify(&packets, &mut results).unwrap();
    assert!(results.iter().all(|result| *result == 5000));
}

/// Looks up in a live set what a model says, after every so many changes.
fn follow(live: &Live, model: &mut Model, spare: &[Rule], packets: &[&[u8]], seed: u64) {
    let (mut reader, mut random) = (live.reader(), Random::new(seed));
    let mut results = vec![0; packets.len() * model.shape.categories];
    for turn in 0..600 {
        model.change(live, spare, &mut random);
        if turn % 20 == 19 {
            reader.classify(packets, &mut results).unwrap();
            assert_eq!(results, model.results(packets), "after {turn} changes");
        }
    }
}

#[test]
fn trees_stand_many_changes() {
    let families = [Family::Acl, Family::Fw, Family::Ipc, Family::RandomV6];
    for (of, seed) in families.into_iter().zip(20..) {
        let (set, spare, flows) = family(of, 600, seed);
        let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
        let live = Live::new(&set, &Limits::default(), &Policy::open()).unwrap();
        let mut model = Model::new(&set);
        follow(&live, &mut model, &spare, &packets, seed);
        // The rules that hide most go first; what they hid has to come back.
        let ids: Vec<RuleId> = live.rules().unwrap().into_iter().map(|(id, _)| id).collect();
        let mut reader = live.reader();
        let mut results = vec![0; packets.len()];
        for ids in ids.chunks(50) {
            for &id in ids {
                live.remove(id).unwrap();
                model.rules.retain(|(other, _)| *other != id);
            }
            reader.classify(&packets, &mut results).unwrap();
            assert_eq!(results, model.results(&packets), "{of:?}");
        }
        assert!(results.iter().all(|result| *result == set.default));
    }
}

#[test]
fn many_rules_come_to_one_place() {
    let (mut set, _, _) = family(Family::Acl, 300, 6);
    set.categories = 2;
    // Every rule has a priority of its own, so that all new ones come between two.
    for (rule, priority) in set.rules.iter_mut().zip((0..).step_by(2).skip(1)) {
        rule.priority = priority;
    }
    let flows: Vec<Flow> =
        (0..400).map(|host| Flow::v4(0x0a01_0200 + host, 0x0a00_0001, [9, 80], 6)).collect();
    let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
    let live = Live::new(&set, &Limits::default(), &Policy::open()).unwrap();
    let (mut reader, mut model) = (live.reader(), Model::new(&set));
    let mut results = vec![0; 2 * packets.len()];
    for host in 0..300u32 {
        let rule = Rule {
            matches: [
                Match::prefix((0x0a01_0200 + host).into(), 24 + host % 9, 4),
                Match::ANY,
                Match::ANY,
                Match::range(host.into(), 1000),
                Match::ANY,
            ]
            .into(),
            priority: 300,
            categories: 1 + (host % 3) as u16,
            result: 5000 + host,
            line: 0,
        };
        model.rules.push((live.insert(rule.clone()).unwrap(), rule));
        if host % 30 == 29 {
            reader.classify(&packets, &mut results).unwrap();
            assert_eq!(results, model.results(&packets), "{host}");
        }
    }
    let spare: Vec<Rule> = set.rules.clone();
    follow(&live, &mut model, &spare, &packets, 7);
}

#[test]
fn rules_that_no_tree_takes_are_listed_and_found() {
    let (set, _, flows) = family(Family::Random, 500, 12);
    let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
    let live = Live::new(&set, &Limits::default(), &Policy::open()).unwrap();
    let (mut reader, mut model) = (live.reader(), Model::new(&set));
    let mut results = vec![0; packets.len()];
    // They leave both addresses free: each belongs to all cells of every tree. The weakest come
    // first, so that none hides another.
    for port in 0..80 {
        let mut rule = set.rules[0].clone();
        rule.matches.fill(Match::ANY);
        rule.matches[3] = Match::range(0, 60_000 - 500 * port);
        (rule.priority, rule.result) = (2 + port as i32, 7000 + port as u32);
        model.rules.push((live.insert(rule.clone()).unwrap(), rule));
        reader.classify(&packets, &mut results).unwrap();
        assert_eq!(results, model.results(&packets), "{port}");
    }
    live.settle();
    while let Some((id, _)) = model.rules.pop() {
        live.remove(id).unwrap();
        if id.0 % 50 == 0 {
            reader.classify(&packets, &mut results).unwrap();
            assert_eq!(results, model.results(&packets));
        }
    }
}

/// Rules for single values of a field, and others for many of them, which stand in or hide the
/// former in thousands of cells.
fn broad_rules(categories: usize, random: &mut Random) -> (RuleSet, Vec<Rule>) {
    let field = |name: &str, offset, bytes| Field { name: name.to_owned(), offset, bytes };
    let layout = Layout::new(vec![field("a", 0, 2), field("b", 2, 1)]).unwrap();
    let mut rule = |a: Match, priority: i32| Rule {
        matches: [a, if random.below(2) == 0 { Match::ANY } else { Match::exact(6, 1) }].into(),
        priority,
        categories: 1 + random.below((1 << categories) - 1) as u16,
        result: random.below(100_000) as u32,
        line: 0,
    };
    let mut rules: Vec<Rule> =
        (0..6000).map(|a| rule(Match::exact(a, 2), (a % 3) as i32 - 1)).collect();
    let mut broad = |count: u128| -> Vec<Rule> {
        let range = |at: u128| Match::range(37 * at, 65_000 - 1000 * at);
        (0..count).map(|at| rule(range(at), (at % 3) as i32 - 1)).collect()
    };
    rules.extend(broad(12));
    let spare = broad(30);
    (RuleSet { categories, default: 7, rules, ..RuleSet::new(layout) }, spare)
}

#[test]
fn broad_rules_change_as_any_others() {
    for_each_room_of(Classifier::ROOMS, |room, policy| {
        for categories in [1, 3] {
            let mut random = Random::new(40 + categories as u64);
            let (set, spare) = broad_rules(categories, &mut random);
            let packets: Vec<[u8; 3]> = (0..60)
                .map(|_| random.below(6300) as u16)
                .map(|a| [(a >> 8) as u8, a as u8, 6 + (a % 2) as u8])
                .collect();
            let packets: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
            let live = Live::new(&set, &Limits::default(), policy).unwrap();
            let (mut reader, mut model) = (live.reader(), Model::new(&set));
            let mut results = vec![0; categories * packets.len()];
            for turn in 0..200 {
                // The broad ones are those behind the first 6000, which go too.
                let at = match turn % 5 {
                    0 => random.below(model.rules.len()),
                    _ => 5980 + random.below(model.rules.len() - 5980),
                };
                let id = model.rules[at].0;
                let mut rule = spare[random.below(spare.len())].clone();
                match turn % 4 {
                    0 => drop((live.remove(id).unwrap(), model.rules.remove(at))),
                    1 => {
                        rule = Rule { result: turn, ..model.rules[at].1.clone() };
                        live.change(id, rule.clone()).unwrap();
                        model.rules[at].1 = rule;
                    }
                    2 => {
                        rule.result = turn;
                        live.change(id, rule.clone()).unwrap();
                        model.rules[at].1 = rule;
                    }
                    _ => model.rules.push((live.insert(rule.clone()).unwrap(), rule)),
                }
                if turn == 120 {
                    live.settle();
                }
                // Side by side, and one after the other.
                reader.classify(&packets, &mut results).unwrap();
                let wanted = model.results(&packets);
                assert_eq!(results, wanted, "{room}, {categories} categories, turn {turn}");
                let few = &mut results[..3 * categories];
                reader.classify(&packets[..3], few).unwrap();
                assert_eq!(few, &wanted[..3 * categories], "{room}, turn {turn}");
            }
        }
    });
}

/// What a reader saw: between which versions it looked, which it was told, and the results.
type Seen = (u64, u64, u64, Vec<u32>);

#[test]
fn readers_see_whole_versions_while_rules_change() {
    let (set, spare, flows) = family(Family::Acl, 500, 9);
    let packets: Vec<&[u8]> = flows[..24].iter().map(Flow::packet).collect();
    let live = Live::new(&set, &Limits::default(), &Policy::open()).unwrap();
    let done = AtomicBool::new(false);
    let watch = || {
        let mut reader = live.reader();
        let mut seen: Vec<Seen> = Vec::new();
        while !done.load(Ordering::Relaxed) {
            let mut results = vec![0; packets.len()];
            let before = live.version();
            let version = reader.classify(&packets, &mut results).unwrap();
            seen.push((before, version, live.version(), results));
            if seen.len() > 5000 {
                thread::yield_now();
            }
        }
        seen
    };
    // The results of all versions; a change of rules is rare enough to be searched for here.
    let mut model = Model::new(&set);
    let mut wanted = vec![model.results(&packets)];
    let seen = thread::scope(|scope| {
        let readers = [scope.spawn(watch), scope.spawn(watch)];
        let mut random = Random::new(10);
        for _ in 0..600 {
            model.change(&live, &spare, &mut random);
            wanted.push(model.results(&packets));
        }
        live.settle();
        done.store(true, Ordering::Relaxed);
        readers.map(|reader| reader.join().unwrap())
    });
    for seen in seen {
        let mut last = 0;
        for (before, version, after, results) in &seen {
            assert!(last <= *version && before <= version && version <= after);
            assert_eq!(*results, wanted[*version as usize], "version {version}");
            last = *version;
        }
        assert!(last > 0, "the reader saw changes");
    }
    assert_eq!((live.pending(), live.trouble()), (0, None));
}

#[test]
fn rules_change_while_other_trees_are_planted() {
    // So many that they are listed in pieces, between which others change.
    let (set, spare, flows) = family(Family::Acl, 2000, 15);
    let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
    let one = |model: &mut Model, live: &Live, random: &mut Random| {
        model.change(live, &spare, random);
    };
    while_planting(&set, &packets, one);
    // Broad ones, which are moved and cleaned up in pieces, in the old trees and in the new.
    let mut random = Random::new(44);
    let (set, spare) = broad_rules(1, &mut random);
    let packets: Vec<[u8; 3]> = (0..40u8).map(|a| [a / 2, 6 * a, 6 + a % 2]).collect();
    let packets: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
    while_planting(&set, &packets, |model, live, random| {
        let at = 5980 + random.below(model.rules.len() - 5980);
        let rule = spare[random.below(spare.len())].clone();
        live.change(model.rules[at].0, rule.clone()).unwrap();
        model.rules[at].1 = rule;
    });
}

/// Makes changes while the trees are rebuilt all the time.
fn while_planting(
    set: &RuleSet,
    packets: &[&[u8]],
    change: impl Fn(&mut Model, &Live, &mut Random),
) {
    let live = Live::new(set, &Limits::default(), &Policy::open()).unwrap();
    let (done, rebuilt) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut model = Model::new(set);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                live.settle();
                rebuilt.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut random = Random::new(16);
        let mut reader = live.reader();
        let mut results = vec![0; packets.len()];
        while rebuilt.load(Ordering::Relaxed) < 10 {
            (0..50).for_each(|_| change(&mut model, &live, &mut random));
            reader.classify(packets, &mut results).unwrap();
            assert_eq!(results, model.results(packets));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(live.trouble(), None);
    let mut results = vec![0; packets.len()];
    live.reader().classify(packets, &mut results).unwrap();
    assert_eq!(results, model.results(packets));
}

#[test]
fn a_set_is_replaced_in_one_step() {
    let (set, spare, flows) = family(Family::Ipc, 200, 3);
    let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
    let live = Live::new(&set, &Limits::default(), &Policy::open()).unwrap();
    let mut reader = live.reader();
    let added = live.insert(spare[0].clone()).unwrap();
    assert_eq!(added, RuleId(200));
    let other = RuleSet { rules: spare, default: 77, ..set.clone() };
    assert_eq!(live.replace(&other), Ok(RuleId(201)));
    let mut results = vec![0; packets.len()];
    assert_eq!(reader.classify(&packets, &mut results), Ok(2));
    assert_eq!(results, Model::new(&other).results(&packets));
    assert_eq!(live.remove(added).unwrap_err(), UpdateError::NoSuchRule(added));
    assert_eq!(live.rules().unwrap()[0].0, RuleId(201));
    let two = RuleSet { categories: 2, ..other };
    assert_eq!(live.replace(&two).unwrap_err(), UpdateError::OtherShape);
    assert_eq!(live.version(), 2);
}

#[test]
fn odd_rules_are_refused_and_full_tables_reported() {
    let (set, spare, flows) = family(Family::Acl, 400, 4);
    let mut room = Limits { table_bytes: 64 << 10 };
    while Live::new(&set, &room, &Policy::open()).is_err() {
        room.table_bytes += 4 << 10;
    }
    let live = Live::new(&set, &room, &Policy::open()).unwrap();
    let short = Rule { matches: [Match::ANY].into(), ..spare[0].clone() };
    assert!(matches!(
        live.insert(short.clone()),
        Err(UpdateError::Build(BuildError::Matches { found: 1, expected: 5, .. }))
    ));
    assert!(live.change(RuleId(0), short).is_err());
    let mut wide = spare[0].clone();
    wide.matches[0] = Match::prefix(0x2001_0db8 << 96, 32, 16);
    for refused in [live.insert(wide.clone()).map(drop), live.change(RuleId(0), wide)] {
        assert!(matches!(refused, Err(UpdateError::Build(BuildError::Wide { bytes: 4, .. }))));
    }
    // A rule that a C program has not filled in whole would never match.
    let nowhere = Rule { categories: 0, ..spare[0].clone() };
    for refused in [live.insert(nowhere.clone()).map(drop), live.change(RuleId(0), nowhere)] {
        assert_eq!(refused, Err(UpdateError::Build(BuildError::NoCategory { line: 401 })));
    }
    assert!(live.change(RuleId(999), spare[0].clone()).is_err());
    let many = RuleSet { categories: 40, ..set.clone() };
    let refused = Live::new(&many, &room, &Policy::open()).unwrap_err();
    assert_eq!(refused, BuildError::Categories(40));
    let mut model = Model::new(&set);
    for rule in &spare {
        model.rules.push((live.insert(rule.clone()).unwrap(), rule.clone()));
    }
    live.settle();
    assert_eq!(live.trouble(), Some(BuildError::TooLarge { limit: room.table_bytes }));
    // Lookups are right all the same.
    let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
    let mut results = vec![0; packets.len()];
    live.reader().classify(&packets, &mut results).unwrap();
    assert_eq!(results, model.results(&packets));
}

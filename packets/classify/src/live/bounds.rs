//! What changes cost at most, counted in cells and rules, never in time; and that lookups are
//! right after the most expensive. No thread rebuilds trees meanwhile, so that rare states last.

use widelane_cpu::Policy;
use widelane_testkit::random::Random;
use widelane_testkit::rules::{self, Family};

use super::draft::{Change, Draft};
use super::relay::Draft as _;
use super::*;
use crate::Flow;
use crate::rule::{Layout, Match, classbench};

/// A draft, and what it should say.
struct Desk {
    draft: Draft,
    rules: BTreeMap<Strength, Arc<Candidate>>,
    next_id: u64,
    default: u32,
    /// What the dearest change has cost.
    dearest: usize,
}

impl Desk {
    fn new(set: &RuleSet) -> Self {
        let roll = Roll::of(set, 0);
        let draft = roll.draft(&Limits::default(), &Policy::open(), 0).unwrap();
        let rules = roll.rules.into_values().map(|rule| (rule.strength, rule)).collect();
        Desk { draft, rules, next_id: roll.next_id, default: set.default, dearest: 0 }
    }

    fn apply(&mut self, old: Option<Strength>, new: Option<(u64, Rule)>) -> Strength {
        let old = old.map(|old| self.rules.remove(&old).unwrap());
        let new = new.map(|(id, rule)| Arc::new(Candidate::new(id, rule)));
        let strength = new.iter().chain(&old).next().unwrap().strength;
        self.rules.extend(new.iter().map(|new| (new.strength, Arc::clone(new))));
        let report = self.draft.apply(&Change { old, new }).unwrap();
        // No version holds back what the change has given up.
        self.draft.recycle(None);
        self.dearest = self.dearest.max(report.work);
        strength
    }

    fn insert(&mut self, rule: Rule) -> Strength {
        self.next_id += 1;
        self.apply(None, Some((self.next_id - 1, rule)))
    }

    fn change(&mut self, old: Strength, rule: Rule) -> Strength {
        self.apply(Some(old), Some((old.place, rule)))
    }

    fn remove(&mut self, old: Strength) {
        self.apply(Some(old), None);
    }

    fn rule(&self, strength: Strength) -> Rule {
        self.rules[&strength].rule.clone()
    }

    fn strengths(&self) -> Vec<Strength> {
        self.rules.keys().copied().collect()
    }

    /// Compares a version's results for flows with a search of one rule after another.
    fn check(&self, flows: &[Flow]) {
        let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
        let version = self.draft.version();
        let (layout, mut results) = (self.draft.shape().0.layout, vec![0; packets.len()]);
        version.classify(&packets, &mut results).unwrap();
        for (packet, result) in packets.iter().zip(results) {
            let accepts = |rule: &Rule| {
                let mut pairs = rule.matches.iter().zip(layout.fields());
                pairs.all(|(of, field)| of.accepts(layout.value(field, packet)))
            };
            let first = self.rules.values().find(|candidate| accepts(&candidate.rule));
            assert_eq!(result, first.map_or(self.default, |first| first.rule.result));
        }
    }

    /// Says what the dearest change has cost, which must not be more than `most`.
    fn assert_within(&self, most: usize, what: &str) {
        eprintln!("{what}: no change cost more than {} cells and rules", self.dearest);
        assert!(self.dearest <= most.min(WORK_MAX), "{what}: {}", self.dearest);
    }
}

fn generated(family: Family, count: usize, seed: u64) -> RuleSet {
    let generated = rules::generate(family, count, seed);
    classbench::parse("generated", &rules::classbench(&generated)).unwrap()
}

fn rule(matches: [Match; 5], priority: i32, result: u32) -> Rule {
    Rule { matches: matches.into(), priority, categories: 1, result, line: 0 }
}

/// A rule for UDP packets to some ports.
fn to_ports(ports: Match, priority: i32, result: u32) -> Rule {
    rule([Match::ANY, Match::ANY, Match::ANY, ports, Match::exact(17, 1)], priority, result)
}

fn flow_to(port: u16) -> Flow {
    Flow::v4(1, 2, [3, port], 17)
}

#[test]
fn rules_that_come_between_the_same_two() {
    let mut set = RuleSet::new(Layout::ipv4());
    set.rules = (0..6000).map(|port| to_ports(Match::exact(port, 2), 0, port as u32)).collect();
    set.rules.push(to_ports(Match::range(0, 5000), 5000, 7777));
    set.rules.push(to_ports(Match::range(100, 199), 9000, 3333));
    let mut desk = Desk::new(&set);
    // The one between the others goes, and keeps its rank.
    let broad = desk.strengths()[1];
    desk.remove(broad);
    assert_eq!(desk.draft.gone(), 1);
    let flows: Vec<Flow> = [5, 6, 7, 8, 9, 120, 5500].map(flow_to).into();
    // Each comes before the last one; or, every third time, behind that.
    let (mut stronger, mut weaker) = (8000, 100);
    let mut guests = Vec::new();
    for turn in 0..1500u32 {
        let priority = if turn % 3 == 2 { stronger } else { weaker };
        *(if turn % 3 == 2 { &mut stronger } else { &mut weaker }) =
            if turn % 3 == 2 { priority - 1 } else { priority + 1 };
        let ports = Match::range(7 - u128::from(turn % 3), 7 + u128::from(turn % 2));
        guests.push(desk.insert(to_ports(ports, priority, 10_000 + turn)));
        if turn % 50 == 0 {
            desk.check(&flows);
        }
    }
    desk.check(&flows);
    let shared = desk.draft.largest_share();
    assert!(shared > 1000, "{shared} rules share a rank");
    let mut random = Random::new(3);
    while !guests.is_empty() {
        let guest = guests.swap_remove(random.below(guests.len()));
        if guests.len() % 2 == 0 {
            let changed = Rule { result: guests.len() as u32, ..desk.rule(guest) };
            desk.change(guest, changed);
        }
        if guests.len() % 5 > 0 {
            desk.remove(guest);
        }
        if guests.len() % 50 == 0 {
            desk.check(&flows);
        }
    }
    desk.assert_within(12_000, "between the same two");
}

#[test]
fn hundreds_of_rules_in_one_leaf() {
    let mut desk = Desk::new(&generated(Family::Acl, 2000, 1));
    let address = |last: u32| Match::prefix((0x0a01_0200 + last).into(), 32, 4);
    let mut flows = Vec::new();
    let mut guests = Vec::new();
    for turn in 0..900u32 {
        // Half of them are for the same address, and only ranges of ports tell them apart.
        let source = address(if turn % 2 == 0 { 0 } else { turn });
        let ports = Match::range((turn / 2).into(), (turn + 40).into());
        let matches = [source, Match::ANY, Match::ANY, ports, Match::ANY];
        guests.push(desk.insert(rule(matches, (turn % 7) as i32, turn)));
        if turn % 60 == 0 {
            let last = if turn % 4 == 0 { 0 } else { turn };
            flows.push(Flow::v4(0x0a01_0200 + last, 9, [1, (turn + 20) as u16], 6));
            desk.check(&flows);
        }
    }
    for (turn, guest) in guests.into_iter().enumerate() {
        let mut other = desk.rule(guest);
        other.matches[0] = address(0);
        desk.change(guest, other);
        if turn % 3 == 0 {
            desk.remove(guest);
        }
        if turn % 60 == 0 {
            desk.check(&flows);
        }
    }
    desk.assert_within(12_000, "in one leaf");
}

#[test]
fn thousands_of_ports_of_any_address() {
    let mut set = generated(Family::Fw, 2000, 2);
    set.rules.iter_mut().for_each(|rule| rule.priority = 1);
    let mut desk = Desk::new(&set);
    let mut flows = Flow::drawn(&set, 30, 4).unwrap();
    flows.extend((0..30).map(|port| flow_to(100 * port)));
    let guests: Vec<Strength> = (0..3000)
        .map(|port: u16| {
            let ports = Match::exact(u128::from(port), 2);
            desk.insert(to_ports(ports, i32::from(port % 3), u32::from(port) + 50_000))
        })
        .collect();
    desk.check(&flows);
    for (turn, guest) in guests.into_iter().enumerate() {
        match turn % 3 {
            0 => desk.remove(guest),
            1 => drop(desk.change(guest, to_ports(Match::range(50, 9000), 2, turn as u32))),
            _ => drop(desk.change(guest, Rule { result: 9, ..desk.rule(guest) })),
        }
        if turn % 300 == 0 {
            desk.check(&flows);
        }
    }
    desk.assert_within(12_000, "any address");
}

#[test]
fn broad_rules_that_are_moved_and_cleaned_up_bit_by_bit() {
    let mut set = RuleSet::new(Layout::ipv4());
    set.rules =
        (0..4000).map(|port| to_ports(Match::exact(port, 2), (port % 9) as i32, 1)).collect();
    // Some hide others, and all hide single ports.
    let broad = |random: &mut Random| {
        let first = random.below(2000) as u128;
        let ports = Match::range(first, first + 1500 + random.below(2500) as u128);
        to_ports(ports, random.below(9) as i32, random.below(100_000) as u32)
    };
    let mut random = Random::new(21);
    set.rules.extend((0..8).map(|_| broad(&mut random)));
    let mut desk = Desk::new(&set);
    let (mut broad_ones, mut single) = (Vec::new(), Vec::new());
    for strength in desk.strengths() {
        let is_broad = desk.rule(strength).result > 1;
        if is_broad { &mut broad_ones } else { &mut single }.push(strength);
    }
    let (mut most_gone, mut most_listed) = (0, 0);
    for turn in 0..900 {
        let at = random.below(broad_ones.len());
        let (strength, own) = (broad_ones[at], desk.rule(broad_ones[at]));
        match random.below(12) {
            0 => {
                desk.remove(strength);
                broad_ones[at] = desk.insert(own);
            }
            1 => broad_ones[at] = desk.change(strength, Rule { result: turn + 10, ..own }),
            2 => broad_ones[at] = desk.change(strength, broad(&mut random)),
            3 if broad_ones.len() > 4 => {
                desk.remove(strength);
                broad_ones.swap_remove(at);
            }
            4 if broad_ones.len() < 12 => broad_ones.push(desk.insert(broad(&mut random))),
            // What they hide changes too, and goes, while it is being given back.
            5 | 6 => {
                let at = random.below(single.len());
                let own = desk.rule(single[at]);
                single[at] = desk.change(single[at], Rule { result: turn + 10, ..own });
            }
            7 => desk.remove(single.swap_remove(random.below(single.len()))),
            _ => {
                let port = random.below(4500) as u128;
                single.push(desk.insert(to_ports(Match::exact(port, 2), 4, turn + 10)));
            }
        }
        let flows: Vec<Flow> = (0..24).map(|_| flow_to(random.below(6000) as u16)).collect();
        desk.check(&flows);
        most_gone = most_gone.max(desk.draft.gone());
        most_listed = most_listed.max(desk.draft.listed());
    }
    assert!(most_gone > 1 && most_listed > 1, "{most_gone} were gone, {most_listed} listed");
    // When none comes and none goes, all find their places.
    for turn in 0..600 {
        let own = desk.rule(single[0]);
        single[0] = desk.change(single[0], Rule { result: turn + 10, ..own });
    }
    assert_eq!((desk.draft.gone(), desk.draft.listed()), (0, 0));
    desk.check(&(0..6000).step_by(7).map(flow_to).collect::<Vec<Flow>>());
    desk.assert_within(16_000, "bit by bit");
}

#[test]
fn a_rule_goes_before_the_one_that_hides_it() {
    let to = |ports: Match, priority: i32, result: u32| {
        rule([Match::ANY, Match::ANY, Match::ANY, ports, Match::ANY], priority, result)
    };
    let mut set = RuleSet::new(Layout::ipv4());
    set.rules = (0..6000).map(|port| to(Match::exact(port, 2), 0, port as u32)).collect();
    set.rules.push(to(Match::range(0, 4999), 1, 7777));
    set.rules.push(to(Match::range(500, 4499), 2, 8888));
    let flows: Vec<Flow> = (0..6000).step_by(11).map(flow_to).collect();
    // It has left some cells, or none, when those that the other one hid come back.
    for turns in (0..30).step_by(3) {
        let mut desk = Desk::new(&set);
        let [hider, hidden, .., last] = desk.strengths()[..] else { panic!("there are rules") };
        let others = |desk: &mut Desk, turns: u32| {
            for turn in 0..turns {
                desk.change(last, to(Match::exact(5999, 2), 0, turn));
            }
        };
        desk.remove(hidden);
        others(&mut desk, turns);
        desk.remove(hider);
        desk.check(&flows);
        others(&mut desk, 300);
        assert_eq!(desk.draft.gone(), 0);
        desk.check(&flows);
    }
}

#[test]
fn rules_that_are_cut_into_thousands_of_pieces() {
    let mut desk = Desk::new(&generated(Family::Acl, 500, 3));
    let cut = Match::range(1, u128::from(u32::MAX - 1));
    let one = rule([cut, Match::exact(7, 4), Match::ANY, Match::ANY, Match::ANY], 5, 1111);
    let both = rule([cut, cut, Match::ANY, Match::ANY, Match::ANY], 4, 2222);
    let flows: Vec<Flow> = [[1, 1], [1, 7], [0, 7], [u32::MAX, 9], [0x0a01_0203, 0x0a09_0807]]
        .map(|[source, destination]| Flow::v4(source, destination, [5, 80], 6))
        .into();
    for round in 0..5 {
        let first = desk.insert(one.clone());
        let second = desk.insert(both.clone());
        desk.check(&flows);
        desk.change(first, Rule { result: round, ..one.clone() });
        desk.change(second, Rule { result: 70 + round, ..both.clone() });
        desk.check(&flows);
        let second = desk.change(second, Rule { priority: 6, ..both.clone() });
        desk.check(&flows);
        desk.remove(first);
        desk.remove(second);
        desk.check(&flows);
    }
    desk.assert_within(WORK_MAX, "in pieces");
}

#[test]
fn any_rule_of_any_set_and_the_first_change() {
    for (family, seed) in
        [Family::Acl, Family::Fw, Family::Ipc, Family::Random].into_iter().zip(5..)
    {
        let mut set = generated(family, 3000, seed);
        let spare = set.rules.split_off(2500);
        let flows = Flow::drawn(&set, 60, seed).unwrap();
        let mut desk = Desk::new(&set);
        desk.insert(spare[0].clone());
        desk.assert_within(5000, &format!("{family:?}, first change"));
        // The most general first: what they hide has to be found.
        let mut strengths = desk.strengths();
        let free = |strength: &Strength| {
            let rule = desk.rule(*strength);
            let fields = rule.matches.iter().zip(set.layout.fields());
            Reverse(fields.filter(|(of, field)| of.is_any(field.bytes)).count())
        };
        strengths.sort_by_cached_key(free);
        for (turn, strength) in strengths.into_iter().take(400).enumerate() {
            let own = desk.rule(strength);
            match turn % 4 {
                0 => desk.remove(strength),
                1 => drop(desk.change(strength, Rule { result: 7, ..own })),
                2 => drop(desk.change(strength, spare[turn].clone())),
                _ => {
                    desk.remove(strength);
                    desk.insert(own);
                }
            }
            if turn % 25 == 0 {
                desk.check(&flows);
            }
        }
        desk.check(&flows);
        desk.assert_within(16_000, &format!("{family:?}"));
    }
}

//! Rules of a forwarder: `@` lines deny, `R` lines route; they can be loaded anew at any time.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use widelane_classify::live::{Live, Reader, RuleId, UpdateError};
use widelane_classify::rule::{Layout, Match, ParseError, Rule, RuleSet, dpdk};
use widelane_classify::{BuildError, Limits};
use widelane_cpu::Policy;

use crate::counts::Counts;

/// What is to become of a packet. The number is that of the rule, see [`Routes::info`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It leaves by a port.
    Route(u8, u32),
    /// It is dropped.
    Deny(u32),
    /// It is dropped, since no rule says where it goes.
    NoRoute,
}

/// One rule of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    /// The line that it was last seen on.
    pub line: u32,
    /// What that line says.
    pub text: Arc<str>,
}

/// How a file was loaded anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// It says what it said before.
    Unchanged,
    /// One rule came, went or changed.
    OneRule,
    /// All rules were replaced in one step.
    All,
}

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutesError {
    /// A line is no rule.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// A rule routes to a port that cannot be.
    #[error("{file}:{line}: port {port} is not among the ports 0 to {last}")]
    Port {
        /// The file.
        file: String,
        /// The line.
        line: u32,
        /// The port it names.
        port: u32,
        /// The highest port there is.
        last: usize,
    },
    /// No table can be built.
    #[error("{file}: {error}")]
    Build {
        /// The file.
        file: String,
        /// Why not.
        error: BuildError,
    },
    /// The file now has rules of the other version of IP.
    #[error(
        "{file}: its rules are for {now}, and were for {before} before",
        now = version(!is_v6),
        before = version(*is_v6)
    )]
    Version {
        /// The file.
        file: String,
        /// Whether the rules were IPv6.
        is_v6: bool,
    },
    /// Its rules cannot be built.
    #[error("{file}: {error}")]
    Update {
        /// The file.
        file: String,
        /// Why not.
        error: UpdateError,
    },
    /// More rules than can be counted.
    #[error(
        "{file}: more than {max} rules, with those that are gone and still counted; restart the \
         forwarder",
        max = NUMBERS_MAX
    )]
    TooMany {
        /// The file.
        file: String,
    },
}

/// The rules of one file, live.
///
/// Denials come before routes. Among routes, the longest destination wins, and of equally long
/// ones the line that stands first.
#[derive(Debug)]
pub struct Routes {
    file: String,
    ports: usize,
    live: Live,
    is_v6: bool,
    /// Locked while rules are reloaded.
    register: Mutex<Register>,
    /// By number.
    infos: Mutex<Vec<RuleInfo>>,
}

/// The numbers of rules: one that comes back is counted on.
#[derive(Debug, Default)]
struct Register {
    numbers: HashMap<Identity, u32>,
    /// Numbers of rules that were forgotten.
    free: Vec<u32>,
    /// How many rules there were at first, or after some were forgotten.
    kept: usize,
}

/// The rules of a text.
struct Parsed {
    /// Their results are numbers of ports.
    set: RuleSet,
    /// One for each rule.
    identities: Vec<Identity>,
}

/// What makes a rule the same in two versions of a file. Equal lines count as several rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity {
    matches: Box<[Match]>,
    port: u32,
    occurrence: u32,
}

/// A result is a port, or what stands for none, and the number of a rule.
const NUMBER_BITS: u32 = 24;
const NUMBERS_MAX: usize = 1 << NUMBER_BITS;
const NUMBER_MASK: u32 = NUMBERS_MAX as u32 - 1;
/// Rules that may be gone, besides as many as there were, before some should be forgotten.
const GONE_MAX: usize = 1024;
const DENY: u32 = 0xfe;
const NO_ROUTE: u32 = 0xff;
/// The result of a packet that no rule routes.
pub(crate) const UNROUTED: u32 = NO_ROUTE << NUMBER_BITS;
/// The priority of denials: above that of the longest destination.
const DENY_PRIORITY: i32 = 129;

impl Action {
    /// The action that a lookup's result stands for.
    #[inline]
    pub fn of(result: u32) -> Self {
        let number = result & NUMBER_MASK;
        match result >> NUMBER_BITS {
            NO_ROUTE => Action::NoRoute,
            DENY => Action::Deny(number),
            port => Action::Route(port as u8, number),
        }
    }
}

impl Routes {
    /// How many ports there can be.
    pub const PORTS_MAX: usize = DENY as usize;

    /// Reads the text of a file, for so many ports, at most [`PORTS_MAX`](Self::PORTS_MAX). A file
    /// without rules is one for IPv6 if `is_v6`, else one for IPv4.
    ///
    /// # Errors
    ///
    /// See [`RoutesError`].
    pub fn new(
        file: &str,
        text: &str,
        is_v6: bool,
        ports: usize,
        limits: &Limits,
        policy: &Policy,
    ) -> Result<Self, RoutesError> {
        let ports = ports.min(Self::PORTS_MAX);
        let mut parsed = Parsed::of(file, text, is_v6, ports)?;
        let mut register = Register::default();
        let numbers = register.number(&mut parsed, file)?;
        let live = Live::new(&parsed.set, limits, policy)
            .map_err(|error| RoutesError::Build { file: file.to_owned(), error })?;
        let is_v6 = parsed.set.layout == Layout::ipv6();
        let mut infos = Vec::new();
        register.enter(parsed, &numbers, text, &mut infos);
        register.kept = register.numbers.len();
        let (register, infos) = (Mutex::new(register), Mutex::new(infos));
        Ok(Routes { file: file.to_owned(), ports, live, is_v6, register, infos })
    }

    /// What looks packets up; results are [`Action`]s.
    pub fn reader(&self) -> Reader {
        self.live.reader()
    }

    /// The live set beneath.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Whether the rules are IPv6.
    pub fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Takes what the file says now; packets go on being looked up. If one rule came, went or
    /// changed, that is seen at once; otherwise all rules are replaced in one step, as soon as a
    /// table of them is built.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); the rules stay as they were.
    pub fn reload(&self, text: &str) -> Result<Reload, RoutesError> {
        let mut register = lock(&self.register);
        let mut parsed = Parsed::of(&self.file, text, self.is_v6, self.ports)?;
        if (parsed.set.layout == Layout::ipv6()) != self.is_v6 {
            return Err(RoutesError::Version { file: self.file.clone(), is_v6: self.is_v6 });
        }
        let numbers = register.number(&mut parsed, &self.file)?;
        let reload = self.update(&parsed.set)?;
        register.enter(parsed, &numbers, text, &mut lock(&self.infos));
        Ok(reload)
    }

    /// Has lookups go by other rules.
    fn update(&self, set: &RuleSet) -> Result<Reload, RoutesError> {
        let update = |error| RoutesError::Update { file: self.file.clone(), error };
        let mut wanted: Vec<&Rule> = set.rules.iter().collect();
        wanted.sort_by_key(|rule| Reverse(rule.priority));
        let present = self.live.rules().map_err(update)?;
        let is_same = |(_, old): &(RuleId, Rule), new: &&Rule| old.result == new.result;
        let pairs = || present.iter().zip(&wanted);
        let before = pairs().take_while(|(old, new)| is_same(old, new)).count();
        let (old, new) = (&present[before..], &wanted[before..]);
        let behind = old.iter().rev().zip(new.iter().rev());
        let behind = behind.take_while(|(old, new)| is_same(old, new)).count();
        let (old, new) = (&old[..old.len() - behind], &new[..new.len() - behind]);
        let next = wanted.get(before + new.len());
        match (old, new) {
            ([], []) => return Ok(Reload::Unchanged),
            ([(id, _)], []) => drop(self.live.remove(*id).map_err(update)?),
            // What is inserted stands behind all of its priority.
            ([], [rule]) if next.is_none_or(|next| next.priority < rule.priority) => {
                self.live.insert((*rule).clone()).map_err(update)?;
            }
            ([(id, old)], [rule]) if old.priority == rule.priority => {
                self.live.change(*id, (*rule).clone()).map_err(update)?;
            }
            _ => {
                self.live.replace(set).map_err(update)?;
                return Ok(Reload::All);
            }
        }
        Ok(Reload::OneRule)
    }

    /// The rule of a number; rules that are no more keep theirs until they are
    /// [forgotten](Self::forget). Nothing while a number changes its owner.
    pub fn info(&self, number: u32) -> Option<RuleInfo> {
        lock(&self.infos).get(number as usize).filter(|info| info.line > 0).cloned()
    }

    /// Whether so many rules are gone that some should be [forgotten](Self::forget).
    pub fn should_forget(&self) -> bool {
        let register = lock(&self.register);
        register.numbers.len() > 2 * register.kept + GONE_MAX
    }

    /// Forgets rules that are gone and that no packet has met: others get their numbers. `counts`
    /// are those of all engines, taken since the last [`reload`](Self::reload).
    pub fn forget(&self, counts: &Counts) {
        let mut register = lock(&self.register);
        let Ok(present) = self.live.rules() else { return };
        let present: HashSet<u32> =
            present.iter().map(|(_, rule)| rule.result & NUMBER_MASK).collect();
        let met = &counts.rules[usize::from(self.is_v6)];
        let is_met = |number: u32| met.get(number as usize).is_some_and(|count| *count > 0);
        let mut infos = lock(&self.infos);
        let Register { numbers, free, kept } = &mut *register;
        numbers.retain(|_, number| {
            let is_kept = present.contains(number) || is_met(*number);
            if !is_kept {
                infos[*number as usize] = RuleInfo { line: 0, text: "".into() };
                free.push(*number);
            }
            is_kept
        });
        *kept = numbers.len();
    }
}

fn version(is_v6: bool) -> &'static str {
    if is_v6 { "IPv6" } else { "IPv4" }
}

/// A panic elsewhere does not poison it: what is there is whole after each step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Parsed {
    /// The rules of a text, with priorities as a forwarder needs them; for IPv6 or not where there
    /// are none to tell.
    fn of(file: &str, text: &str, is_v6: bool, ports: usize) -> Result<Self, RoutesError> {
        let mut set = dpdk::parse(file, text)?;
        if set.rules.is_empty() && is_v6 {
            set.layout = Layout::ipv6();
        }
        set.default = UNROUTED;
        let address_bytes = set.layout.fields()[1].bytes;
        let mut occurrences: HashMap<(Box<[Match]>, u32), u32> = HashMap::new();
        let mut identities = Vec::with_capacity(set.rules.len());
        for rule in &mut set.rules {
            let port = match rule.result {
                dpdk::DENY.. => DENY,
                port if (port as usize) < ports => port,
                port => {
                    let (file, line, last) = (file.to_owned(), rule.line, ports.saturating_sub(1));
                    return Err(RoutesError::Port { file, line, port, last });
                }
            };
            let occurrence = occurrences.entry((rule.matches.clone(), port)).or_default();
            let matches = rule.matches.clone();
            identities.push(Identity { matches, port, occurrence: *occurrence });
            *occurrence += 1;
            rule.result = port;
            rule.priority = match port {
                DENY => DENY_PRIORITY,
                _ => rule.matches[1]
                    .as_mask(address_bytes)
                    .map_or(0, |(_, mask)| mask.count_ones() as i32),
            };
        }
        Ok(Parsed { set, identities })
    }
}

impl Register {
    /// Gives each rule a number: its own, or one that no rule has. They are taken only when the
    /// rules are [entered](Self::enter).
    fn number(&self, parsed: &mut Parsed, file: &str) -> Result<Vec<u32>, RoutesError> {
        let end = (self.numbers.len() + self.free.len()) as u32;
        let mut unused = self.free.iter().rev().copied().chain(end..NUMBERS_MAX as u32);
        let Parsed { set, identities } = parsed;
        let mut numbers = Vec::with_capacity(identities.len());
        for (rule, identity) in set.rules.iter_mut().zip(identities) {
            let number = self.numbers.get(identity).copied().or_else(|| unused.next());
            let number = number.ok_or_else(|| RoutesError::TooMany { file: file.to_owned() })?;
            rule.result = rule.result << NUMBER_BITS | number;
            numbers.push(number);
        }
        Ok(numbers)
    }

    /// Enters rules by their numbers.
    fn enter(&mut self, parsed: Parsed, numbers: &[u32], text: &str, infos: &mut Vec<RuleInfo>) {
        let lines: Vec<&str> = text.lines().collect();
        let rules = parsed.identities.into_iter().zip(&parsed.set.rules).zip(numbers);
        for ((identity, rule), &number) in rules {
            let at = number as usize;
            if self.numbers.insert(identity, number).is_none() {
                let text = lines.get(rule.line as usize - 1).copied().unwrap_or_default().trim();
                let info = RuleInfo { line: rule.line, text: text.into() };
                match self.free.pop() {
                    Some(_) => infos[at] = info,
                    None => infos.push(info),
                }
            }
            infos[at].line = rule.line;
        }
    }
}

#[cfg(test)]
mod tests {
    use widelane_classify::Flow;

    use super::*;

    const RULES: &str = "\
        R0.0.0.0/0 10.0.0.0/8 0 : 65535 0 : 65535 0/0 0\n\
        @10.9.0.0/16 0.0.0.0/0 0 : 65535 0 : 65535 0/0\n\
        R0.0.0.0/0 10.1.0.0/16 0 : 65535 0 : 65535 0/0 1\n\
        R0.0.0.0/0 10.2.0.0/16 0 : 65535 0 : 65535 0/0 1\n";

    fn routes(text: &str) -> Routes {
        Routes::new("r", text, false, 2, &Limits::default(), &Policy::open()).unwrap()
    }

    fn action(routes: &Routes, source: u32, destination: u32) -> Action {
        let flow = Flow::v4(source, destination, [1, 2], 6);
        let mut results = [0];
        routes.reader().classify(&[flow.packet()], &mut results).unwrap();
        Action::of(results[0])
    }

    #[test]
    fn denials_come_first_and_the_longest_destination_wins() {
        let routes = routes(RULES);
        assert_eq!(action(&routes, 0x0101_0101, 0x0a03_0001), Action::Route(0, 0));
        assert_eq!(action(&routes, 0x0101_0101, 0x0a01_0001), Action::Route(1, 2));
        assert_eq!(action(&routes, 0x0a09_0001, 0x0a01_0001), Action::Deny(1));
        assert_eq!(action(&routes, 0x0101_0101, 0x0b01_0001), Action::NoRoute);
        let info = routes.info(2).unwrap();
        assert_eq!((info.line, &*info.text), (3, RULES.lines().nth(2).unwrap()));
    }

    #[test]
    fn one_rule_is_changed_alone_and_several_in_one_step() {
        let routes = routes(RULES);
        let reload = |text: &str| routes.reload(text).unwrap();
        assert_eq!(reload(&format!("# a comment\n{RULES}")), Reload::Unchanged);
        assert_eq!(routes.info(2).unwrap().line, 4);
        let lines: Vec<&str> = RULES.lines().collect();
        // The denial goes, and comes back.
        let without = [lines[0], lines[2], lines[3]].join("\n");
        assert_eq!(reload(&without), Reload::OneRule);
        assert_eq!(action(&routes, 0x0a09_0001, 0x0a01_0001), Action::Route(1, 2));
        assert_eq!(reload(RULES), Reload::OneRule);
        assert_eq!(action(&routes, 0x0a09_0001, 0x0a01_0001), Action::Deny(1));
        // A port changes.
        let moved = RULES.replace(
            "10.1.0.0/16 0 : 65535 0 : 65535 0/0 1",
            "10.1.0.0/16 0 : 65535 0 : 65535 0/0 0",
        );
        assert_eq!(reload(&moved), Reload::OneRule);
        assert_eq!(action(&routes, 0x0101_0101, 0x0a01_0001), Action::Route(0, 4));
        assert_eq!(reload(RULES), Reload::OneRule);
        // A rule between others of its priority has to wait for a table.
        let between =
            [lines[0], lines[1], lines[2], "R1.0.0.0/8 10.2.0.0/16 0 : 9 0 : 9 0/0 0", lines[3]];
        assert_eq!(reload(&between.join("\n")), Reload::All);
        assert_eq!(reload(lines[0]), Reload::All);
        assert_eq!(action(&routes, 0x0a09_0001, 0x0a01_0001), Action::Route(0, 0));
        assert_eq!(reload(""), Reload::OneRule);
        assert_eq!(action(&routes, 0x0a09_0001, 0x0a01_0001), Action::NoRoute);
    }

    #[test]
    fn a_file_may_lose_all_rules_and_get_others() {
        let (limits, policy) = (Limits::default(), Policy::open());
        let v6 = "R::/0 2001:db8::/32 0 : 65535 0 : 65535 0/0 1\n";
        let routes = Routes::new("r", "# none yet\n", true, 2, &limits, &policy).unwrap();
        assert!(routes.is_v6());
        let action = || {
            let flow = Flow::v6(1, 0x2001_0db8 << 96, [1, 2], 6);
            let mut results = [0];
            routes.reader().classify(&[flow.packet()], &mut results).unwrap();
            Action::of(results[0])
        };
        assert_eq!(action(), Action::NoRoute);
        assert_eq!(routes.reload(v6), Ok(Reload::OneRule));
        assert_eq!(action(), Action::Route(1, 0));
        let two = format!("{v6}R::/0 2001:db9::/32 0 : 65535 0 : 65535 0/0 1\n");
        for (text, wanted) in [(&two[..], Reload::OneRule), ("", Reload::All), (&two, Reload::All)]
        {
            assert_eq!(routes.reload(text), Ok(wanted));
        }
        assert_eq!(action(), Action::Route(1, 0));
        // What rules there are tells the version, whatever was expected.
        assert!(Routes::new("r", v6, false, 2, &limits, &policy).unwrap().is_v6());
    }

    #[test]
    fn wrong_files_are_refused_and_change_nothing() {
        let routes = routes(RULES);
        let error = routes.reload("R0.0.0.0/0 10.0.0.0/8 0 : 1 0 : 1 0/0 2").unwrap_err();
        assert_eq!(error.to_string(), "r:1: port 2 is not among the ports 0 to 1");
        // The values that stand for a denial and for no route are no ports.
        for port in [DENY, NO_ROUTE, 1000] {
            let text = format!("R0.0.0.0/0 10.0.0.0/8 0 : 1 0 : 1 0/0 {port}");
            assert!(matches!(routes.reload(&text), Err(RoutesError::Port { .. })));
        }
        assert!(matches!(routes.reload("nonsense"), Err(RoutesError::Parse(_))));
        assert_eq!(action(&routes, 0x0101_0101, 0x0a03_0001), Action::Route(0, 0));
        // The lines before the wrong one neither move rules nor get numbers.
        let wrong = "R0.0.0.0/0 10.0.0.0/8 0 : 1 0 : 1 0/0 2";
        let text = format!("# a comment\n@1.1.1.1/32 0.0.0.0/0 0 : 1 0 : 1 0/0\n{RULES}{wrong}");
        routes.reload(&text).unwrap_err();
        assert_eq!(routes.info(0).unwrap().line, 1);
        assert_eq!(routes.info(4), None);
    }

    #[test]
    fn rules_of_the_other_version_are_refused() {
        let v4 = |source: &str| format!("@{source} 0.0.0.0/0 0 : 65535 0 : 65535 0/0\n");
        let v6 = |source: &str| format!("@{source} ::/0 0 : 65535 0 : 65535 0/0\n");
        let one = v4("10.9.0.0/16");
        for (before, after) in [
            (&*one, v6("2001:db8::/32")),
            ("# none yet\n", v6("2001:db8::/32")),
            (&v4("0.0.0.0/0"), v6("::/0")),
            (RULES, v6("::/0")),
        ] {
            let routes = routes(before);
            let refused = routes.reload(&after);
            assert_eq!(refused, Err(RoutesError::Version { file: "r".to_owned(), is_v6: false }));
            assert_eq!(routes.reload(before), Ok(Reload::Unchanged));
            let rules = before.lines().filter(|line| !line.starts_with('#')).count();
            assert_eq!(routes.info(rules as u32), None, "it has no number");
        }
        let routes = routes(&one);
        routes.reload(&v6("2001:db8::/32")).unwrap_err();
        assert_eq!(action(&routes, 0x0a09_0001, 1), Action::Deny(0));
        assert_eq!(action(&routes, 0x0a0a_0001, 1), Action::NoRoute);
    }

    #[test]
    fn rules_that_are_gone_and_were_never_met_give_back_their_numbers() {
        let text = |turn: u32| {
            let [a, b] = (turn as u16).to_be_bytes();
            format!("{RULES}@10.8.{a}.{b}/32 0.0.0.0/0 0 : 65535 0 : 65535 0/0\n")
        };
        let routes = routes(&text(0));
        // A packet has met the one of the first turn.
        let mut counts = Counts::default();
        counts.met(false, action(&routes, 0x0a08_0000, 1));
        let mut forgotten = 0;
        for turn in 1..4 * GONE_MAX as u32 {
            assert_eq!(routes.reload(&text(turn)), Ok(Reload::OneRule));
            let Action::Deny(number) = action(&routes, 0x0a08_0000 | turn, 1) else { panic!() };
            assert_eq!(
                routes.info(number).unwrap().text.trim(),
                text(turn).lines().last().unwrap()
            );
            assert!((number as usize) < 2 * GONE_MAX, "{number}");
            if routes.should_forget() {
                routes.forget(&counts);
                forgotten += 1;
                assert!(!routes.should_forget());
            }
        }
        assert!(forgotten > 1, "{forgotten}");
        assert_eq!(routes.reload(&text(0)), Ok(Reload::OneRule));
        assert_eq!(action(&routes, 0x0a08_0000, 1), Action::Deny(4));
        assert_eq!(action(&routes, 0x0a09_0001, 0x0a01_0001), Action::Deny(1));
    }
}

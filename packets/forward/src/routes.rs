//! Rules of a forwarder: `@` lines deny, `R` lines route; they can be loaded anew at any time.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use widelane_classify::live::{Live, Reader, RuleId, UpdateError};
use widelane_classify::rule::{Layout, Match, ParseError, Rule, RuleSet, dpdk};
use widelane_classify::{BuildError, Limits};
use widelane_cpu::Policy;

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
    #[error("{file}: {error}")]
    Update {
        /// The file.
        file: String,
        /// Why not.
        error: UpdateError,
    },
    /// More rules than can be counted.
    #[error("{file}: more than {max} different rules since the start", max = NUMBERS_MAX)]
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
    register: Mutex<Register>,
}

/// All rules that there have been: a rule that comes back is counted on.
#[derive(Debug, Default)]
struct Register {
    numbers: HashMap<Identity, u32>,
    infos: Vec<RuleInfo>,
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
const DENY: u32 = 0xfe;
const NO_ROUTE: u32 = 0xff;
/// The priority of denials: above that of the longest destination.
const DENY_PRIORITY: i32 = 129;

impl Action {
    /// The action that a lookup's result stands for.
    #[inline]
    pub fn of(result: u32) -> Self {
        let number = result & (NUMBERS_MAX as u32 - 1);
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
        let mut register = Register::default();
        let set = register.read(file, text, is_v6, ports)?;
        let live = Live::new(&set, limits, policy)
            .map_err(|error| RoutesError::Build { file: file.to_owned(), error })?;
        let is_v6 = set.layout == Layout::ipv6();
        let register = Mutex::new(register);
        Ok(Routes { file: file.to_owned(), ports, live, is_v6, register })
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
        let set = self.register().read(&self.file, text, self.is_v6, self.ports)?;
        let update = |error| RoutesError::Update { file: self.file.clone(), error };
        let mut wanted: Vec<&Rule> = set.rules.iter().collect();
        wanted.sort_by_key(|rule| Reverse(rule.priority));
        let present = self.live.rules();
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
                self.live.replace(&set).map_err(update)?;
                return Ok(Reload::All);
            }
        }
        Ok(Reload::OneRule)
    }

    /// The rule of a number; rules that are no more keep theirs.
    pub fn info(&self, number: u32) -> Option<RuleInfo> {
        self.register().infos.get(number as usize).cloned()
    }

    /// A panic elsewhere does not poison it: what a file said is entered line by line.
    fn register(&self) -> MutexGuard<'_, Register> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Register {
    /// The rules of a text, numbered, with priorities as a forwarder needs them; for IPv6 or not
    /// where there are none to tell.
    fn read(
        &mut self,
        file: &str,
        text: &str,
        is_v6: bool,
        ports: usize,
    ) -> Result<RuleSet, RoutesError> {
        let mut set = dpdk::parse(file, text)?;
        if set.rules.is_empty() && is_v6 {
            set.layout = Layout::ipv6();
        }
        set.default = NO_ROUTE << NUMBER_BITS;
        let lines: Vec<&str> = text.lines().collect();
        let address_bytes = set.layout.fields()[1].bytes;
        let mut occurrences: HashMap<(Box<[Match]>, u32), u32> = HashMap::new();
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
            let identity =
                Identity { matches: rule.matches.clone(), port, occurrence: *occurrence };
            *occurrence += 1;
            let line = lines.get(rule.line as usize - 1).copied().unwrap_or_default().trim();
            let number = self.enter(identity, rule.line, line);
            let number = number.ok_or_else(|| RoutesError::TooMany { file: file.to_owned() })?;
            rule.result = port << NUMBER_BITS | number;
            rule.priority = match port {
                DENY => DENY_PRIORITY,
                _ => rule.matches[1]
                    .as_mask(address_bytes)
                    .map_or(0, |(_, mask)| mask.count_ones() as i32),
            };
        }
        Ok(set)
    }

    fn enter(&mut self, identity: Identity, line: u32, text: &str) -> Option<u32> {
        let next = self.infos.len();
        let number = *self.numbers.entry(identity).or_insert(next as u32);
        if number as usize == next {
            if next >= NUMBERS_MAX {
                return None;
            }
            self.infos.push(RuleInfo { line, text: text.into() });
        }
        self.infos[number as usize].line = line;
        Some(number)
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
        assert!(matches!(
            routes.reload("@::/0 ::/0 0 : 1 0 : 1 0/0"),
            Err(RoutesError::Update { error: UpdateError::OtherShape, .. })
        ));
        assert_eq!(action(&routes, 0x0101_0101, 0x0a03_0001), Action::Route(0, 0));
    }
}

//! What is said on standard error while a server is measured: on a terminal in one line.

use std::io::{self, IsTerminal, Write};

use widelane_tables::counted;

use super::answer::{Setting, Slice, pairs_of, ratio_of};
use super::plan::{PAIRS_FOR_INTERVAL, Plan};
use crate::units;

/// Says how far it is.
pub struct Progress {
    pairs: usize,
    is_terminal: bool,
    /// What the last pair showed.
    last: String,
}

impl Progress {
    /// Says what begins.
    pub fn begin(server: &str, processes: usize, plan: &Plan) -> Self {
        let progress = Progress {
            pairs: plan.pairs,
            is_terminal: io::stderr().is_terminal(),
            last: String::new(),
        };
        let few = match plan.pairs < PAIRS_FOR_INTERVAL {
            true => "; fewer than six pairs give no answer",
            false => "",
        };
        progress.say(&format!(
            "widelane: switching {} of {server} off and on in turns for {}, {} of slices of \
             {}{few}; Ctrl-C ends it, and leaves them on\n",
            counted(processes, "process", "processes"),
            units::words(plan.time()),
            counted(plan.pairs, "pair", "pairs"),
            units::words(plan.slice),
        ));
        progress
    }

    /// A slice begins.
    pub fn slice(&self, pair: usize, setting: Setting) {
        if self.is_terminal {
            let (pairs, last) = (self.pairs, &self.last);
            self.say(&format!("\r\x1b[Kpair {} of {pairs}: {setting} now{last}", pair + 1));
        }
    }

    /// A pair has ended.
    pub fn pair(&mut self, pair: usize, slices: &[Slice]) {
        let of_pair: Vec<_> = slices.iter().filter(|slice| slice.pair == pair).cloned().collect();
        let shown = match pairs_of(&of_pair).first() {
            Some((on, off)) => format!(
                "{:.0} µs per handshake on, {:.0} off, ratio {:.2}",
                on.cpu_us_per_handshake(),
                off.cpu_us_per_handshake(),
                ratio_of((on, off)),
            ),
            None => {
                let why = of_pair.iter().find_map(|slice| slice.left_out);
                format!("not counted: {}", why.map_or("", |why| why.words()))
            }
        };
        if self.is_terminal {
            self.last = format!("; pair {}: {shown}", pair + 1);
        } else {
            self.say(&format!("widelane: pair {} of {}: {shown}\n", pair + 1, self.pairs));
        }
    }

    /// Clears the line that says what is under way: nothing more is said.
    pub fn finish(&self) {
        if self.is_terminal {
            self.say("\r\x1b[K");
        }
    }

    /// Whoever does not listen keeps nobody from measuring.
    fn say(&self, text: &str) {
        drop(io::stderr().write_all(text.as_bytes()));
    }
}

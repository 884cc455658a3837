//! What a policy says by one word: a key of its file, and the environment variable that stands for
//! it.

use std::fmt;
use std::str::FromStr;

use super::Policy;

/// A setting of a policy: its key in a file, and how its value is read.
#[derive(Debug)]
pub struct Setting {
    /// The key in a policy file.
    pub key: &'static str,
    /// The environment variable that stands for it, where there is one.
    pub variable: Option<&'static str>,
    /// How a file has its values; shown where one is of another type.
    pub(super) written: &'static str,
    /// Some values as examples, in quotes.
    pub(super) examples: &'static str,
    /// Reads a value into a policy, or says what is allowed.
    pub(super) set: fn(&mut Policy, &str) -> Result<(), String>,
}

/// All settings. One more is a line here, a field of [`Policy`] and a flag of `widelane run`.
pub const SETTINGS: [Setting; 6] = [
    Setting {
        key: "choose",
        variable: None,
        written: "\"widest\" or \"auto\", in quotes",
        examples: "\"widest\" or \"auto\"",
        set: |policy, text| read(&mut policy.choose, text),
    },
    Setting {
        key: "wait_max",
        variable: Some(super::WAIT_VARIABLE),
        written: "a time in quotes, such as \"0.5ms\"",
        examples: "\"0.5ms\" or \"rtt\"",
        set: |policy, text| read(&mut policy.wait_max, text),
    },
    Setting {
        key: "combine",
        variable: Some(super::COMBINE_VARIABLE),
        written: "\"on\", \"off\" or \"auto\", in quotes",
        examples: "\"on\", \"off\" or \"auto\"",
        set: |policy, text| read(&mut policy.combine, text),
    },
    Setting {
        key: "lane_cpus",
        variable: Some(super::LANE_CPUS_VARIABLE),
        written: "a list in quotes, such as \"2,4-7\"",
        examples: "\"2,4-7\" or \"none\"",
        set: |policy, text| read(&mut policy.lane_cpus, text),
    },
    Setting {
        key: "lane_user",
        variable: Some(super::LANE_USER_VARIABLE),
        written: "a name in quotes, such as \"widelane\"",
        examples: "\"widelane\"",
        set: |policy, text| read(&mut policy.lane_user, text),
    },
    Setting {
        key: "engine",
        variable: Some(super::ENGINE_VARIABLE),
        written: "\"cpu\", \"qat\" or \"qat-first\", in quotes",
        examples: "\"cpu\", \"qat\" or \"qat-first\"",
        set: |policy, text| read(&mut policy.engine, text),
    },
];

fn read<T: FromStr<Err: fmt::Display>>(place: &mut Option<T>, text: &str) -> Result<(), String> {
    *place = Some(text.parse().map_err(|error: T::Err| error.to_string())?);
    Ok(())
}

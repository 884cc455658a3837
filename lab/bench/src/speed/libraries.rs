//! Other libraries, timed in the program `rivals/bulk` by the same slices.

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use crate::rival::{Rival, RivalError};

/// Another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// AWS-LC.
    AwsLc,
    /// Graviola.
    Graviola,
    /// Intel's Multi-Buffer Crypto for IPsec.
    IpsecMb,
    /// libcrux.
    Libcrux,
    /// ring.
    Ring,
}

impl Library {
    /// Every library.
    pub const ALL: [Library; 5] =
        [Library::AwsLc, Library::Ring, Library::Graviola, Library::IpsecMb, Library::Libcrux];

    /// The library's name in results and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Library::AwsLc => "aws-lc",
            Library::Graviola => "graviola",
            Library::IpsecMb => "ipsec-mb",
            Library::Libcrux => "libcrux",
            Library::Ring => "ring",
        }
    }
}

/// The running program with the libraries that it has of those wanted.
pub struct Libraries {
    rival: RefCell<Rival>,
    present: Vec<Library>,
}

/// What the program says when it is ready.
#[derive(Deserialize)]
struct Ready {
    libraries: Vec<String>,
}

/// What it says to a command, or why it cannot do it.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer<T> {
    Done(T),
    Missing(String),
}

#[derive(Deserialize)]
struct Slice {
    operations: u64,
    cpu_ns: u64,
}

impl Libraries {
    /// Starts `program`, which stays on the CPU that this thread is kept on.
    ///
    /// # Errors
    ///
    /// See [`RivalError`].
    pub fn start(program: &Path, wanted: &[Library]) -> Result<Self, RivalError> {
        let mut rival = Rival::start(Command::new(program))?;
        let Ready { libraries } = rival.hear()?;
        let is_there = |library: &Library| libraries.iter().any(|name| name == library.name());
        let present = wanted.iter().copied().filter(is_there).collect();
        Ok(Libraries { rival: RefCell::new(rival), present })
    }

    /// The libraries, each beside the program that has it.
    pub fn each(&self) -> impl Iterator<Item = (&Self, Library)> {
        self.present.iter().map(move |library| (self, *library))
    }

    /// What `library` puts out for every message of `scenario`, or why it cannot do it.
    ///
    /// # Errors
    ///
    /// See [`RivalError`].
    pub fn output(
        &self,
        library: Library,
        scenario: &str,
    ) -> Result<Result<Vec<Vec<u8>>, String>, RivalError> {
        let command = format!("output {} {scenario}", library.name());
        Ok(match self.rival.borrow_mut().ask(&command)? {
            Answer::Done(outputs) => Ok(outputs),
            Answer::Missing(reason) => Err(reason),
        })
    }

    /// Lets `library` work for `time`; returns how many operations it did and how long it took.
    ///
    /// # Errors
    ///
    /// See [`RivalError`].
    pub fn slice(
        &self,
        library: Library,
        scenario: &str,
        time: Duration,
    ) -> Result<(u64, Duration), RivalError> {
        let command = format!("slice {} {scenario} {}", library.name(), time.as_nanos());
        match self.rival.borrow_mut().ask(&command)? {
            Answer::Done(Slice { operations, cpu_ns }) => {
                Ok((operations, Duration::from_nanos(cpu_ns)))
            }
            // It could when it was asked for its output.
            Answer::Missing(_) => Err(RivalError::Gone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_answer_for_every_message_or_say_why_not() {
        let mut command = Command::new("/bin/sh");
        command.args([
            "-c",
            r#"while read command library scenario time; do
                case $command,$library in
                    output,ring) echo '{"missing":"one message at a time only"}' ;;
                    output,*) echo '{"done":[[1, 2],[3, 4]]}' ;;
                    *) echo '{"done":{"operations":64,"cpu_ns":'$time'}}' ;;
                esac
            done"#,
        ]);
        let rival = RefCell::new(Rival::start(command).unwrap());
        let libraries = Libraries { rival, present: Library::ALL.to_vec() };
        let scenario = "sha-1/digest-many/64";
        let refused = libraries.output(Library::Ring, scenario).unwrap();
        assert_eq!(refused, Err("one message at a time only".to_owned()));
        let outputs = libraries.output(Library::IpsecMb, scenario).unwrap();
        assert_eq!(outputs, Ok(vec![vec![1, 2], vec![3, 4]]));
        let time = Duration::from_millis(5);
        assert_eq!(libraries.slice(Library::IpsecMb, scenario, time).unwrap(), (64, time));
    }
}

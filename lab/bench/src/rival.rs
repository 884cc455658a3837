//! Rival programs: libraries that are not needed to build Widelane, timed by commands over a pipe.
//!
//! A program of `rivals/` answers every line on its standard input by one line of JSON, and ends at
//! the end of its input.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;
use thiserror::Error;

/// A running rival.
pub struct Rival {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// Why a rival cannot be asked.
#[derive(Debug, Error)]
pub enum RivalError {
    /// The program could not be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The program is gone.
    #[error("the rival program ended without an answer; its own message stands above")]
    Gone,
    /// The answer is not what was asked for.
    #[error("the rival program answered {line:?}; build it anew from this version's rivals/")]
    Answer {
        /// What it said.
        line: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl Rival {
    /// Starts the program of `command`.
    ///
    /// # Errors
    ///
    /// [`RivalError::Start`].
    pub fn start(mut command: Command) -> Result<Self, RivalError> {
        let program = command.get_program().to_string_lossy().into_owned();
        // In a group of its own, so that Ctrl-C reaches it by way of its caller only.
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| RivalError::Start { program, source })?;
        let commands = child.stdin.take();
        let answers = child.stdout.take().ok_or(RivalError::Gone)?;
        Ok(Rival { child, commands, answers: BufReader::new(answers) })
    }

    /// Says `command` and takes the answer.
    ///
    /// # Errors
    ///
    /// See [`RivalError`].
    pub fn ask<T: DeserializeOwned>(&mut self, command: &str) -> Result<T, RivalError> {
        let commands = self.commands.as_mut().ok_or(RivalError::Gone)?;
        writeln!(commands, "{command}").map_err(|_| RivalError::Gone)?;
        self.hear()
    }

    /// Takes what the program says unasked.
    ///
    /// # Errors
    ///
    /// See [`RivalError`].
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T, RivalError> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|_| RivalError::Gone)?;
        if line.is_empty() {
            return Err(RivalError::Gone);
        }
        serde_json::from_str(&line).map_err(|source| RivalError::Answer { line, source })
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // At the end of its input the rival ends by itself.
        self.commands = None;
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Rival {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Rival::start(command).unwrap()
    }

    #[test]
    fn commands_are_answered_line_by_line() {
        let mut rival = shell("echo 1; while read a b; do echo \"[$b, $a]\"; done");
        assert_eq!(rival.hear::<u64>().unwrap(), 1);
        assert_eq!(rival.ask::<[u64; 2]>("2 3").unwrap(), [3, 2]);
        assert_eq!(rival.ask::<[u64; 2]>("4 5").unwrap(), [5, 4]);
    }

    #[test]
    fn an_interrupt_of_our_group_is_none_of_a_rival() {
        let mut rival = shell("read line; cut -d' ' -f5 /proc/$$/stat; read line");
        let group = rival.ask::<i32>("your group?").unwrap();
        assert_ne!(group, nix::unistd::getpgrp().as_raw());
    }

    #[test]
    fn a_rival_that_is_gone_or_talks_nonsense_is_an_error() {
        assert!(matches!(shell("exit 1").hear::<u64>(), Err(RivalError::Gone)));
        let mut rival = shell("read line; echo \"what: $line\"; read line");
        let Err(error) = rival.ask::<u64>("hello") else {
            panic!("nonsense is taken for a number")
        };
        assert!(error.to_string().contains("what: hello"), "{error}");
        let absent = Rival::start(Command::new("/nowhere/rival"));
        assert!(matches!(absent, Err(RivalError::Start { .. })));
    }
}

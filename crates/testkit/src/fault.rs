//! Faults on demand: one bit of a computation's stack flips while it runs.
#![allow(unsafe_code, reason = "fork, and writes into the memory of the child")]

use std::thread::sleep;
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use crate::random::Random;

/// What leaves a computation with secrets, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaves {
    /// The right results, and nothing else.
    Right,
    /// No wrong result: what was wrong was found out.
    Nothing,
    /// A wrong result that says nothing about the secrets.
    Useless,
    /// A wrong result that gives something of them away.
    Revealing,
}

/// Disturbs `work`, which lasts `lasts`, at `flips` random moments, as [`disturb`] does, and prints
/// what left it under the name `what`.
///
/// # Panics
/// When something left that reveals secrets, or when nothing was ever found out.
pub fn attack<T>(
    what: &str,
    flips: usize,
    lasts: Duration,
    prepare: impl Fn() -> T,
    work: impl Fn(&mut T) -> Leaves,
) {
    let mut random = Random::new(7);
    let [mut found_out, mut useless, mut harmless, mut died] = [0; 4];
    for _ in 0..flips {
        let after = Duration::from_nanos(random.below(lasts.as_nanos() as usize) as u64);
        match disturb(&prepare, |prepared| work(prepared) as i32, after, &mut random) {
            Ending::Answered(answer) => match answer {
                answer if answer == Leaves::Right as i32 => harmless += 1,
                answer if answer == Leaves::Nothing as i32 => found_out += 1,
                answer if answer == Leaves::Useless as i32 => useless += 1,
                answer if answer == Leaves::Revealing as i32 => {
                    panic!("what leaves {what} reveals a key")
                }
                // It panicked.
                _ => died += 1,
            },
            Ending::Died => died += 1,
            Ending::Undisturbed => harmless += 1,
        }
    }
    eprintln!(
        "{what}: {found_out} found out, {useless} useless, {harmless} without effect, \
         {died} crashed"
    );
    assert!(found_out > 0, "no flipped bit had an effect in {what}");
}

/// What became of a computation that was disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was over before the bit could flip.
    Undisturbed,
    /// It came to its end and answered this.
    Answered(i32),
    /// It crashed or hung.
    Died,
}

/// Runs `work` on what `prepare` makes in a child process, and after a while flips one bit of the
/// stack that `work` uses, drawn from `random`. The frames nearest to `work` are spared: they hold
/// what judges the result. Call it from a process with one thread.
///
/// # Panics
/// When the child may not be traced.
pub fn disturb<T>(
    prepare: impl FnOnce() -> T,
    work: impl FnOnce(&mut T) -> i32,
    after: Duration,
    random: &mut Random,
) -> Ending {
    // SAFETY: the process has one thread, as the caller promises; the child only runs the closures.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Child => {
            ptrace::traceme().expect("a child may be traced");
            let mut prepared = prepare();
            raise(Signal::SIGSTOP).expect("stop before");
            std::process::exit(work(&mut prepared))
        }
        ForkResult::Parent { child } => flip_one(child, after, random),
    }
}

/// Bytes of stack that are spared.
const SPARED: u64 = 1024;

/// How long a disturbed computation may take.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(1);

fn flip_one(child: Pid, after: Duration, random: &mut Random) -> Ending {
    let stack_pointer = || ptrace::getregs(child).expect("a stopped child has registers").rsp;
    let stopped = waitpid(child, None).expect("wait");
    assert_eq!(stopped, WaitStatus::Stopped(child, Signal::SIGSTOP));
    let top = stack_pointer() - SPARED;
    ptrace::cont(child, None).expect("continue");
    sleep(after);
    // Fails if it has ended, which the next line finds out.
    let _ = kill(child, Signal::SIGSTOP);
    match waitpid(child, None).expect("wait") {
        WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
        _ => return Ending::Undisturbed,
    }
    let bottom = stack_pointer() & !7;
    let is_disturbed = bottom < top;
    if is_disturbed {
        let words = (top - bottom) as usize / 8;
        let address = (bottom as usize + 8 * random.below(words)) as ptrace::AddressType;
        let word = ptrace::read(child, address).expect("a stack can be read");
        ptrace::write(child, address, word ^ (1 << random.below(64))).expect("and written");
    }
    ptrace::cont(child, None).expect("continue");
    let ending = end_of(child);
    if is_disturbed { ending } else { Ending::Undisturbed }
}

fn end_of(child: Pid) -> Ending {
    let mut waited = Duration::ZERO;
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)).expect("wait") {
            WaitStatus::Exited(_, status) => return Ending::Answered(status),
            WaitStatus::StillAlive if waited < PATIENCE => {
                sleep(LOOK);
                waited += LOOK;
            }
            // A signal of its own making, or for ever at work.
            _ => {
                let _ = kill(child, Signal::SIGKILL);
                while !matches!(
                    waitpid(child, None),
                    Ok(WaitStatus::Signaled(..) | WaitStatus::Exited(..)) | Err(_)
                ) {}
                return Ending::Died;
            }
        }
    }
}

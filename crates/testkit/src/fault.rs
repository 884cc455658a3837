//! Faults on demand: one bit of a computation's stack flips while it runs.
#![allow(unsafe_code, reason = "fork, and writes into the memory of the child")]

use std::thread::sleep;
use std::time::{Duration, Instant};

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

impl Leaves {
    /// The worst of what left. What comes behind something revealing is not judged any more.
    pub fn worst(all: impl IntoIterator<Item = Leaves>) -> Leaves {
        let worst = all.into_iter().try_fold(Leaves::Right, |worst, one| match one {
            Leaves::Revealing => Err(one),
            _ => Ok(worst.max(one)),
        });
        worst.unwrap_or_else(|revealing| revealing)
    }
}

/// Disturbs `work`, which lasts `lasts`, at `flips` random moments, as [`disturb`] does, has
/// `judge` say what left it, and prints that under the name `what`.
///
/// # Panics
/// When something left that reveals secrets, when nothing was ever found out, or when too much was
/// never judged.
pub fn attack<R>(
    what: &str,
    flips: usize,
    lasts: Duration,
    work: impl Fn() -> R,
    judge: impl Fn(R) -> Leaves,
) {
    let mut random = Random::new(7);
    let [mut found_out, mut useless, mut harmless, mut died, mut hung] = [0; 5];
    for _ in 0..flips {
        let after = Duration::from_nanos(random.below(lasts.as_nanos() as usize) as u64);
        match disturb(&work, |result| judge(result) as i32, after, &mut random) {
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
            Ending::Hung => hung += 1,
            Ending::Undisturbed => harmless += 1,
        }
    }
    eprintln!(
        "{what}: {found_out} found out, {useless} useless, {harmless} without effect, \
         {died} crashed, {hung} hung"
    );
    assert!(found_out > 0, "no flipped bit had an effect in {what}");
    assert!(hung <= flips / 10, "{hung} of {flips} computations of {what} were never judged");
}

/// What became of a computation that was disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was over before the bit could flip.
    Undisturbed,
    /// It came to its end and answered this.
    Answered(i32),
    /// It crashed.
    Died,
    /// It did not end in time.
    Hung,
}

/// Runs `work` in a child process, and after a while flips one bit of the stack that `work` uses,
/// drawn from `random`; then `judge` has a look at the result. The frames nearest to `work` are
/// spared: they hold what judges. Call it from a process with one thread.
///
/// # Panics
/// When the child may not be traced.
pub fn disturb<R>(
    work: impl FnOnce() -> R,
    judge: impl FnOnce(R) -> i32,
    after: Duration,
    random: &mut Random,
) -> Ending {
    // SAFETY: the process has one thread, as the caller promises; the child only runs the closures.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Child => {
            ptrace::traceme().expect("a child may be traced");
            raise(Signal::SIGSTOP).expect("stop before");
            let result = work();
            raise(Signal::SIGSTOP).expect("stop behind");
            std::process::exit(judge(result))
        }
        ForkResult::Parent { child } => flip_one(child, after, random),
    }
}

/// Bytes of stack that are spared.
const SPARED: u64 = 1024;

/// How long a disturbed computation may take, which lasts milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// How long its judgement may take: a search, and on a busy machine.
const PATIENCE_WITH_JUDGEMENT: Duration = Duration::from_secs(60);
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
    // Its own stop behind the work has used no more stack than the one before.
    if bottom >= top {
        return ended(child, Ending::Undisturbed);
    }
    let words = (top - bottom) as usize / 8;
    let address = (bottom as usize + 8 * random.below(words)) as ptrace::AddressType;
    let word = ptrace::read(child, address).expect("a stack can be read");
    ptrace::write(child, address, word ^ (1 << random.below(64))).expect("and written");
    ptrace::cont(child, None).expect("continue");
    match next_of(child, PATIENCE) {
        WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
        // It panicked.
        WaitStatus::Exited(..) => return Ending::Died,
        other => return unfinished(child, other),
    }
    ptrace::cont(child, None).expect("continue");
    match next_of(child, PATIENCE_WITH_JUDGEMENT) {
        WaitStatus::Exited(_, status) => Ending::Answered(status),
        other => unfinished(child, other),
    }
}

/// Ends a child that hangs, or is about to die of a signal of its own making.
fn unfinished(child: Pid, status: WaitStatus) -> Ending {
    let hangs = status == WaitStatus::StillAlive;
    ended(child, if hangs { Ending::Hung } else { Ending::Died })
}

/// What happens next to a child; that it still lives if nothing does for so long.
fn next_of(child: Pid, patience: Duration) -> WaitStatus {
    let end = Instant::now() + patience;
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)).expect("wait") {
            WaitStatus::StillAlive if Instant::now() < end => sleep(LOOK),
            status => return status,
        }
    }
}

/// Ends a child.
fn ended(child: Pid, ending: Ending) -> Ending {
    let _ = kill(child, Signal::SIGKILL);
    let is_there = |status| !matches!(status, WaitStatus::Signaled(..) | WaitStatus::Exited(..));
    while waitpid(child, None).is_ok_and(is_there) {}
    ending
}

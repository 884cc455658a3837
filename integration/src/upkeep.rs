//! What an operator, or bad luck, does to a server while clients come: reloads, killed workers,
//! hard times.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use widelane_testkit::random::Random;

use crate::hardship::Hardship;
use crate::misbehaving_clients::Failure;
use crate::server::Server;

/// How often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// From one reload to the next.
    pub reload_every: Duration,
    /// From one killed worker to the next, where any is killed.
    pub kill_every: Option<Duration>,
    /// From one hardship to the next, where any befalls the server.
    pub hardship_every: Option<Duration>,
    /// When reloads and kills end, if they do, and hardships that want a reload: from then on
    /// workers grow old, and what they leak does not end with them.
    pub renewal_ends: Option<Duration>,
}

/// What was done to the server while the clients ran.
#[derive(Default)]
pub struct Upkeep {
    /// Reloads.
    pub reloads: u64,
    /// Workers killed.
    pub kills: u64,
    /// Reloads in which the server itself dropped its listening sockets, and the connections that
    /// waited in them.
    pub drops: u64,
    /// What befell it, and from when to when.
    pub hardships: Vec<(Hardship, Instant, Instant)>,
    /// From when to when a connection may have met a kill or a drop.
    excuses: Vec<(Instant, Instant)>,
    /// From when to when memory was short, the reload included that it wanted.
    shortages: Vec<(Instant, Instant)>,
}

impl Upkeep {
    /// Whether a connection was there at a kill or a drop, and broke at it, or while memory was
    /// short, when a server may refuse it in any way.
    pub fn explains(&self, failure: &Failure) -> bool {
        let is_at = |&(begin, end): &(Instant, Instant)| {
            failure.began <= end && failure.ended >= begin && failure.ended <= end + NOTICED_WITHIN
        };
        failure.broken && self.excuses.iter().any(is_at) || self.shortages.iter().any(is_at)
    }

    /// Takes note of dropped sockets, which may happen at any time: a reload that was asked for
    /// twice comes twice, the second time when no test waits for it any more.
    fn look_for_drops(&mut self, server: &Server, looked: Instant) -> Instant {
        let (drops, now) = (server.socket_drops(), Instant::now());
        if drops > self.drops {
            self.excuses.push((looked, now + NOTICED_WITHIN));
        }
        self.drops = drops;
        now
    }
}

impl Plan {
    /// Reloads the server, kills its workers and lets hard times befall it until that `is_over`.
    ///
    /// # Errors
    ///
    /// If the server does not take a request to reload, or the system a limit.
    pub fn keep_up(&self, server: &Server, is_over: impl Fn() -> bool) -> Result<Upkeep> {
        let mut upkeep = Upkeep::default();
        let mut random = Random::new(3);
        let began = Instant::now();
        let (mut reloaded, mut killed) = (began, began);
        let (mut hardships, mut hard) = (Hardship::ALL.into_iter().cycle(), Instant::now());
        let mut looked = began;
        while !is_over() {
            sleep(Duration::from_millis(10));
            if looked.elapsed() >= LOOK {
                looked = upkeep.look_for_drops(server, looked);
            }
            let renews = self.renewal_ends.is_none_or(|end| began.elapsed() < end);
            if renews && reloaded.elapsed() >= self.reload_every {
                reloaded = Instant::now();
                upkeep.reloads += 1;
                server.reload()?;
            }
            if renews && self.kill_every.is_some_and(|every| killed.elapsed() >= every) {
                killed = Instant::now();
                if server.kill_worker(random.below(64)) {
                    upkeep.kills += 1;
                    upkeep.excuses.push((killed, Instant::now()));
                }
            }
            if self.hardship_every.is_some_and(|every| hard.elapsed() >= every)
                && let Some(hardship) = hardships.find(|&next| {
                    next.fits(server) && (renews || !server.wants_reload_behind(next))
                })
            {
                hard = Instant::now();
                hardship.befall(server)?;
                upkeep.hardships.push((hardship, hard, Instant::now()));
                if server.wants_reload_behind(hardship) {
                    reloaded = Instant::now();
                    upkeep.reloads += 1;
                    server.reload()?;
                }
                if hardship == Hardship::Memory {
                    upkeep.shortages.push((hard, Instant::now()));
                }
            }
        }
        upkeep.look_for_drops(server, looked);
        Ok(upkeep)
    }
}

/// From one look at what the server says to the next.
const LOOK: Duration = Duration::from_millis(500);

/// How long a killed worker's connections may take to break, and their clients to notice, where
/// everything shares two busy CPUs.
const NOTICED_WITHIN: Duration = Duration::from_secs(3);

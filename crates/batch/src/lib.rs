//! Queues: jobs come one by one and leave in batches.
//!
//! Three ways to wait, one for each way that jobs arrive:
//!
//! | Type | Who submits | What closes a batch |
//! |---|---|---|
//! | [`Lane`] | one event-loop thread, for itself | lanes full, or the loop is about to sleep |
//! | [`Shared`] | threads with other work meanwhile | lanes full, or a moving deadline |
//! | [`Crew`] | threads that block until their job is done | a leader's turn |
//!
//! [`Slots`] is memory in which event loops of several threads or processes find each other's jobs.
//! [`Encounters`] decides whether a job should be left on its lane at all, [`Company`] whether a
//! loop that is about to sleep should wait a little first; [`cheapest`] divides jobs among kernels
//! by what each costs.
//!
//! A job is any type; what a batch does with it is the caller's business. Time is passed in as
//! [`Tick`]s. Every [`Batch`] carries what statistics need: its fill, why it closed, and since when
//! each job waited.
//!
//! **Invariant**: every submitted job is handed out exactly once. No clock is read here.

#![forbid(unsafe_code)]

mod batch;
mod company;
mod crew;
mod encounters;
mod ladder;
mod lane;
mod pace;
mod shared;
mod slots;
mod sync;
mod tick;

pub use batch::{Batch, Closed, Entry};
pub use company::{Arrivals, Company, Others, Waited};
pub use crew::Crew;
pub use encounters::Encounters;
pub use ladder::{JOBS_MAX, Way, cheapest, least_costs};
pub use lane::Lane;
pub use shared::{Due, Shared, Submitted};
pub use slots::{Choice, Claim, Claimed, Finished, KeyName, Offer, Seeker, Slots, Stage};
pub use tick::Tick;

/// What a thread spends, about, that sleeps and is woken once more: waiting for company has to save
/// more.
pub const SLEEP_COST_NS: u64 = 15_000;

/// What an event loop spends, about, on the turns by which it comes back to a parked job.
pub const PARK_COST_NS: u64 = 4_000;

//! An agent: waits on the bus, carries out one load at a time, reports what it counts.

use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::{Client, Message, Subscriber};
use futures_util::StreamExt;
use serde::Serialize;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::{MissedTickBehavior, interval};
use widelane_loadgen::{Course, GivenUp, LoadError, Plan, drive};

use crate::allow::Allowed;
use crate::bus::{Bus, FleetError, broken, leave};
use crate::coordination::BEAT;
use crate::specification::{Limits, Refusal, Specification};
use crate::wire::{self, Answer, Counted, Hello, News, Order, What};

/// An agent stops its load if it has not heard its director for so long.
const DIRECTOR_SILENT: Duration = Duration::from_secs(10);

/// A load that begins later than this is none.
const START_MAX: Duration = Duration::from_secs(60);

/// What an agent may do.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name, for people.
    pub name: String,
    /// Servers that it may load.
    pub allowed: Vec<Allowed>,
    /// How much of it.
    pub limits: Limits,
}

/// What an agent does, for its log.
#[derive(Debug)]
pub enum Event {
    /// It waits on the bus.
    Joined,
    /// It takes part in a load.
    Accepted {
        /// The load's name.
        run: String,
        /// The server.
        target: SocketAddr,
    },
    /// It does not.
    Refused(Refusal),
    /// A load is over.
    Over {
        /// Its name.
        run: String,
        /// Finished handshakes.
        handshakes: u64,
    },
    /// A load was given up.
    Failed {
        /// Its name.
        run: String,
        /// Why.
        reason: String,
    },
    /// The director of a load is gone, so that it was stopped.
    Abandoned {
        /// Its name.
        run: String,
    },
}

/// Serves directors until `stop` is set.
///
/// # Errors
///
/// If the bus cannot be joined, or fails for good.
pub fn serve(
    bus: &Bus,
    agent: &Agent,
    stop: &AtomicBool,
    tell: impl FnMut(&Event),
) -> Result<(), FleetError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let joined = bus.join(&format!("widelane-agent-{}", agent.name)).await?;
        let (id, client) = (joined.unique_name(), joined.client);
        let origin = Instant::now();
        Serving { client, agent, id, origin, load: None, tell }.serve(stop).await
    })
}

/// An agent at its work.
struct Serving<'a, T> {
    client: Client,
    agent: &'a Agent,
    id: String,
    /// Zero of the agent's clock.
    origin: Instant,
    load: Option<UnderWay>,
    tell: T,
}

/// A load that is under way.
struct UnderWay {
    run: String,
    stop: Arc<AtomicBool>,
    director_heard: Instant,
}

/// What the threads of a load tell.
type Told = (String, What);

impl<T: FnMut(&Event)> Serving<'_, T> {
    async fn serve(mut self, stop: &AtomicBool) -> Result<(), FleetError> {
        let mut calls = self.client.subscribe(wire::ROLL_CALL).await.map_err(broken)?;
        let mut orders = self.client.subscribe(wire::orders_of(&self.id)).await.map_err(broken)?;
        let (sender, mut told) = mpsc::unbounded_channel();
        let mut beats: Option<Subscriber> = None;
        let mut tick = interval(BEAT);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        leave(&self.client).await;
        (self.tell)(&Event::Joined);
        loop {
            tokio::select! {
                call = calls.next() => self.introduce(call.ok_or_else(closed)?).await?,
                order = orders.next() => {
                    let order = order.ok_or_else(closed)?;
                    if let Some(run) = self.obey(order, &sender).await? {
                        let beat = wire::beat_of(&run);
                        beats = Some(self.client.subscribe(beat).await.map_err(broken)?);
                    }
                }
                Some((run, what)) = told.recv() => {
                    let ends = matches!(what, What::Over { .. } | What::Failed { .. });
                    self.log(&run, &what);
                    self.publish(&run, what).await?;
                    if ends {
                        (self.load, beats) = (None, None);
                    }
                }
                _ = next(&mut beats) => {
                    if let Some(load) = &mut self.load {
                        load.director_heard = Instant::now();
                    }
                }
                _ = tick.tick() => self.beat(stop).await?,
            }
            if stop.load(Ordering::Relaxed) && self.load.is_none() {
                leave(&self.client).await;
                return Ok(());
            }
        }
    }

    /// Answers a roll call.
    async fn introduce(&self, call: Message) -> Result<(), FleetError> {
        let hello =
            Hello { id: self.id.clone(), name: self.agent.name.clone(), busy: self.load.is_some() };
        self.answer(&call, &hello).await
    }

    /// Carries out an order; the name of the run if a load has begun.
    async fn obey(
        &mut self,
        message: Message,
        told: &UnboundedSender<Told>,
    ) -> Result<Option<String>, FleetError> {
        let mut begun = None;
        let answer = match wire::decode(&message.payload) {
            Ok(Order::Time) => Answer::Time { now_ns: self.origin.elapsed().as_nanos() as u64 },
            Ok(Order::Stop { run }) => {
                self.stop(|load| load.run == run);
                Answer::Done
            }
            Ok(Order::Load { run, specification, start_ns }) => {
                match self.begin(&run, *specification, start_ns, told).await {
                    Ok(()) => {
                        begun = Some(run);
                        Answer::Done
                    }
                    Err(refusal) => {
                        let reason = text(&refusal);
                        (self.tell)(&Event::Refused(refusal));
                        Answer::Refused(reason)
                    }
                }
            }
            Err(error) => Answer::Refused(text(&error)),
        };
        self.answer(&message, &answer).await?;
        Ok(begun)
    }

    /// Begins a load at its time, on a thread of its own.
    async fn begin(
        &mut self,
        run: &str,
        specification: Specification,
        start_ns: u64,
        told: &UnboundedSender<Told>,
    ) -> Result<(), Refusal> {
        if self.load.is_some() {
            return Err(Refusal::Busy);
        }
        if !wire::is_token(run) {
            return Err(Refusal::Invalid("the name of a run must be 1 to 64 letters and digits"));
        }
        let (allowed, limits) = (self.agent.allowed.clone(), self.agent.limits);
        // The agent's own `--cpus` say where it runs, and nobody on the bus.
        let course = Course { cpus: Vec::new(), ..specification.course.clone() };
        // A name may take seconds to be resolved.
        let planned = tokio::task::spawn_blocking(move || specification.plan(&allowed, &limits));
        let plan =
            planned.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        let start = self.origin + Duration::from_nanos(start_ns);
        let now = Instant::now();
        if start < now {
            return Err(Refusal::Start("over"));
        }
        if start > now + START_MAX {
            return Err(Refusal::Start("more than a minute away"));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let target = plan.target;
        let (origin, told) = (self.origin, told.clone());
        let (name, stopped) = (run.to_owned(), Arc::clone(&stop));
        thread::Builder::new().spawn(move || {
            // The agent leaves only after the load.
            let tell = |what| drop(told.send((name.clone(), what)));
            tell(or_failed(|| work(&plan, &course, origin, start, &stopped, tell)));
        })?;
        (self.tell)(&Event::Accepted { run: run.to_owned(), target });
        self.load = Some(UnderWay { run: run.to_owned(), stop, director_heard: now });
        Ok(())
    }

    /// Reports that the agent is alive; stops what is to be stopped.
    async fn beat(&mut self, stop: &AtomicBool) -> Result<(), FleetError> {
        let Some(load) = &self.load else { return Ok(()) };
        if stop.load(Ordering::Relaxed) {
            load.stop.store(true, Ordering::Relaxed);
        }
        let abandoned = load.director_heard.elapsed() > DIRECTOR_SILENT;
        if abandoned && !load.stop.load(Ordering::Relaxed) {
            let run = load.run.clone();
            self.stop(|_| true);
            (self.tell)(&Event::Abandoned { run });
        }
        let Some(load) = &self.load else { return Ok(()) };
        self.publish(&load.run, What::Alive).await
    }

    fn stop(&self, which: impl Fn(&UnderWay) -> bool) {
        if let Some(load) = self.load.as_ref().filter(|load| which(load)) {
            load.stop.store(true, Ordering::Relaxed);
        }
    }

    fn log(&mut self, run: &str, what: &What) {
        let run = run.to_owned();
        match what {
            What::Over { counted, .. } => {
                (self.tell)(&Event::Over { run, handshakes: counted.handshakes() });
            }
            What::Failed { reason, .. } => {
                (self.tell)(&Event::Failed { run, reason: reason.clone() });
            }
            What::Alive | What::Began { .. } | What::Second { .. } => {}
        }
    }

    async fn publish(&self, run: &str, what: What) -> Result<(), FleetError> {
        let news = wire::encode(&News { agent: self.id.clone(), what });
        self.client.publish(wire::news_of(run), news.into()).await.map_err(broken)
    }

    async fn answer(&self, message: &Message, body: &impl Serialize) -> Result<(), FleetError> {
        let Some(reply) = message.reply.clone() else { return Ok(()) };
        self.client.publish(reply, wire::encode(body).into()).await.map_err(broken)
    }
}

/// How a load ended, also where it panicked: the agent waits for that, and is busy until then.
fn or_failed(load: impl FnOnce() -> Result<What, GivenUp>) -> What {
    let (reason, kind) = match panic::catch_unwind(AssertUnwindSafe(load)) {
        Ok(Ok(ended)) => return ended,
        Ok(Err(given_up)) => match given_up.error {
            LoadError::Failing { kind, .. } => (text(&given_up), Some(kind)),
            _ => (text(&given_up), None),
        },
        Err(_) => ("the load panicked; the agent's log says where".to_owned(), None),
    };
    What::Failed { reason, kind }
}

/// One load, from its instant to its end.
fn work(
    plan: &Plan,
    course: &Course,
    origin: Instant,
    start: Instant,
    stop: &AtomicBool,
    tell: impl Fn(What),
) -> Result<What, GivenUp> {
    while !stop.load(Ordering::Relaxed) {
        let left = start.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(BEAT));
    }
    tell(What::Began { at_ns: origin.elapsed().as_nanos() as u64 });
    let outcome = drive(plan, course, stop, |index, tally| {
        tell(What::Second { index: index as u32, counted: Counted::of(tally) });
    })?;
    Ok(What::over(&outcome))
}

/// The next message of a subscription; never, if there is none.
async fn next(subscriber: &mut Option<Subscriber>) {
    match subscriber {
        Some(subscriber) => drop(subscriber.next().await),
        None => std::future::pending().await,
    }
}

fn closed() -> FleetError {
    broken("the connection is closed for good")
}

/// An error with its causes.
fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_panics_has_failed() {
        let what = or_failed(|| panic!("a defect"));
        assert!(matches!(what, What::Failed { reason, .. } if reason.contains("panicked")));
    }
}

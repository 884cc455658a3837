//! The director: calls the roll, compares clocks, hands out shares, listens.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_nats::{Client, PublishError, Request, Subscriber};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use tokio::runtime::Runtime;
use tokio::time::{MissedTickBehavior, interval, timeout};
use widelane_loadgen::{Outcome, Pace, Tally};

use crate::bus::{Bus, FleetError, Joined, broken, leave};
use crate::coordination::{BEAT, Coordination, Member, SILENCE, Times};
use crate::directed::Directed;
use crate::specification::Specification;
use crate::wire::{self, Answer, Hello, News, Order, WireError};

/// Round trips from which the difference of clocks is taken.
const ROUND_TRIPS: usize = 8;

/// Between the last agreement and the beginning.
const LEAD: Duration = Duration::from_millis(500);

/// More than this for each agent, so that its share has arrived before it begins.
const LEAD_EACH: Duration = Duration::from_millis(50);

/// How long an agent may take to answer an order for a load: it resolves the server's name first,
/// and says itself that this took too long. Shorter than an agent waits for its director's beat.
const LOAD_ANSWER_MAX: Duration = Duration::from_secs(8);

/// What agents may take beyond their load to say that it is over.
const AFTERMATH: Duration = Duration::from_secs(10);

/// Agents that may answer a roll call.
const AGENTS_MAX: usize = 10_000;

/// Whom to call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// How many are to take part.
    pub agents: usize,
    /// How long to wait for them.
    pub wait: Duration,
}

/// Agents that have been called, and wait for loads.
pub struct Director {
    runtime: Runtime,
    joined: Joined,
    agents: Vec<Hello>,
    /// Zero of the director's clock.
    origin: Instant,
}

impl Director {
    /// Joins the bus and calls agents together.
    ///
    /// # Errors
    ///
    /// If the bus cannot be joined, too few agents answer, or `stop` is set.
    pub fn call(bus: &Bus, call: &Call, stop: &AtomicBool) -> Result<Self, FleetError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (joined, agents) = runtime.block_on(async {
            let joined = bus.join("widelane-director").await?;
            let agents = roll_call(&joined.client, call, stop).await?;
            Ok::<_, FleetError>((joined, agents))
        })?;
        Ok(Director { runtime, joined, agents, origin: Instant::now() })
    }

    /// Has all of them carry out `specification` together. `second` is told what they counted in
    /// each second of the window.
    ///
    /// Once `stop` is set, they end their windows there, and the outcome says so.
    ///
    /// # Errors
    ///
    /// If an agent refuses, or there are fewer connections than agents; never because of an agent
    /// that is lost once the load has begun.
    pub fn direct(
        &mut self,
        specification: &Specification,
        stop: &AtomicBool,
        second: impl FnMut(usize, &Tally),
    ) -> Result<Directed, FleetError> {
        specification.check_division(self.agents.len())?;
        self.direct_some(specification, stop, second)
    }

    /// A probe of a search: as [`Director::direct`], by as many agents as there are connections.
    ///
    /// # Errors
    ///
    /// Also if not all of the load was made. An agent that gave up under an open loop is an answer
    /// and no error.
    pub fn attempt(
        &mut self,
        specification: &Specification,
        stop: &AtomicBool,
    ) -> Result<Outcome, FleetError> {
        let directed = self.direct_some(specification, stop, |_, _| ())?;
        directed.whole(matches!(specification.pace, Pace::Open { .. }))
    }

    fn direct_some(
        &mut self,
        specification: &Specification,
        stop: &AtomicBool,
        second: impl FnMut(usize, &Tally),
    ) -> Result<Directed, FleetError> {
        let run = self.joined.unique_name();
        let Director { runtime, joined, agents, origin } = self;
        let load = UnderDirection { joined, run, origin: *origin, stop };
        runtime.block_on(load.direct(specification, agents, second))
    }
}

/// One load.
struct UnderDirection<'a> {
    joined: &'a mut Joined,
    run: String,
    /// Zero of the director's clock.
    origin: Instant,
    stop: &'a AtomicBool,
}

impl UnderDirection<'_> {
    async fn direct(
        mut self,
        specification: &Specification,
        agents: &[Hello],
        second: impl FnMut(usize, &Tally),
    ) -> Result<Directed, FleetError> {
        let shares = specification.divide(agents.len());
        let mut members = Vec::new();
        for (hello, share) in agents.iter().zip(&shares) {
            let (ahead_ns, uncertainty) = self.compare_clocks(hello).await?;
            let Hello { id, name, .. } = hello.clone();
            members.push(Member { id, name, ahead_ns, uncertainty, share: share.pace.into() });
        }
        // Before the first of them can say anything.
        let news = self.client().subscribe(wire::news_of(&self.run)).await.map_err(broken)?;
        let lead = LEAD + LEAD_EACH * members.len() as u32;
        let start = Instant::now() + lead;
        let start_ns = self.clock_ns() + lead.as_nanos() as u64;
        if let Err(error) = self.hand_out(&members, shares, start_ns).await {
            self.stop_all(members.iter()).await?;
            leave(self.client()).await;
            return Err(error);
        }
        let window = specification.course.window;
        let ends_by = start + specification.length() + AFTERMATH;
        let threads = specification.course.threads;
        let times = Times { start, start_ns, window, threads, ends_by };
        let coordination = self.follow(news, Coordination::new(members, times), second).await?;
        Ok(coordination.conclude())
    }

    fn client(&self) -> &Client {
        &self.joined.client
    }

    fn clock_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// How far an agent's clock is ahead, and how much that may be wrong: half of the shortest
    /// round trip.
    async fn compare_clocks(&self, agent: &Hello) -> Result<(i128, Duration), FleetError> {
        let mut best = (0, Duration::MAX);
        for _ in 0..ROUND_TRIPS {
            self.check_stop()?;
            let before = self.clock_ns();
            let answer = self.ask(&agent.id, &agent.name, &Order::Time).await?;
            let after = self.clock_ns();
            let Answer::Time { now_ns } = answer else {
                return Err(refused(&agent.name, answer));
            };
            let half = Duration::from_nanos((after - before) / 2);
            if half < best.1 {
                let middle = i128::from(before) + i128::from(after - before) / 2;
                best = (i128::from(now_ns) - middle, half);
            }
        }
        Ok(best)
    }

    /// Gives every agent its share; all or none take part.
    async fn hand_out(
        &self,
        members: &[Member],
        shares: Vec<Specification>,
        start_ns: u64,
    ) -> Result<(), FleetError> {
        self.check_stop()?;
        // All at once: one after the other, round trips to far agents would outlast the lead.
        let answers = members.iter().zip(shares).map(async |(member, share)| {
            let start_ns = i128::from(start_ns) + member.ahead_ns;
            let order = Order::Load {
                run: self.run.clone(),
                specification: Box::new(share),
                start_ns: u64::try_from(start_ns).unwrap_or(0),
            };
            match self.ask(&member.id, &member.name, &order).await? {
                Answer::Done => Ok(()),
                answer => Err(refused(&member.name, answer)),
            }
        });
        try_join_all(answers).await.map(drop)
    }

    /// Fails if the caller asks to stop.
    fn check_stop(&self) -> Result<(), FleetError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(FleetError::Interrupted),
            false => Ok(()),
        }
    }

    async fn ask(&self, id: &str, name: &str, order: &Order) -> Result<Answer, FleetError> {
        let mut request = Request::new().payload(wire::encode(order).into());
        if let Order::Load { .. } = order {
            request = request.timeout(Some(LOAD_ANSWER_MAX));
        }
        let answer = self.client().send_request(wire::orders_of(id), request).await;
        let answer = answer.map_err(|_| FleetError::Silent { name: name.to_owned() })?;
        wire::decode(&answer.payload)
            .map_err(|source| FleetError::Wire { name: name.to_owned(), source })
    }

    /// Listens until the run is over.
    async fn follow(
        &mut self,
        mut news: Subscriber,
        mut coordination: Coordination,
        mut second: impl FnMut(usize, &Tally),
    ) -> Result<Coordination, FleetError> {
        let mut tick = interval(BEAT);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopping = false;
        while !coordination.is_over() {
            tokio::select! {
                Some(message) = news.next() => {
                    // Whoever sends what cannot be read falls silent by that.
                    if let Ok(News { agent, what }) = wire::decode(&message.payload) {
                        let _ = coordination.hear(&agent, what, Instant::now());
                    }
                }
                Ok(()) = self.joined.up.changed() => {
                    let up = *self.joined.up.borrow_and_update();
                    coordination.set_deaf(!up, Instant::now());
                }
                _ = tick.tick() => {
                    coordination.patrol(Instant::now());
                    self.beat().await?;
                    if self.stop.load(Ordering::Relaxed) && !stopping {
                        stopping = true;
                        coordination.stop();
                        self.stop_all(coordination.working()).await?;
                    }
                }
            }
            while let Some((index, tally)) = coordination.next_second() {
                second(index, &tally);
            }
        }
        Ok(coordination)
    }

    /// Says that somebody still wants the load.
    async fn beat(&self) -> Result<(), FleetError> {
        let beat = self.client().publish(wire::beat_of(&self.run), wire::encode(&()).into());
        or_late(beat).await
    }

    /// Tells `members` to stop; those that do not hear it stop without the director's beat.
    async fn stop_all(&self, members: impl Iterator<Item = &Member>) -> Result<(), FleetError> {
        let orders = members.map(|member| {
            let order = wire::encode(&Order::Stop { run: self.run.clone() });
            or_late(self.client().publish(wire::orders_of(&member.id), order.into()))
        });
        try_join_all(orders).await.map(drop)
    }
}

/// Publishes, unless that takes longer than a beat: while the bus is away, the client keeps only so
/// many messages, and then waits for room.
async fn or_late(
    publish: impl Future<Output = Result<(), PublishError>>,
) -> Result<(), FleetError> {
    match timeout(BEAT, publish).await {
        Ok(sent) => sent.map_err(broken),
        Err(_) => Ok(()),
    }
}

/// The first agents that answer and are free, by name.
async fn roll_call(
    client: &Client,
    call: &Call,
    stop: &AtomicBool,
) -> Result<Vec<Hello>, FleetError> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.map_err(broken)?;
    let mut found: Vec<Hello> = Vec::new();
    let mut others = BTreeSet::new();
    let deadline = Instant::now() + call.wait;
    let mut again = interval(SILENCE);
    let free = |found: &[Hello]| found.iter().filter(|hello| !hello.busy).count();
    while free(&found) < call.agents && Instant::now() < deadline {
        if stop.load(Ordering::Relaxed) {
            return Err(FleetError::Interrupted);
        }
        tokio::select! {
            _ = again.tick() => {
                let question = wire::encode(&()).into();
                client
                    .publish_with_reply(wire::ROLL_CALL, inbox.clone(), question)
                    .await
                    .map_err(broken)?;
            }
            Some(answer) = answers.next() => {
                match wire::decode::<Hello>(&answer.payload) {
                    Ok(hello) => enter(&mut found, hello),
                    // An agent says the same of itself each time.
                    Err(WireError::Version(version)) if others.len() < AGENTS_MAX => {
                        let mut said = DefaultHasher::new();
                        said.write(&answer.payload);
                        others.insert((version, said.finish()));
                    }
                    // Whoever else speaks there is no agent of ours.
                    Err(_) => {}
                }
            }
        }
    }
    if free(&found) < call.agents {
        let names = names(&found, others.iter().map(|(version, _)| *version));
        return Err(FleetError::TooFew { found: free(&found), wanted: call.agents, names });
    }
    found.retain(|hello| !hello.busy);
    found.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
    found.truncate(call.agents);
    Ok(found)
}

/// The agents that were `found`, and how many have answered in other versions.
fn names(found: &[Hello], others: impl Iterator<Item = u32>) -> String {
    let name = |hello: &Hello| match hello.busy {
        true => format!("{}, which is busy", hello.name),
        false => hello.name.clone(),
    };
    let mut names: Vec<_> = found.iter().map(name).collect();
    if names.is_empty() {
        names.push("none".to_owned());
    }
    let mut counts = BTreeMap::new();
    others.for_each(|version| *counts.entry(version).or_insert(0) += 1);
    names.extend(counts.into_iter().map(|(version, count)| {
        let own = wire::VERSION;
        format!("{count} more in version {version}, while this is {own}: update the older side")
    }));
    names.join("; ")
}

/// Enters what an agent says of itself; the last that it says counts, for one that was busy may
/// have become free.
fn enter(found: &mut Vec<Hello>, hello: Hello) {
    if !hello.is_sound() {
        return;
    }
    match found.iter().position(|known| known.id == hello.id) {
        Some(known) => found[known] = hello,
        None if found.len() < AGENTS_MAX => found.push(hello),
        None => {}
    }
}

/// An agent's answer to something else than was asked.
fn refused(name: &str, answer: Answer) -> FleetError {
    let reason = match answer {
        Answer::Refused(reason) => wire::shown(&reason),
        Answer::Time { .. } | Answer::Done => "it answers another question".to_owned(),
    };
    FleetError::Refused { name: name.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_of_another_version_are_told() {
        let busy = Hello { id: "one".to_owned(), name: "a".to_owned(), busy: true };
        let told = names(&[], [1, 1].into_iter());
        assert!(told.starts_with("none; 2 more in version 1, while this is "), "{told}");
        assert_eq!(names(&[busy], [].into_iter()), "a, which is busy");
    }

    #[test]
    fn an_agent_that_becomes_free_counts() {
        let hello = |id: &str, busy| Hello { id: id.to_owned(), name: "a".to_owned(), busy };
        let mut found = Vec::new();
        for hello in [hello("one", true), hello("two", false), hello("one", false)] {
            enter(&mut found, hello);
        }
        let told: Vec<_> = found.iter().map(|hello| (hello.id.as_str(), hello.busy)).collect();
        assert_eq!(told, [("one", false), ("two", false)]);
    }
}

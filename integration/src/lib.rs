//! Stock servers under stress: the server, its upkeep, and clients that misbehave.
//!
//! [`server`] runs nginx or HAProxy with several workers under `widelane run`, reloads it and kills
//! its workers; [`misbehaving_clients`] make handshakes and hang up at every stage of them;
//! [`processes`] looks at what its processes hold; [`upkeep`] is what happens to it meanwhile,
//! [`hardship`] the worst of that, and [`record`] keeps and draws what was seen over time.
//! [`cache`] runs memcached and redis, which treat connections in ways of their own. The tests put
//! them together.

pub mod cache;
pub mod hardship;
pub mod misbehaving_clients;
pub mod processes;
pub mod record;
pub mod server;
pub mod upkeep;

//! `libwidelane_runtime.so`: event-loop batching for servers without asynchronous TLS.
//!
//! `widelane run` preloads this library into a server that knows nothing of it. It stands between
//! the server, libssl and epoll:
//!
//! * [`activate`]: the first `SSL_CTX_new` of the process loads the provider and prefers it;
//! * [`handshake`]: server handshakes run on [`fibre`]s, so that one which reaches a private-key
//!   operation can be left there (*parked*) while the server goes on with its other connections;
//! * [`event_loop`]: what is parked on one thread, and [`closing`], the rule by which a batch
//!   closes: full lanes, or a server that is about to sleep;
//! * [`registry`]: what the server asked epoll for, so that a finished handshake can be reported to
//!   it as an event of its own making;
//! * [`keys`]: private keys are read with decoders that are kept, and [`transfer`]: moved into the
//!   provider;
//! * [`foreign`]: what is linked with another OpenSSL than the server is kept apart from all this;
//! * [`interpreters`]: programs whose interpreters cannot run on fibres are left alone;
//! * [`forks`]: what was suspended before a fork stays with the parent;
//! * [`extra_data`]: where objects of OpenSSL's keep what is ours;
//! * [`methods`]: what handshakes look up by name is kept by their thread;
//! * [`certificates`]: those of peers are decoded once;
//! * [`sessions`]: how sessions are encoded, and which of them a program has to store;
//! * [`interpose`]: the exported symbols; nothing else in the workspace defines symbols of others.
//!
//! `docs/design/event-loop.md` has the details. In a process that never creates an `SSL_CTX`,
//! all of this is a handful of pass-through functions.
//!
//! **Invariants**: a parked handshake belongs to the thread that parked it and is resumed by no
//! other; no private-key batch ever runs on a fibre; a failure of ours never fails a handshake.

mod activate;
mod certificates;
mod closing;
mod config;
mod cork;
mod event_loop;
mod extra_data;
mod fibre;
mod foreign;
mod forks;
mod groups;
mod handshake;
mod interpose;
mod interpreters;
mod keys;
mod methods;
mod notice;
mod provider;
mod random;
mod real;
mod registry;
mod sessions;
mod stacks;
mod transfer;
mod wake;

#[global_allocator]
static ALLOCATOR: widelane_reserve::Reserved = widelane_reserve::Reserved;

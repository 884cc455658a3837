//! The tour of all rooms: the same test in every room of this machine, and how many there were.

use std::env;
use std::ffi::OsString;

use widelane_bridge::counters::CipherKind;
use widelane_cpu::policy::{self, Inputs};
use widelane_cpu::{Policy, Room, Width};

/// The rooms of elliptic curves and RSA, whose room `fma256` has a single job.
pub const ARITHMETIC: [Room; 4] = [Room::Portable, Room::Fma256, Room::Ifma256, Room::Ifma512];

/// The rooms of X25519: those of arithmetic, and one for a single job.
pub const X25519: [Room; 5] =
    [Room::Portable, Room::Adx, Room::Fma256, Room::Ifma256, Room::Ifma512];

/// Calls `test` once for each arithmetic room this machine supports, with a policy that leaves
/// open no other, and returns these rooms, printing them.
///
/// # Panics
/// As [`supported`].
pub fn for_each_room(test: impl FnMut(Room, &Policy)) -> Vec<Room> {
    supported();
    for_each_room_of(&ARITHMETIC, test)
}

/// Calls `test` once for each of `rooms` that this machine supports, as [`for_each_room`] does.
pub fn for_each_room_of(rooms: &[Room], mut test: impl FnMut(Room, &Policy)) -> Vec<Room> {
    let visited = supported_of(rooms);
    for &room in &visited {
        test(room, &only(room));
    }
    let names: Vec<_> = visited.iter().map(|room| room.name()).collect();
    eprintln!("rooms visited: {} of {} ({})", visited.len(), rooms.len(), names.join(", "));
    visited
}

/// The arithmetic rooms this machine supports, narrowest first. `ROOMS_MIN` in the environment is
/// a floor below which a test run fails, for machines that are known to have more.
///
/// # Panics
/// When there are fewer than `ROOMS_MIN`.
pub fn supported() -> Vec<Room> {
    let rooms = supported_of(&ARITHMETIC);
    if let Ok(floor) = env::var("ROOMS_MIN") {
        let floor: usize = floor.parse().expect("ROOMS_MIN is a number");
        assert!(rooms.len() >= floor, "{} rooms, ROOMS_MIN asks for {floor}", rooms.len());
    }
    rooms
}

/// The rooms among `rooms` that this machine supports, in the same order.
pub fn supported_of(rooms: &[Room]) -> Vec<Room> {
    rooms.iter().copied().filter(|room| room.is_supported()).collect()
}

/// The policy that leaves `room` open and no other, but for `portable`, which cannot be closed.
pub fn only(room: Room) -> Policy {
    let others = Room::ALL.into_iter().filter(|other| *other != room);
    Policy { rooms_closed: others.collect(), ..Policy::open() }
}

/// The policy of servers and programs that a test starts as it was started: what the operator's
/// file and the environment leave open.
///
/// # Panics
/// When one of them is malformed.
pub fn policy_here() -> Policy {
    policy_with(|variable| env::var_os(variable))
}

/// The policy of servers and programs that a test starts with registers of up to `width` in
/// `WIDELANE_MAX_SIMD_BITWIDTH`: what it, the operator's file and the other variables leave open.
///
/// # Panics
/// When the operator's file or another variable is malformed.
pub fn policy_here_up_to(width: Width) -> Policy {
    policy_with(|variable| match variable {
        policy::BITWIDTH_VARIABLE => Some(width.bits().to_string().into()),
        _ => env::var_os(variable),
    })
}

fn policy_with(variable: impl Fn(&str) -> Option<OsString>) -> Policy {
    let inputs = Inputs::of_variables(variable);
    policy::resolve(&inputs).expect("the policy of this machine is well-formed").policy
}

/// Whether one of `rooms` can be entered, by CPU and policy.
fn is_open(rooms: &[Room]) -> bool {
    let policy = policy_here();
    rooms.iter().any(|room| room.is_supported() && policy.allows(*room))
}

/// Whether operations of every kind can be batched, RSA's as well, by CPU and policy. Says so if
/// not.
pub fn has_lanes() -> bool {
    let has_lanes = is_open(&[Room::Ifma256, Room::Ifma512]);
    if !has_lanes {
        eprintln!("RSA does not wait for others: no room with lanes for it is here and open");
    }
    has_lanes
}

/// Whether operations on elliptic curves can be batched, by CPU and policy.
pub fn has_lanes_of_curves() -> bool {
    is_open(&[Room::Fma256]) || has_lanes()
}

/// Whether operations of X25519 are done by kernels, by CPU and policy: in lanes, or one at a time.
pub fn has_x25519() -> bool {
    is_open(&[Room::Adx]) || has_lanes_of_curves()
}

/// Whether operations with private RSA keys are done by kernels, by CPU and policy: in lanes, or
/// one at a time.
pub fn has_rsa() -> bool {
    is_open(&[Room::Fma256]) || has_lanes()
}

/// Whether a cipher in `room` is faster on this machine than OpenSSL's own, so that the provider
/// offers it.
pub fn outruns_openssl(kind: CipherKind, room: Room) -> bool {
    match (kind, room) {
        (_, Room::Vaes512 | Room::Ifma512) => true,
        (CipherKind::Aes128Gcm | CipherKind::Aes192Gcm | CipherKind::Aes256Gcm, room) => {
            room == Room::Vaes256
        }
        // OpenSSL's own takes AVX-512 where there is some.
        (CipherKind::ChaCha20Poly1305, Room::Avx2) => !Room::Avx512.is_supported(),
        _ => false,
    }
}

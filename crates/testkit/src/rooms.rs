//! The tour of all rooms: the same test in every room of this machine, and how many there were.

use widelane_cpu::{Policy, Room, Width};

/// Calls `test` once for each room this machine supports, with a policy under which it is the
/// widest one open, and returns the rooms visited, printing them.
///
/// The caller asserts what it expects; [`supported`] says what a complete tour is.
pub fn for_each_room(mut test: impl FnMut(Room, &Policy)) -> Vec<Room> {
    let rooms = supported();
    for &room in &rooms {
        test(room, &up_to(room));
    }
    let names: Vec<_> = rooms.iter().map(|room| room.name()).collect();
    eprintln!("rooms visited: {} of {} ({})", rooms.len(), Room::ALL.len(), names.join(", "));
    rooms
}

/// The rooms this machine supports, narrowest first. `ROOMS_MIN` in the environment is a floor
/// below which a test run fails, for machines that are known to have more.
///
/// # Panics
/// When there are fewer than `ROOMS_MIN`.
pub fn supported() -> Vec<Room> {
    let rooms: Vec<_> = Room::ALL.into_iter().filter(|room| room.is_supported()).collect();
    if let Ok(floor) = std::env::var("ROOMS_MIN") {
        let floor: usize = floor.parse().expect("ROOMS_MIN is a number");
        assert!(rooms.len() >= floor, "{} rooms, ROOMS_MIN asks for {floor}", rooms.len());
    }
    rooms
}

/// The policy under which `room` is the widest one open.
pub fn up_to(room: Room) -> Policy {
    Policy::up_to(match room {
        Room::Portable => Width::W128,
        Room::Ifma256 => Width::W256,
        Room::Ifma512 => Width::W512,
    })
}

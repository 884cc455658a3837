//! The width policy: what the operator allows, apart from what the CPU can do.

use std::collections::BTreeSet;

use crate::rooms::{LicenceClass, Room, Width};

/// What may run: a widest register, closed licence classes, closed rooms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The widest registers any room may use.
    pub width_max: Width,
    /// Licence classes that no room may belong to.
    pub classes_closed: BTreeSet<LicenceClass>,
    /// Rooms closed by name. `portable` cannot be closed.
    pub rooms_closed: BTreeSet<Room>,
}

impl Policy {
    /// Allows everything.
    pub const fn open() -> Self {
        Policy {
            width_max: Width::W512,
            classes_closed: BTreeSet::new(),
            rooms_closed: BTreeSet::new(),
        }
    }

    /// Allows everything up to `width_max`.
    pub const fn up_to(width_max: Width) -> Self {
        Policy { width_max, classes_closed: BTreeSet::new(), rooms_closed: BTreeSet::new() }
    }

    /// Whether this policy leaves `room` open. `portable` always is.
    pub fn allows(&self, room: Room) -> bool {
        let class = room.licence_class();
        room == Room::Portable
            || (class.width <= self.width_max
                && !self.classes_closed.contains(&class)
                && !self.rooms_closed.contains(&room))
    }
}

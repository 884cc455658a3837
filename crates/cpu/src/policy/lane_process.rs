//! What a lane process may use, where that is not what its workers may.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::Policy;
use crate::rooms::{LicenceClass, Room, Width};

/// The rooms left open to a lane process, instead of those that its workers have: so all wide
/// multiplications can be made on the CPUs set aside. docs/operate/lane-cpus.md has the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneRooms {
    /// The widest registers any room may use.
    pub width_max: Width,
    /// Licence classes that no room may belong to.
    pub classes_closed: BTreeSet<LicenceClass>,
    /// Rooms closed by name.
    pub rooms_closed: BTreeSet<Room>,
}

impl LaneRooms {
    /// Those that a policy leaves open to workers.
    pub fn of(policy: &Policy) -> Self {
        LaneRooms {
            width_max: policy.width_max,
            classes_closed: policy.classes_closed.clone(),
            rooms_closed: policy.rooms_closed.clone(),
        }
    }

    /// The policy that leaves them open, and says nothing else.
    pub fn policy(&self) -> Policy {
        Policy {
            width_max: self.width_max,
            classes_closed: self.classes_closed.clone(),
            rooms_closed: self.rooms_closed.clone(),
            ..Policy::open()
        }
    }
}

impl Policy {
    /// The policy of the lane process: its own rooms, or those of the workers where it has none.
    pub fn of_lane_process(&self) -> Policy {
        let own = self.lane_process.as_ref();
        own.map_or_else(|| LaneRooms::of(self).policy(), LaneRooms::policy)
    }
}

impl fmt::Display for LaneRooms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_process_without_rooms_of_its_own_has_those_of_its_workers() {
        let workers = Policy {
            rooms_closed: [Room::Ifma512].into(),
            lane_cpus: "3".parse().ok(),
            ..Policy::up_to(Width::W256)
        };
        let same = Policy { rooms_closed: [Room::Ifma512].into(), ..Policy::up_to(Width::W256) };
        assert_eq!(workers.of_lane_process(), same);
        let lane_process = Some(LaneRooms::of(&Policy::open()));
        assert_eq!(Policy { lane_process, ..workers }.of_lane_process(), Policy::open());
    }
}

//! Which of the rooms that a policy leaves open a process uses.

use super::Policy;
use crate::rooms::{LicenceClass, Room, Width};

super::word::words! {
    /// How a process chooses among the rooms that its policy leaves open.
    Choose {
        /// It may use all of them, and the widest where it has no measurement.
        #[default]
        Widest = "widest",
        /// It compares the policy with narrower ones while it runs, and keeps the cheapest;
        /// docs/design/auto-policy.md says how.
        Auto = "auto",
    }
    /// What is no such choice.
    UnknownChoose: "the choice of rooms is widest or auto, not {0:?}"
}

/// The most alternatives that a policy has.
pub const ALTERNATIVES_MAX: usize = 4;

impl Policy {
    /// The policies that a process compares: this one, and narrower ones that leave other rooms
    /// open on this machine, the widest first; this one alone where it is not to choose.
    pub fn alternatives(&self) -> Vec<Policy> {
        self.alternatives_among(|room| room.is_supported())
    }

    /// The same on a machine that has certain rooms.
    fn alternatives_among(&self, has: impl Fn(Room) -> bool) -> Vec<Policy> {
        let mut alternatives = vec![self.clone()];
        if self.choose != Some(Choose::Auto) {
            return alternatives;
        }
        let mut light = self.clone();
        light.classes_closed.insert(LicenceClass { width: Width::W512, heavy: true });
        let up_to = |width: Width| Policy { width_max: self.width_max.min(width), ..self.clone() };
        let open = |policy: &Policy| {
            let rooms = Room::ALL.into_iter();
            rooms.filter(|room| has(*room) && policy.allows(*room)).collect::<Vec<_>>()
        };
        for narrower in [light, up_to(Width::W256), up_to(Width::W128)] {
            if alternatives.iter().all(|known| open(known) != open(&narrower)) {
                alternatives.push(narrower);
            }
        }
        alternatives
    }
}

/// What an alternative is called, by the rooms that it leaves open on this machine: its widest
/// registers, and whether it multiplies in the widest.
pub fn name_of(rooms: impl IntoIterator<Item = Room>) -> &'static str {
    let widest = rooms.into_iter().map(Room::licence_class).max();
    match widest.map(|class| (class.width, class.heavy)) {
        Some((Width::W512, true)) => "512",
        Some((Width::W512, false)) => "512-light",
        Some((Width::W256, _)) => "256",
        Some((Width::W128, _)) | None => "128",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of what is compared under a policy on a machine that has certain rooms.
    fn names(policy: Policy, has: impl Fn(Room) -> bool) -> Vec<&'static str> {
        let alternatives = policy.alternatives_among(&has);
        assert!(alternatives.len() <= ALTERNATIVES_MAX);
        let name = |policy: &Policy| {
            name_of(Room::ALL.into_iter().filter(|room| has(*room) && policy.allows(*room)))
        };
        alternatives.iter().map(name).collect()
    }

    fn auto(policy: Policy) -> Policy {
        Policy { choose: Some(Choose::Auto), ..policy }
    }

    #[test]
    fn a_policy_that_is_not_to_choose_has_no_alternatives() {
        let widest = Policy { choose: Some(Choose::Widest), ..Policy::open() };
        for policy in [Policy::open(), widest] {
            assert_eq!(policy.alternatives_among(|_| true), [policy]);
        }
    }

    #[test]
    fn each_machine_compares_what_makes_a_difference_there() {
        assert_eq!(names(auto(Policy::open()), |_| true), ["512", "512-light", "256", "128"]);
        let zen3 = |room: Room| matches!(room.name(), "portable" | "aesni" | "avx2" | "vaes256");
        assert_eq!(names(auto(Policy::open()), zen3), ["256", "128"]);
        assert_eq!(names(auto(Policy::open()), |room| room == Room::Portable), ["128"]);
    }

    #[test]
    fn nothing_is_compared_that_the_policy_closes() {
        assert_eq!(names(auto(Policy::up_to(Width::W256)), |_| true), ["256", "128"]);
        let closed = Policy { rooms_closed: [Room::Ifma512].into(), ..Policy::open() };
        assert_eq!(names(auto(closed), |_| true), ["512-light", "256", "128"]);
    }
}

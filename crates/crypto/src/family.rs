//! Families of public-key algorithms, and which of them have lanes.

use std::fmt;

use widelane_cpu::{Policy, Room};

use crate::ec::Ec;
use crate::ed25519::Ed25519;
use crate::mlkem::{MlKem, ParameterSet};
use crate::rsa::Rsa;
use crate::x25519::X25519;

/// Public-key algorithms that share their kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// RSA.
    Rsa,
    /// ECDSA and ECDH on P-256 and P-384.
    NistCurves,
    /// X25519.
    X25519,
    /// Ed25519.
    Ed25519,
    /// ML-KEM.
    MlKem,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 5] =
        [Family::Rsa, Family::NistCurves, Family::X25519, Family::Ed25519, Family::MlKem];

    /// The widest room in which several of its operations run at a time, among those that the
    /// machine has and `policy` leaves open; none if they run one by one.
    #[must_use]
    pub fn room_with_lanes(self, policy: &Policy) -> Option<Room> {
        fn widest<K>(kernels: &[K], place: impl Fn(&K) -> (usize, Room)) -> Option<Room> {
            let several = |(lanes, room)| (lanes > 1).then_some(room);
            kernels.iter().rev().map(place).find_map(several)
        }
        match self {
            Family::Rsa => {
                widest(&Rsa::choose(policy).kernels(), |kernel| (kernel.lanes(), kernel.room()))
            }
            Family::NistCurves => {
                widest(&Ec::kernels(policy), |kernel| (kernel.lanes(), kernel.room()))
            }
            Family::X25519 => {
                widest(&X25519::kernels(policy), |kernel| (kernel.lanes(), kernel.room()))
            }
            Family::Ed25519 => {
                widest(&Ed25519::kernels(policy), |kernel| (kernel.lanes(), kernel.room()))
            }
            Family::MlKem => {
                let room = MlKem::choose(ParameterSet::MlKem768, policy).room();
                // Its portable room takes several jobs too, one after the other.
                (room != Room::Portable).then_some(room)
            }
        }
    }

    /// `RSA, X25519 and ML-KEM`.
    #[must_use]
    pub fn listed(families: &[Family]) -> String {
        let names: Vec<String> = families.iter().map(Family::to_string).collect();
        match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => "nothing".to_owned(),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Family::Rsa => "RSA",
            Family::NistCurves => "P-256 and P-384",
            Family::X25519 => "X25519",
            Family::Ed25519 => "Ed25519",
            Family::MlKem => "ML-KEM",
        })
    }
}

#[cfg(test)]
mod tests {
    use widelane_cpu::Width;

    use super::*;

    #[test]
    fn lanes_are_where_their_room_is_supported_and_open() {
        for family in Family::ALL {
            if let Some(room) = family.room_with_lanes(&Policy::open()) {
                assert!(room.is_supported() && room != Room::Portable, "{family}: {room}");
                let closed = Policy { rooms_closed: [room].into(), ..Policy::open() };
                assert_ne!(family.room_with_lanes(&closed), Some(room), "{family}");
            }
        }
    }

    #[test]
    fn general_purpose_registers_have_no_lanes() {
        let narrow = Policy::up_to(Width::W128);
        assert_eq!(Family::ALL.map(|family| family.room_with_lanes(&narrow)), [None; 5]);
    }

    #[test]
    fn families_are_listed_as_in_a_sentence() {
        assert_eq!(Family::listed(&[Family::Rsa]), "RSA");
        let three = [Family::Rsa, Family::X25519, Family::MlKem];
        assert_eq!(Family::listed(&three), "RSA, X25519 and ML-KEM");
    }
}

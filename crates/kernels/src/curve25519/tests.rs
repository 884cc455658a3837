//! Tests of curve25519 against plain integers and against the RFCs.

use std::vec::Vec;

use widelane_cpu::{Ifma256, Ifma512, Room};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{for_each_room, supported};

use super::*;
use crate::lanes::{Ifma256x4, Ifma512x8, Portable};

/// Runs a generic function with the register of each room.
macro_rules! in_each_room {
    ($test:ident) => {
        let visited = for_each_room(|room, policy| match room {
            Room::Portable => $test::<Portable>(()),
            Room::Ifma256 => $test::<Ifma256x4>(Ifma256::enter(policy).unwrap()),
            Room::Ifma512 => $test::<Ifma512x8>(Ifma512::enter(policy).unwrap()),
            other => unreachable!("{other} is no room of arithmetic"),
        });
        assert_eq!(visited, supported());
    };
}

/// RFC 7748 section 5.2: a thousand iterations.
#[test]
fn the_iterated_vector_comes_out() {
    in_each_room!(iterate);
}

fn iterate<L: Lanes>(room: L::Room) {
    let mut point = [0; 32];
    point[0] = 9;
    let mut scalar = point;
    for count in 1..=1000 {
        let mut results = [[0; 32]; 8];
        let results = &mut results[..L::LANES];
        let zero = x25519::<L>(room, &[&scalar], &[&point], results);
        assert!(results.iter().all(|result| *result == results[0]));
        assert!((0..L::LANES).all(|lane| !zero.declassify(lane)));
        (scalar, point) = (results[0], scalar);
        if count == 1 {
            assert_eq!(
                hex(&scalar),
                "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
            );
        }
    }
    assert_eq!(hex(&scalar), "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51");
}

/// The table against the ladder.
#[test]
fn public_keys_agree_with_the_ladder() {
    in_each_room!(generate);
}

fn generate<L: Lanes>(room: L::Room) {
    let mut random = Random::new(9);
    let mut base = [0; 32];
    base[0] = 9;
    for _ in 0..50 {
        let scalars: [[u8; 32]; 8] = std::array::from_fn(|_| {
            let mut scalar = [0; 32];
            random.fill(&mut scalar);
            scalar
        });
        let scalars: Vec<_> = scalars[..L::LANES].iter().collect();
        let (mut expected, mut results) = ([[0; 32]; 8], [[0; 32]; 8]);
        x25519::<L>(room, &scalars, &[&base], &mut expected);
        x25519_base::<L>(room, &scalars, &mut results);
        assert_eq!(results, expected);
    }
}

fn hex(bytes: &[u8]) -> std::string::String {
    bytes.iter().map(|byte| std::format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

//! The trace sees what it is there to see: leaks of each kind, planted; and it sees none where
//! there is none.

use std::hint::black_box;

use widelane_testkit::trace::{Tracing, trace};

fn main() {
    for (what, leak, harmless) in [
        ("a branch", branch as fn(u8) -> Tracing, [2, 4]),
        ("a table index", table_index, [5, 5]),
        ("an early exit", early_exit, [9, 9]),
    ] {
        let [one, other] = harmless.map(leak).map(Tracing::end);
        assert_eq!(one, other, "{what}: nothing leaks, yet the traces differ");
        let [one, other] = [2, 7].map(leak).map(Tracing::end);
        assert_ne!(one, other, "a leak through {what} is not seen");
        eprintln!("planted leak through {what}: seen");
    }
    let [one, other] = [2, 7].map(table_scan).map(Tracing::end);
    assert_eq!(one, other, "a full scan of a table leaks nothing");
    eprintln!("a full scan of a table: no leak seen");
}

/// A branch on a secret's lowest bit.
#[inline(never)]
fn branch(secret: u8) -> Tracing {
    trace(
        || black_box(secret),
        |secret| {
            if *secret & 1 == 1 {
                *secret = black_box(*secret).wrapping_mul(3);
            }
        },
    )
}

/// A look-up at a secret index, as of tables of AES: the same instructions, another address.
#[inline(never)]
fn table_index(secret: u8) -> Tracing {
    trace(
        || ([7u8; 256], black_box(secret), 0),
        |(table, secret, found)| *found = black_box(&*table)[usize::from(*secret)],
    )
}

/// The same look-up that reads the whole table.
#[inline(never)]
fn table_scan(secret: u8) -> Tracing {
    trace(
        || ([7u8; 256], black_box(secret), 0),
        |(table, secret, found)| {
            for (index, entry) in (0..=u8::MAX).zip(black_box(&*table)) {
                // 255 where they are equal: arithmetic, so that no branch can be made of it.
                let difference = u16::from(index ^ *secret);
                let mask = (difference.wrapping_sub(1) >> 8) as u8;
                *found |= black_box(mask) & entry;
            }
        },
    )
}

/// A comparison that ends at the first difference: how far it comes tells how much is right.
#[inline(never)]
fn early_exit(secret: u8) -> Tracing {
    trace(
        || (black_box([0u8, 1, 2, 3, 4, 5, 6, 7, 8, 9]), black_box(secret), 0),
        |(guess, secret, right)| {
            for byte in black_box(&*guess) {
                if byte == secret {
                    break;
                }
                *right += 1;
            }
        },
    )
}

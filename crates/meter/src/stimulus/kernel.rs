//! Our own kernels as stimuli: what a server that uses them makes its cores do.

use widelane_cpu::{LicenceClass, Policy, Room, features};
use widelane_crypto::rsa::{Components, PrivateJob, PrivateKey, Rsa};

/// A kernel: an algorithm in a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// A batch of RSA-2048 signatures on 256-bit registers.
    RsaIfma256,
    /// A batch of RSA-2048 signatures on 512-bit registers.
    RsaIfma512,
    /// One RSA-2048 signature in plain x86-64.
    RsaPortable,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Kernel; 3] = [Kernel::RsaPortable, Kernel::RsaIfma256, Kernel::RsaIfma512];

    /// Its name: algorithm and room.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::RsaIfma256 => "rsa2048-ifma256",
            Kernel::RsaIfma512 => "rsa2048-ifma512",
            Kernel::RsaPortable => "rsa2048-portable",
        }
    }

    /// Its room.
    pub const fn room(self) -> Room {
        match self {
            Kernel::RsaIfma256 => Room::Ifma256,
            Kernel::RsaIfma512 => Room::Ifma512,
            Kernel::RsaPortable => Room::Portable,
        }
    }

    /// The class of its room.
    pub fn class(self) -> LicenceClass {
        self.room().licence_class()
    }

    /// Why it cannot be run here; nothing where it can.
    pub fn missing(self) -> Option<String> {
        let missing: Vec<_> = features::missing(self.room().features()).collect();
        (!missing.is_empty()).then(|| format!("not applicable: no {}", missing.join(", ")))
    }

    /// A closure that executes one full batch.
    pub(super) fn ready(self) -> Result<Box<dyn FnMut()>, String> {
        // The meter asks what a width costs before any policy holds: that is what a policy is
        // made from.
        let mut policy = Policy::open();
        policy.rooms_closed = Room::ALL.into_iter().filter(|room| *room != self.room()).collect();
        let rsa = Rsa::choose(&policy);
        let key = test_key().map_err(|error| format!("the test key was refused: {error}"))?;
        let input = vec![0x17; key.size().bytes()];
        Ok(Box::new(move || {
            let mut outputs = vec![vec![0; input.len()]; rsa.lanes()];
            let job = |output| PrivateJob::new(&key, &input, output);
            let mut jobs: Vec<_> = outputs.iter_mut().map(|output| job(output)).collect();
            rsa.private_batch(&mut jobs);
        }))
    }
}

/// The first of our public test keys: it protects nothing.
fn test_key() -> Result<PrivateKey, widelane_crypto::rsa::KeyError> {
    let block = TEST_KEYS.split("\n\n").next().unwrap_or_default();
    let number = |name: &str| -> Vec<u8> {
        let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        let digits = line.unwrap_or_default().as_bytes();
        digits.chunks_exact(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect()
    };
    PrivateKey::from_components(&Components {
        n: &number("n"),
        e: &number("e"),
        p: &number("p"),
        q: &number("q"),
        dp: &number("dp"),
        dq: &number("dq"),
        qinv: &number("qinv"),
    })
}

fn nibble(digit: u8) -> u8 {
    (digit as char).to_digit(16).unwrap_or_default() as u8
}

const TEST_KEYS: &str = include_str!("../../../../vectors/rsa/rsa2048.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_in_the_room_it_names() {
        for kernel in Kernel::ALL {
            assert!(kernel.name().ends_with(kernel.room().name()), "{}", kernel.name());
        }
        assert!(test_key().is_ok());
    }
}

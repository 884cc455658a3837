//! Stimuli: code that provokes a power licence, each instruction by itself, and our own kernels.

mod dispatch;
mod kernel;
mod loops;
mod tiles;

use std::fmt;

use serde::Serialize;
use widelane_cpu::{LicenceClass, Width, features};

pub use self::dispatch::Dispatch;
pub use self::kernel::{Algorithm, Kernel};
use self::loops::Loop;

/// Something that a core may be made to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum Subject {
    /// Multiplications and additions in general-purpose registers: the control.
    Scalar,
    /// One vector instruction, as often as the ports take it.
    Instruction(Instruction, Width),
    /// Heavy multiplications among additions, `quarters`/4 of them per cycle.
    Density {
        /// Multiplications in four cycles, 1 to 8.
        quarters: u8,
    },
    /// One of our own kernels.
    Kernel(Kernel),
}

/// A vector instruction that matters for our kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Integer addition.
    Vpaddd,
    /// Bitwise logic of three operands.
    Vpternlogd,
    /// One AES round.
    Vaesenc,
    /// Carry-less multiplication.
    Vpclmulqdq,
    /// Multiplication of 32-bit integers.
    Vpmuludq,
    /// Multiplication of 52-bit integers, added.
    Vpmadd52luq,
    /// Multiplication of doubles, added.
    Vfmadd213pd,
    /// Multiplication of half-precision numbers, added.
    Vfmadd213ph,
    /// Two rounds of SHA-256.
    Sha256rnds2,
    /// Product of tiles of bytes, added.
    Tdpbssd,
}

impl Instruction {
    /// All of them.
    pub const ALL: [Instruction; 10] = [
        Instruction::Vpaddd,
        Instruction::Vpternlogd,
        Instruction::Vaesenc,
        Instruction::Vpclmulqdq,
        Instruction::Vpmuludq,
        Instruction::Vpmadd52luq,
        Instruction::Vfmadd213pd,
        Instruction::Vfmadd213ph,
        Instruction::Sha256rnds2,
        Instruction::Tdpbssd,
    ];

    /// Its mnemonic.
    pub const fn name(self) -> &'static str {
        match self {
            Instruction::Vpaddd => "vpaddd",
            Instruction::Vpternlogd => "vpternlogd",
            Instruction::Vaesenc => "vaesenc",
            Instruction::Vpclmulqdq => "vpclmulqdq",
            Instruction::Vpmuludq => "vpmuludq",
            Instruction::Vpmadd52luq => "vpmadd52luq",
            Instruction::Vfmadd213pd => "vfmadd213pd",
            Instruction::Vfmadd213ph => "vfmadd213ph",
            Instruction::Sha256rnds2 => "sha256rnds2",
            Instruction::Tdpbssd => "tdpbssd",
        }
    }

    /// Whether Intel's licences count it as heavy.
    pub const fn is_heavy(self) -> bool {
        matches!(
            self,
            Instruction::Vpmuludq
                | Instruction::Vpmadd52luq
                | Instruction::Vfmadd213pd
                | Instruction::Vfmadd213ph
                | Instruction::Tdpbssd
        )
    }

    /// Whether it comes in this width. Tiles have rows of 512 bits.
    fn has(self, width: Width) -> bool {
        match self {
            Instruction::Sha256rnds2 => width == Width::W128,
            Instruction::Tdpbssd => width == Width::W512,
            _ => true,
        }
    }
}

impl Subject {
    /// All there are: the control, then by class, then multiplications of all densities, from one
    /// in four cycles to two per cycle.
    pub fn all() -> Vec<Subject> {
        let mut subjects = vec![Subject::Scalar];
        for width in [Width::W128, Width::W256, Width::W512] {
            let instructions = Instruction::ALL.into_iter().filter(|i| i.has(width));
            subjects.extend(instructions.map(|i| Subject::Instruction(i, width)));
        }
        subjects.extend(Kernel::all().map(Subject::Kernel));
        subjects.extend((1..=8).map(|quarters| Subject::Density { quarters }));
        subjects
    }

    /// Dense multiplications in the widest registers that this CPU has.
    pub fn widest() -> Subject {
        let of = |width| Subject::Instruction(Instruction::Vfmadd213pd, width);
        let has = |subject: &Subject| subject.missing().is_none();
        [Width::W512, Width::W256].map(of).into_iter().find(has).unwrap_or(of(Width::W512))
    }

    /// The subject with this name.
    pub fn named(name: &str) -> Option<Subject> {
        Subject::all().into_iter().find(|subject| subject.to_string() == name)
    }

    /// The licence class that Intel's rules give it.
    pub fn class(self) -> LicenceClass {
        match self {
            Subject::Scalar => LicenceClass { width: Width::W128, heavy: false },
            Subject::Instruction(instruction, width) => {
                LicenceClass { width, heavy: instruction.is_heavy() }
            }
            Subject::Density { .. } => LicenceClass { width: Width::W512, heavy: true },
            Subject::Kernel(kernel) => kernel.class(),
        }
    }

    /// Why it cannot be run here; nothing where it can.
    pub fn missing(self) -> Option<String> {
        let lacks = |wanted: &'static [&'static str]| {
            let missing: Vec<_> = features::missing(wanted).collect();
            (!missing.is_empty()).then(|| format!("not applicable: no {}", missing.join(", ")))
        };
        match self {
            Subject::Scalar => None,
            Subject::Instruction(Instruction::Tdpbssd, _) => tiles::missing(),
            Subject::Instruction(instruction, width) => lacks(loops::features(instruction, width)),
            Subject::Density { .. } => {
                lacks(loops::features(Instruction::Vfmadd213pd, Width::W512))
            }
            Subject::Kernel(kernel) => kernel.missing(),
        }
    }

    /// Makes it ready to run.
    ///
    /// # Errors
    ///
    /// Where the CPU lacks it; the text is that of [`missing`](Self::missing).
    pub fn stimulus(self) -> Result<Stimulus, String> {
        if let Some(reason) = self.missing() {
            return Err(reason);
        }
        let body = match self {
            Subject::Kernel(kernel) => Body::Kernel(kernel.ready()?),
            loop_subject => Body::Loop(loops::find(loop_subject)),
        };
        Ok(Stimulus { body })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Scalar => formatter.write_str("scalar"),
            Subject::Instruction(instruction, width) => {
                write!(formatter, "{}-{width}", instruction.name())
            }
            Subject::Density { quarters } => {
                write!(formatter, "density-{:.2}", f64::from(*quarters) / 4.0)
            }
            Subject::Kernel(kernel) => formatter.write_str(&kernel.name()),
        }
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> String {
        subject.to_string()
    }
}

/// A subject made ready: every instruction in it was found on this CPU.
pub struct Stimulus {
    body: Body,
}

enum Body {
    Loop(Loop),
    Kernel(Box<dyn FnMut()>),
    Dispatch(Dispatch),
}

impl Stimulus {
    /// Passes over sites that dispatch in this form.
    ///
    /// # Errors
    ///
    /// Where the CPU has no 512-bit registers to speculate into.
    pub fn dispatch(form: Dispatch) -> Result<Self, String> {
        let wide = Subject::Instruction(Instruction::Vfmadd213pd, Width::W512);
        match wide.missing() {
            Some(reason) => Err(reason),
            None => Ok(Stimulus { body: Body::Dispatch(form) }),
        }
    }

    /// Runs `turns` turns: a few dozen instructions each, one batch of a kernel, or one pass over
    /// all sites of a dispatch.
    pub fn run(&mut self, turns: u64) {
        match &mut self.body {
            Body::Loop(code) => code.run(turns.max(1)),
            Body::Kernel(batch) => (0..turns.max(1)).for_each(|_| batch()),
            Body::Dispatch(form) => (0..turns.max(1)).for_each(|_| form.pass()),
        }
    }

    /// Instructions, batches or sites in a turn.
    pub fn work_per_turn(&self) -> f64 {
        match &self.body {
            Body::Loop(code) => code.instructions_per_turn as f64,
            Body::Kernel(_) => 1.0,
            Body::Dispatch(_) => dispatch::SITES as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_subjects() {
        for subject in Subject::all() {
            assert_eq!(Subject::named(&subject.to_string()), Some(subject));
        }
        assert_eq!(Subject::named("vaesenc-1024"), None);
    }

    #[test]
    fn every_subject_runs_or_says_what_is_missing() {
        let mut ran = 0;
        for subject in Subject::all() {
            match subject.stimulus() {
                Ok(mut stimulus) => {
                    stimulus.run(3);
                    assert!(stimulus.work_per_turn() >= 1.0);
                    ran += 1;
                }
                Err(reason) => assert!(reason.starts_with("not applicable: no "), "{reason}"),
            }
        }
        eprintln!("{ran} subjects ran");
        assert!(ran >= 2, "the scalar loop and the portable kernel run everywhere");
    }

    #[test]
    fn every_form_of_dispatch_comes_back() {
        for form in Dispatch::ALL {
            if let Ok(mut stimulus) = Stimulus::dispatch(form) {
                stimulus.run(2);
            }
        }
    }

    #[test]
    fn classes_follow_width_and_multiplication() {
        let class = |name: &str| Subject::named(name).unwrap().class().to_string();
        assert_eq!(class("vaesenc-512"), "512-light");
        assert_eq!(class("vpclmulqdq-256"), "256-light");
        assert_eq!(class("vpmadd52luq-512"), "512-heavy");
        assert_eq!(class("sha256rnds2-128"), "128-light");
        assert_eq!(class("tdpbssd-512"), "512-heavy");
        assert_eq!(class("scalar"), "128-light");
    }
}

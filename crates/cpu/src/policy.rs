//! The policy: what the operator allows, apart from what the CPU can do.

mod choose;
mod combine;
mod engine;
mod file;
mod lane_cpus;
mod lane_user;
mod resolve;
mod setting;
pub mod trial;
mod wait;
mod word;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

pub use self::choose::{ALTERNATIVES_MAX, Choose, UnknownChoose, name_of};
pub use self::combine::{Combine, UnknownCombine};
pub use self::engine::{Engine, UnknownEngine};
pub use self::file::{MalformedPolicy, parse};
pub use self::lane_cpus::{LaneCpus, MissingLaneCpu, UnknownLaneCpus};
pub use self::lane_user::{LaneUser, UnknownLaneUser};
pub use self::resolve::{
    Base, Inputs, PolicyError, Reader, Resolved, Source, flaw, resolve, variables,
};
pub use self::setting::{SETTINGS, Setting};
pub use self::wait::{UnknownWait, WaitMax};
use crate::machine::Signature;
use crate::rooms::{LicenceClass, Room, Width};

/// Where the operator's policy lives, unless the environment names another file.
pub const SYSTEM_PATH: &str = "/etc/widelane/policy.toml";

/// Name of the environment variable that holds the path of a policy file.
pub const PATH_VARIABLE: &str = "WIDELANE_POLICY";

/// What stands there instead of a path if processes are to choose among the rooms that they may
/// use, whatever the operator's file says of that.
pub const AUTO: &str = "auto";

/// Name of the environment variable that holds the widest registers that rooms may use: 128, 256 or
/// 512 bits.
pub const BITWIDTH_VARIABLE: &str = "WIDELANE_MAX_SIMD_BITWIDTH";

/// Name of the environment variable that holds how long operations may wait for company.
pub const WAIT_VARIABLE: &str = "WIDELANE_WAIT_MAX";

/// Name of the environment variable that says whether workers execute each other's operations.
pub const COMBINE_VARIABLE: &str = "WIDELANE_COMBINE";

/// Name of the environment variable that holds the CPUs set aside for batches.
pub const LANE_CPUS_VARIABLE: &str = "WIDELANE_LANE_CPUS";

/// Name of the environment variable that says what does private-key operations.
pub const ENGINE_VARIABLE: &str = "WIDELANE_ENGINE";

/// Name of the environment variable that holds the widest registers that rooms may use in the lane
/// process, in bits.
pub const LANE_BITWIDTH_VARIABLE: &str = "WIDELANE_LANE_MAX_SIMD_BITWIDTH";

/// Name of the environment variable that holds the user of the lane process.
pub const LANE_USER_VARIABLE: &str = "WIDELANE_LANE_USER";

/// What may run: a widest register, closed licence classes, closed rooms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// The widest registers any room may compute in.
    pub width_max: Width,
    /// Licence classes that no room may belong to.
    pub classes_closed: BTreeSet<LicenceClass>,
    /// Rooms closed by name. `portable` cannot be closed.
    pub rooms_closed: BTreeSet<Room>,
    /// How a process chooses among the rooms left open, where that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choose: Option<Choose>,
    /// How long an event loop may wait for company before it sleeps, where that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_max: Option<WaitMax>,
    /// Whether workers execute each other's operations, where that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub combine: Option<Combine>,
    /// The CPUs set aside for batches, where that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane_cpus: Option<LaneCpus>,
    /// What does private-key operations, where that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// The user of the process on these CPUs, where that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane_user: Option<LaneUser>,
    /// What that process may run, where that is not what the program may: so all wide
    /// multiplications can be made on these CPUs (docs/design/lane-cpus.md). The last field: what
    /// a file says of it is a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane_process: Option<Box<Policy>>,
}

impl Policy {
    /// Allows everything.
    pub const fn open() -> Self {
        Policy::up_to(Width::W512)
    }

    /// Allows everything up to `width_max`.
    pub const fn up_to(width_max: Width) -> Self {
        Policy {
            width_max,
            classes_closed: BTreeSet::new(),
            rooms_closed: BTreeSet::new(),
            choose: None,
            wait_max: None,
            combine: None,
            lane_cpus: None,
            engine: None,
            lane_user: None,
            lane_process: None,
        }
    }

    /// Closes every room that can be closed: where nobody knows what the operator allows.
    pub fn closed() -> Self {
        Policy { rooms_closed: Room::ALL.into_iter().collect(), ..Policy::up_to(Width::W128) }
    }

    /// What we allow on a CPU by default; docs/operate/policy.md gives the reasons.
    pub fn default_for(cpu: &Signature) -> Self {
        const SKYLAKE_SP_TO_COOPER_LAKE: (u32, u32) = (6, 85);
        if cpu.vendor == "GenuineIntel"
            && (cpu.family, cpu.model_number) == SKYLAKE_SP_TO_COOPER_LAKE
        {
            Policy::up_to(Width::W256)
        } else {
            Policy::open()
        }
    }

    /// A policy that leaves the same rooms open as this one, and says nothing else.
    pub fn rooms(&self) -> Self {
        Policy {
            width_max: self.width_max,
            classes_closed: self.classes_closed.clone(),
            rooms_closed: self.rooms_closed.clone(),
            ..Policy::open()
        }
    }

    /// The policy for code that does not compare policies: `auto` becomes what is open on this CPU
    /// by default, within this policy.
    #[must_use]
    pub fn without_choice(&self) -> Self {
        self.without_choice_on(&Signature::detect())
    }

    fn without_choice_on(&self, cpu: &Signature) -> Self {
        let mut policy = Policy { choose: None, ..self.clone() };
        if self.choose == Some(Choose::Auto) {
            let default = Policy::default_for(cpu);
            policy.width_max = policy.width_max.min(default.width_max);
            policy.classes_closed.extend(default.classes_closed);
            policy.rooms_closed.extend(default.rooms_closed);
        }
        policy
    }

    /// The policy of the lane process: its own rooms, or those of the workers where it has none.
    pub fn of_lane_process(&self) -> Self {
        self.lane_process.as_deref().unwrap_or(self).rooms()
    }

    /// Whether this policy leaves `room` open. `portable` always is.
    pub fn allows(&self, room: Room) -> bool {
        let class = room.licence_class();
        room == Room::Portable
            || (class.width <= self.width_max
                && !self.classes_closed.contains(&class)
                && !self.rooms_closed.contains(&room))
    }

    /// Why this policy closes `room`, or nothing if it leaves it open.
    pub(crate) fn objection(&self, room: Room) -> Option<String> {
        let class = room.licence_class();
        if self.allows(room) {
            None
        } else if class.width > self.width_max {
            Some(format!("the policy stops at {} bits", self.width_max))
        } else if self.classes_closed.contains(&class) {
            Some(format!("the policy closes class {class}"))
        } else {
            Some(format!("the policy closes room {room}"))
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "registers up to {} bits", self.width_max)?;
        let classes = self.classes_closed.iter().map(|class| format!("class {class}"));
        let rooms = self.rooms_closed.iter().map(|room| format!("room {room}"));
        let closed: Vec<String> = classes.chain(rooms).collect();
        match closed.as_slice() {
            [] if self.width_max == Width::W512 => formatter.write_str(", everything open")?,
            [] => {}
            closed => write!(formatter, "; closed: {}", closed.join(", "))?,
        }
        if let Some(choose) = self.choose {
            write!(formatter, "; chooses {choose}")?;
        }
        if let Some(wait_max) = self.wait_max {
            match wait_max {
                WaitMax::Time(_) => write!(formatter, "; waits up to {wait_max}")?,
                WaitMax::RoundTrip => formatter.write_str("; waits by round trip")?,
            }
        }
        if let Some(combine) = self.combine {
            write!(formatter, "; combining {combine}")?;
        }
        if let Some(cpus) = &self.lane_cpus {
            write!(formatter, "; lane CPUs {cpus}")?;
        }
        if let Some(user) = &self.lane_user {
            write!(formatter, "; lane user {user}")?;
        }
        if let Some(engine) = self.engine {
            write!(formatter, "; engine {engine}")?;
        }
        let has_lane_cpus = self.lane_cpus.as_ref().is_some_and(|cpus| !cpus.is_none());
        match self.lane_process.as_ref().filter(|_| has_lane_cpus) {
            Some(policy) => write!(formatter, "; the lane process has {policy}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_is_never_closed() {
        let policy = Policy {
            width_max: Width::W128,
            classes_closed: LicenceClass::ALL.into(),
            rooms_closed: Room::ALL.into(),
            ..Policy::open()
        };
        assert!(policy.allows(Room::Portable));
        assert_eq!(policy.objection(Room::Portable), None);
        assert!(!policy.allows(Room::Ifma256) && !policy.allows(Room::Ifma512));
        let closed = Policy::closed();
        assert!(Room::ALL.iter().filter(|room| closed.allows(**room)).eq([&Room::Portable]));
    }

    #[test]
    fn a_policy_reads_as_words() {
        assert_eq!(Policy::open().to_string(), "registers up to 512 bits, everything open");
        assert_eq!(Policy::up_to(Width::W256).to_string(), "registers up to 256 bits");
        let closed = Policy {
            classes_closed: [LicenceClass { width: Width::W512, heavy: true }].into(),
            rooms_closed: [Room::Ifma256].into(),
            choose: Some(Choose::Auto),
            wait_max: "200us".parse().ok(),
            combine: Some(Combine::Off),
            lane_cpus: "3".parse().ok(),
            engine: Some(Engine::Qat),
            lane_user: "widelane".parse().ok(),
            lane_process: Some(Box::new(Policy::open())),
            ..Policy::open()
        };
        assert_eq!(
            closed.to_string(),
            "registers up to 512 bits; closed: class 512-heavy, room ifma256; chooses auto; \
             waits up to 0.2ms; combining off; lane CPUs 3; lane user widelane; engine qat; \
             the lane process has registers up to 512 bits, everything open"
        );
    }

    #[test]
    fn a_lane_process_without_rooms_of_its_own_has_those_of_its_workers() {
        let same = Policy { rooms_closed: [Room::Ifma512].into(), ..Policy::up_to(Width::W256) };
        let workers = Policy { lane_cpus: "3".parse().ok(), ..same.clone() };
        assert_eq!(workers.of_lane_process(), same);
        let lane_process = Some(Box::new(Policy::open()));
        assert_eq!(Policy { lane_process, ..workers }.of_lane_process(), Policy::open());
    }

    #[test]
    fn an_objection_names_what_closes_the_room() {
        let narrow = Policy::up_to(Width::W256);
        let class = LicenceClass { width: Width::W512, heavy: true };
        let light = Policy { classes_closed: [class].into(), ..Policy::open() };
        let named = Policy { rooms_closed: [Room::Ifma512].into(), ..Policy::open() };
        let objections =
            [narrow, light, named].map(|policy| policy.objection(Room::Ifma512).unwrap());
        assert_eq!(
            objections,
            [
                "the policy stops at 256 bits",
                "the policy closes class 512-heavy",
                "the policy closes room ifma512"
            ]
        );
    }

    /// A CPU whose default is 256 bits, and one whose default is open.
    fn cascade_lake_and_sapphire_rapids() -> [Signature; 2] {
        [(85, 7), (143, 8)].map(|(model_number, stepping)| Signature {
            vendor: "GenuineIntel".to_owned(),
            family: 6,
            model_number,
            stepping,
        })
    }

    #[test]
    fn the_first_generation_of_512_bits_is_kept_narrow() {
        let [cascade_lake, sapphire_rapids] = cascade_lake_and_sapphire_rapids();
        assert_eq!(Policy::default_for(&cascade_lake).width_max, Width::W256);
        assert_eq!(Policy::default_for(&sapphire_rapids), Policy::open());
    }

    #[test]
    fn where_nobody_compares_auto_is_the_default_of_the_cpu() {
        let [cascade_lake, sapphire_rapids] = cascade_lake_and_sapphire_rapids();
        let auto = |policy| Policy { choose: Some(Choose::Auto), ..policy };
        let closed = Policy { rooms_closed: [Room::Ifma512].into(), ..Policy::open() };
        for (policy, on_cascade_lake) in [
            (Policy::open(), Policy::up_to(Width::W256)),
            (Policy::up_to(Width::W128), Policy::up_to(Width::W128)),
            (closed.clone(), Policy { width_max: Width::W256, ..closed }),
        ] {
            assert_eq!(policy.without_choice_on(&cascade_lake), policy, "an operator wrote it");
            assert_eq!(auto(policy.clone()).without_choice_on(&cascade_lake), on_cascade_lake);
            assert_eq!(auto(policy.clone()).without_choice_on(&sapphire_rapids), policy);
        }
    }
}

//! Candidates: the policies that are tried, each once however many names it has.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use widelane_cpu::machine::Signature;
use widelane_cpu::policy::LaneCpus;
use widelane_cpu::{LicenceClass, Policy, Room, Width, policy};

use super::apart::lane_cpus;
use super::material::Material;

/// A policy that is tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its names: policies that choose the same rooms for a workload are one candidate.
    pub names: Vec<String>,
    /// The policy.
    #[serde(serialize_with = "write", deserialize_with = "read")]
    pub policy: Policy,
    /// The room that does each kind of work; nothing where scalar code or OpenSSL does.
    pub rooms: Vec<Option<String>>,
}

/// Everything open.
pub const ALWAYS_512: &str = "always-512";

/// No 512-bit register at all.
pub const NEVER_512: &str = "never-512";

/// What holds where no file says otherwise.
pub const DEFAULT: &str = "default";

/// Signatures on CPUs set aside, everything open.
pub const LANE_CPUS: &str = "lane-cpus";

/// Signatures on CPUs set aside, everything open there, no vector multiplications elsewhere.
pub const LANE_CPUS_LIGHT: &str = "lane-cpus-light-workers";

/// The file that is checked.
pub const FILE: &str = "file";

impl Candidate {
    pub(super) fn new(name: &str, policy: Policy, materials: &[Material]) -> Self {
        let room = |material: &Material| match lane_cpus(&policy) {
            Some(cpus) if material.is_lent() => {
                let room = material.room(&policy.of_lane_process())?;
                let confirmed = material.room(&policy).unwrap_or(Room::Portable);
                Some(format!("{room} on lane CPUs {cpus}, confirmed in {confirmed}"))
            }
            _ => material.room(&policy).map(|room| room.name().to_owned()),
        };
        let rooms = materials.iter().map(room).collect();
        Candidate { names: vec![name.to_owned()], policy, rooms }
    }

    /// The first of the candidate's names.
    pub fn name(&self) -> &str {
        &self.names[0]
    }

    /// Whether this is one of its names.
    pub fn is(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// Closes all that any of these closes that sets no CPUs aside.
    pub(super) fn union(all: &[&Candidate], materials: &[Material]) -> Option<Self> {
        let all = all.iter().filter(|candidate| lane_cpus(&candidate.policy).is_none());
        let policies = all.clone().map(|candidate| &candidate.policy);
        let policy = Policy {
            width_max: policies.clone().map(|policy| policy.width_max).min()?,
            classes_closed: policies.clone().flat_map(|p| p.classes_closed.clone()).collect(),
            rooms_closed: policies.flat_map(|policy| policy.rooms_closed.clone()).collect(),
            ..Policy::open()
        };
        let names: Vec<&str> = all.map(|candidate| candidate.name()).collect();
        Some(Candidate::new(&names.join("+"), policy, materials))
    }
}

/// All policies worth trying on this machine for such work; the first is the one that the others
/// are held against: that of the file, if there is one to check, or the default.
pub(super) fn all(
    file: Option<Policy>,
    lane_cpus: Option<&LaneCpus>,
    materials: &[Material],
) -> Vec<Candidate> {
    let heavy = |width| LicenceClass { width, heavy: true };
    let without_classes = |classes: &[LicenceClass]| Policy {
        classes_closed: classes.iter().copied().collect(),
        ..Policy::open()
    };
    let default = Policy::default_for(&Signature::detect());
    let mut named: Vec<(String, Policy)> =
        file.map(|file| (FILE.to_owned(), file)).into_iter().collect();
    named.extend([
        (DEFAULT.to_owned(), default),
        (ALWAYS_512.to_owned(), Policy::open()),
        (NEVER_512.to_owned(), Policy::up_to(Width::W256)),
        ("light-512".to_owned(), without_classes(&[heavy(Width::W512)])),
        ("light-only".to_owned(), without_classes(&[heavy(Width::W512), heavy(Width::W256)])),
    ]);
    let wide = Room::ALL.into_iter().filter(|room| room.licence_class().width > Width::W128);
    named.extend(wide.map(|room| {
        let policy = Policy { rooms_closed: [room].into(), ..Policy::open() };
        (format!("without-{room}"), policy)
    }));
    let aside = |policy: Policy| Policy {
        lane_cpus: lane_cpus.cloned(),
        lane_process: Some(Box::new(Policy::open())),
        ..policy
    };
    named.extend(lane_cpus.into_iter().flat_map(|_| {
        let light = without_classes(&[heavy(Width::W512), heavy(Width::W256)]);
        [(LANE_CPUS, Policy::open()), (LANE_CPUS_LIGHT, light)]
            .map(|(name, policy)| (name.to_owned(), aside(policy)))
    }));
    let mut candidates: Vec<Candidate> = Vec::new();
    for (name, policy) in named {
        let candidate = Candidate::new(&name, policy, materials);
        match candidates.iter_mut().find(|known| known.rooms == candidate.rooms) {
            Some(known) => known.names.push(name),
            None => candidates.push(candidate),
        }
    }
    candidates
}

fn write<S: Serializer>(policy: &Policy, serializer: S) -> Result<S::Ok, S::Error> {
    let text = toml::to_string(policy).map_err(serde::ser::Error::custom)?;
    serializer.serialize_str(&text)
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
    let text = String::deserialize(deserializer)?;
    policy::parse("recorded policy".as_ref(), &text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::super::workload::Workload;
    use super::*;

    fn materials(name: &str) -> Vec<Material> {
        let workload = Workload::named(name).unwrap();
        workload.work.iter().map(|work| Material::of(work).unwrap()).collect()
    }

    #[test]
    fn policies_that_choose_the_same_rooms_are_one_candidate() {
        let candidates = all(None, None, &materials("packets"));
        assert!(candidates[0].is(DEFAULT));
        for (index, candidate) in candidates.iter().enumerate() {
            let same = |other: &Candidate| other.rooms == candidate.rooms;
            assert_eq!(candidates.iter().position(same), Some(index));
        }
        let names: usize = candidates.iter().map(|candidate| candidate.names.len()).sum();
        assert_eq!(names, 5 + 8, "eight rooms are wider than 128 bits");
        assert!(candidates.len() <= 3, "avx512, avx2 and neither: {candidates:?}");
        for name in [ALWAYS_512, NEVER_512] {
            assert_eq!(candidates.iter().filter(|candidate| candidate.is(name)).count(), 1);
        }
    }

    #[test]
    fn a_file_comes_first() {
        let materials = materials("packets");
        let candidates = all(Some(Policy::up_to(Width::W128)), None, &materials);
        assert!(candidates[0].is(FILE) && candidates[0].rooms == [None, None]);
    }

    #[test]
    fn a_candidate_survives_its_recording() {
        let materials = materials("bulk-mixed");
        for candidate in all(None, None, &materials) {
            let text = serde_json::to_string(&candidate).unwrap();
            assert_eq!(serde_json::from_str::<Candidate>(&text).unwrap(), candidate);
        }
    }

    #[test]
    fn lane_cpus_are_candidates_of_their_own() {
        let text = "name = \"w\"\n[[work]]\nwhat = \"rsa2048/private\"\nshare = 1\n";
        let work = Workload::parse(text).unwrap().work;
        let materials: Vec<_> = work.iter().map(|work| Material::of(work).unwrap()).collect();
        let cpus = "1".parse().unwrap();
        let candidates = all(None, Some(&cpus), &materials);
        let is_aside = |candidate: &&Candidate| lane_cpus(&candidate.policy) == Some(&cpus);
        let aside: Vec<_> = candidates.iter().filter(is_aside).collect();
        // Where the machine has no lanes, nothing is lent.
        let names: Vec<_> = aside.iter().map(|candidate| candidate.name()).collect();
        assert!(
            names == [LANE_CPUS, LANE_CPUS_LIGHT] || !Room::Ifma256.is_supported(),
            "{names:?}"
        );
        for candidate in aside {
            let text = serde_json::to_string(&candidate).unwrap();
            assert_eq!(serde_json::from_str::<Candidate>(&text).unwrap(), *candidate);
            assert_eq!(Candidate::union(&[candidate], &materials), None);
        }
    }

    #[test]
    fn what_is_better_closed_is_closed_together() {
        let materials = materials("mixed");
        let named = |name: &str, policy: Policy| Candidate::new(name, policy, &materials);
        let ifma = Policy { rooms_closed: [Room::Ifma512].into(), ..Policy::open() };
        let narrow = Policy::up_to(Width::W256);
        let both = [&named("a", ifma), &named("b", narrow)];
        let union = Candidate::union(&both, &materials).unwrap();
        assert_eq!(union.name(), "a+b");
        let policy = Policy { rooms_closed: [Room::Ifma512].into(), ..Policy::up_to(Width::W256) };
        assert_eq!(union, named("a+b", policy));
        assert_eq!(Candidate::union(&[], &materials), None);
    }
}

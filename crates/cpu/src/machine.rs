//! The machine: what the CPU and the kernel say about themselves. For reports, never for dispatch.

use std::arch::x86_64::{__cpuid, CpuidResult};
use std::fs;

use serde::Serialize;

/// Which CPU it is, in its own numbers; cheap to ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// The maker as CPUID spells it: `GenuineIntel`, `AuthenticAMD`.
    pub vendor: String,
    /// The CPU family.
    pub family: u32,
    /// The CPU model within its family.
    pub model_number: u32,
    /// The revision of the model.
    pub stepping: u32,
}

/// What the CPU and the kernel say about themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// The brand string: `Intel(R) Xeon(R) Platinum 8488C`.
    pub model: String,
    /// Maker, family, model and stepping.
    #[serde(flatten)]
    pub signature: Signature,
    /// The microcode revision, if the kernel reports it.
    pub microcode: Option<String>,
    /// The hypervisor, where there is one: its name, or its CPUID signature if we know no name for
    /// it.
    pub hypervisor: Option<String>,
    /// The kernel release.
    pub kernel: Option<String>,
    /// Rate of the time-stamp counter in kHz, if CPU, hypervisor or kernel reports it.
    pub tsc_khz: Option<u64>,
}

const LEAF_VENDOR: u32 = 0;
const LEAF_VERSION: u32 = 1;
const LEAF_TSC: u32 = 0x15;
const LEAF_HYPERVISOR: u32 = 0x4000_0000;
const LEAF_HYPERVISOR_TIMING: u32 = 0x4000_0010;
const LEAF_BRAND_MAX: u32 = 0x8000_0000;
const LEAVES_BRAND: [u32; 3] = [0x8000_0002, 0x8000_0003, 0x8000_0004];
const HYPERVISOR_PRESENT: u32 = 1 << 31;

impl Signature {
    /// Asks CPUID.
    pub fn detect() -> Self {
        let vendor = __cpuid(LEAF_VENDOR);
        let (family, model_number, stepping) = numbers(__cpuid(LEAF_VERSION).eax);
        Signature {
            vendor: text([vendor.ebx, vendor.edx, vendor.ecx]),
            family,
            model_number,
            stepping,
        }
    }
}

impl Machine {
    /// Asks CPUID and `/proc`. The kernel may take milliseconds to answer.
    pub fn detect() -> Self {
        let is_virtual = __cpuid(LEAF_VERSION).ecx & HYPERVISOR_PRESENT != 0;
        let hypervisor = is_virtual.then(|| __cpuid(LEAF_HYPERVISOR));
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Machine {
            model: brand(),
            signature: Signature::detect(),
            microcode: cpuinfo_fields(&cpuinfo, "microcode").next().map(str::to_owned),
            hypervisor: hypervisor
                .map(|leaf| hypervisor_name(text([leaf.ebx, leaf.ecx, leaf.edx]))),
            kernel: kernel.map(|release| release.trim().to_owned()),
            tsc_khz: tsc_khz(hypervisor.map(|leaf| leaf.eax), &cpuinfo),
        }
    }
}

/// The brand string, or `unknown`.
fn brand() -> String {
    if __cpuid(LEAF_BRAND_MAX).eax < LEAVES_BRAND[2] {
        return "unknown".to_owned();
    }
    text(LEAVES_BRAND.iter().flat_map(|&leaf| {
        let CpuidResult { eax, ebx, ecx, edx } = __cpuid(leaf);
        [eax, ebx, ecx, edx]
    }))
}

/// The name that people know behind a hypervisor's CPUID signature.
fn hypervisor_name(signature: String) -> String {
    match signature.as_str() {
        "KVMKVMKVM" => "KVM".to_owned(),
        "Microsoft Hv" => "Hyper-V".to_owned(),
        "VMwareVMware" => "VMware".to_owned(),
        "XenVMMXenVMM" => "Xen".to_owned(),
        _ => signature,
    }
}

/// Family, model and stepping from EAX of leaf 1.
fn numbers(eax: u32) -> (u32, u32, u32) {
    let family_base = eax >> 8 & 0xf;
    let model_extended = if matches!(family_base, 0x6 | 0xf) { (eax >> 16 & 0xf) << 4 } else { 0 };
    (family_of(eax), model_extended | eax >> 4 & 0xf, eax & 0xf)
}

/// The family from EAX of leaf 1.
pub(crate) fn family_of(eax: u32) -> u32 {
    let base = eax >> 8 & 0xf;
    if base == 0xf { base + (eax >> 20 & 0xff) } else { base }
}

/// The rate of the time-stamp counter: from the hypervisor, from the CPU, or, in a virtual machine,
/// from the kernel.
fn tsc_khz(hypervisor_leaf_max: Option<u32>, cpuinfo: &str) -> Option<u64> {
    let from_hypervisor = || {
        (hypervisor_leaf_max? >= LEAF_HYPERVISOR_TIMING)
            .then(|| u64::from(__cpuid(LEAF_HYPERVISOR_TIMING).eax))
            .filter(|&khz| khz != 0)
    };
    let from_cpu = || {
        let ratio = (__cpuid(LEAF_VENDOR).eax >= LEAF_TSC).then(|| __cpuid(LEAF_TSC))?;
        let crystal_hz = u64::from(ratio.ecx);
        (crystal_hz * u64::from(ratio.ebx))
            .checked_div(u64::from(ratio.eax) * 1000)
            .filter(|&khz| khz != 0)
    };
    let from_kernel = || hypervisor_leaf_max.and_then(|_| kernel_tsc_khz(cpuinfo));
    from_hypervisor().or_else(from_cpu).or_else(from_kernel)
}

/// The kernel's "cpu MHz": in a virtual machine the rate of the time-stamp counter, unless the
/// hypervisor shows APERF and MPERF, from which the kernel computes the clock of each core.
fn kernel_tsc_khz(cpuinfo: &str) -> Option<u64> {
    let mut flags = cpuinfo_fields(cpuinfo, "flags").flat_map(str::split_whitespace);
    let mut rates = cpuinfo_fields(cpuinfo, "cpu MHz");
    let rate = rates.next()?;
    if flags.any(|flag| flag == "aperfmperf") || rates.any(|other| other != rate) {
        return None;
    }
    rate.parse().ok().map(|mhz: f64| (mhz * 1000.0).round() as u64)
}

/// The values of `name` in the text of `/proc/cpuinfo`.
fn cpuinfo_fields<'a>(cpuinfo: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    fields.filter(move |(field, _)| field.trim() == name).map(|(_, value)| value.trim())
}

/// Text that CPUID returns in registers, without padding.
fn text(registers: impl IntoIterator<Item = u32>) -> String {
    let bytes: Vec<u8> = registers.into_iter().flat_map(u32::to_le_bytes).collect();
    String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_of_known_parts() {
        assert_eq!(numbers(0x0005_0657), (6, 85, 7)); // Cascade Lake
        assert_eq!(numbers(0x000806f8), (6, 143, 8)); // Sapphire Rapids
        assert_eq!(numbers(0x00b0_0f21), (26, 2, 1)); // Turin
    }

    #[test]
    fn text_loses_its_padding() {
        assert_eq!(text([0x4b4d_564b, 0x564b_4d56, 0x0000_004d]), "KVMKVMKVM");
    }

    #[test]
    fn fields_of_cpuinfo() {
        let cpuinfo =
            "processor\t: 0\nmicrocode\t: 0x2b000603\ncpu MHz\t\t: 1999.999\n\nprocessor\t: 1\n";
        assert_eq!(cpuinfo_fields(cpuinfo, "microcode").next(), Some("0x2b000603"));
        assert_eq!(cpuinfo_fields(cpuinfo, "flags").next(), None);
    }

    #[test]
    fn the_clock_of_a_core_is_not_taken_for_the_rate_of_time_stamps() {
        let cpuinfo = |flags: &str, rates: [&str; 2]| {
            rates.map(|mhz| format!("flags\t\t: {flags}\ncpu MHz\t\t: {mhz}\n\n")).concat()
        };
        let same = ["2000.000"; 2];
        assert_eq!(kernel_tsc_khz(&cpuinfo("fpu constant_tsc", same)), Some(2_000_000));
        assert_eq!(kernel_tsc_khz(&cpuinfo("fpu aperfmperf", same)), None);
        assert_eq!(kernel_tsc_khz(&cpuinfo("fpu", ["3393.624", "3387.120"])), None);
        assert_eq!(kernel_tsc_khz(""), None);
    }

    #[test]
    fn this_machine_has_a_maker_and_a_kernel() {
        let machine = Machine::detect();
        assert_eq!(machine.signature.vendor.len(), 12, "{machine:?}");
        assert!(machine.kernel.is_some_and(|kernel| kernel.contains('.')));
    }
}

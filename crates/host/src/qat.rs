//! Intel QuickAssist (QAT) devices of this machine, as listed on the PCI bus.

use std::fs;
use std::path::Path;

/// Where the system lists PCI devices.
const PCI: &str = "/sys/bus/pci/devices";

const INTEL: &str = "0x8086";

/// Devices of the kinds that qatlib drives: 4xxx, 401xx, 402xx and 420xx, each as a whole and as a
/// part for a virtual machine.
const DEVICES: [&str; 8] =
    ["0x4940", "0x4941", "0x4942", "0x4943", "0x4944", "0x4945", "0x4946", "0x4947"];

/// How many there are, parts of one counted apart.
pub fn devices() -> usize {
    devices_in(Path::new(PCI))
}

fn devices_in(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let told = |path: &Path, what: &str| fs::read_to_string(path.join(what)).unwrap_or_default();
    let is_device = |path: &Path| {
        told(path, "vendor").trim() == INTEL && DEVICES.contains(&told(path, "device").trim())
    };
    entries.filter(|entry| is_device(&entry.path())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_vendor_and_kind() {
        let directory = tempfile::tempdir().unwrap();
        let functions = [("0x8086", "0x4940"), ("0x8086", "0x4941"), ("0x8086", "0x1533")];
        let others = [("0x10de", "0x4940")];
        for (index, (vendor, device)) in functions.into_iter().chain(others).enumerate() {
            let path = directory.path().join(index.to_string());
            fs::create_dir(&path).unwrap();
            fs::write(path.join("vendor"), format!("{vendor}\n")).unwrap();
            fs::write(path.join("device"), format!("{device}\n")).unwrap();
        }
        assert_eq!(devices_in(directory.path()), 2);
        assert_eq!(devices_in(Path::new("/nonexistent")), 0);
    }
}

//! The kernel's opinion: `cpufreq` in sysfs.

use std::fs;
use std::path::Path;

use widelane_cpu::Machine;

use super::Unavailable;

/// `scaling_cur_freq` of `cpu`.
pub fn clock_hz(_: &Machine, cpu: usize) -> Result<f64, Unavailable> {
    read(Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")))
}

fn read(path: &Path) -> Result<f64, Unavailable> {
    let text = fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Unavailable(
            "the kernel has no cpufreq driver here; virtual machines rarely have one".to_owned(),
        ),
        _ => Unavailable(format!("{} cannot be read: {error}", path.display())),
    })?;
    let khz: f64 = text.trim().parse().unwrap_or_default();
    if khz > 0.0 {
        Ok(khz * 1e3)
    } else {
        Err(Unavailable(format!("{} holds {:?}, no frequency", path.display(), text.trim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequency_or_a_reason() {
        let path = std::env::temp_dir().join(format!("widelane-cpufreq-{}", std::process::id()));
        fs::write(&path, "2450000\n").unwrap();
        assert_eq!(read(&path), Ok(2.45e9));
        for nonsense in ["0\n", "<unknown>\n", ""] {
            fs::write(&path, nonsense).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("no frequency"));
        }
        fs::remove_file(&path).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("no cpufreq driver"));
    }
}

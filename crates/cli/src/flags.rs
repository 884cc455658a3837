//! What an operator chooses for a server, by flags of `widelane run` and `widelane enable`: the
//! runtime and the provider read it from environment variables.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::bail;
use widelane_bridge::variables::{PQ_VALUE, PQ_VARIABLE};
use widelane_cpu::Policy;
use widelane_cpu::policy::{
    self, Combine, Engine, Inputs, LaneCpus, LaneUser, PolicyError, WaitMax,
};

use crate::system::{self, Starter};

/// The flags.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// Policy file to obey instead of /etc/widelane/policy.toml; or `auto`: each process measures
    /// 512-, 256- and 128-bit registers, and 512-bit ones without multiplications, on its own load
    /// and keeps the cheapest (docs/operate/experimental.md)
    #[arg(long, value_name = "FILE|auto")]
    pub policy: Option<PathBuf>,

    /// Widest registers to use, in bits: narrows what a policy file allows, and replaces the
    /// default for the CPU model [default: what the policy file says, otherwise 512, or 256 on
    /// Skylake-SP to Cooper Lake]
    #[arg(long, value_name = "BITS", value_parser = ["128", "256", "512"])]
    pub max_simd_bitwidth: Option<String>,

    /// Longest time that an operation waits for others before the server sleeps, such as 2ms, 10ms
    /// at most; rtt for a tenth of the round-trip time to the client, from 0.5 to 5 ms; 0 for none
    /// [default: what the policy file says, otherwise 0.5ms]
    #[arg(long, value_name = "TIME")]
    pub wait_max: Option<WaitMax>,

    /// Whether the server's workers make RSA signatures for each other: on, off, or auto, which is
    /// off for now (docs/operate/experimental.md) [default: what the policy file says, otherwise
    /// auto]
    #[arg(long, value_name = "CHOICE")]
    pub combine: Option<Combine>,

    /// CPUs set aside for a process that makes the RSA signatures of all workers, such as 3 or
    /// 2,4-7; none for no such process (docs/operate/experimental.md). For servers that load their
    /// keys before they fork workers or make threads, as nginx and HAProxy do [default: what the
    /// policy file says, otherwise none]
    #[arg(long, value_name = "LIST")]
    pub lane_cpus: Option<LaneCpus>,

    /// User that the lane process runs as; needs root [default: what the policy file says,
    /// otherwise the server's user]
    #[arg(long, value_name = "NAME")]
    pub lane_user: Option<LaneUser>,

    /// Widest registers that the lane process may use, in bits; --max-simd-bitwidth is then for the
    /// workers alone [default: what the policy file says, otherwise as for the workers]
    #[arg(long, value_name = "BITS", value_parser = ["128", "256", "512"])]
    pub lane_max_simd_bitwidth: Option<String>,

    /// Where private-key operations run: cpu; qat, an Intel QuickAssist device, where that costs
    /// less CPU; qat-first, the device whenever it has room. The CPU takes over whatever the device
    /// does not do. Untested on real hardware (docs/operate/experimental.md) [default: what the
    /// policy file says, otherwise cpu]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<Engine>,

    /// Puts the post-quantum key exchange X25519MLKEM768 in front of OpenSSL's default groups, for
    /// a server that names none; OpenSSL 3.5 does so by itself (docs/operate/post-quantum.md)
    #[arg(long)]
    pub pq: bool,
}

/// Variables and their values.
pub type Variables = Vec<(&'static str, OsString)>;

impl Flags {
    /// The variables of the flags that are given. The policy's path is one that holds in every
    /// directory: the server may be in another one when it reads the file.
    pub fn variables(&self) -> anyhow::Result<Variables> {
        let policy = self.policy.as_deref().map(absolute).transpose()?;
        let all = [
            (policy::PATH_VARIABLE, policy),
            (policy::BITWIDTH_VARIABLE, words(&self.max_simd_bitwidth)),
            (policy::WAIT_VARIABLE, words(&self.wait_max)),
            (policy::COMBINE_VARIABLE, words(&self.combine)),
            (policy::LANE_CPUS_VARIABLE, words(&self.lane_cpus)),
            (policy::ENGINE_VARIABLE, words(&self.engine)),
            (policy::LANE_USER_VARIABLE, words(&self.lane_user)),
            (policy::LANE_BITWIDTH_VARIABLE, words(&self.lane_max_simd_bitwidth)),
            (PQ_VARIABLE, self.pq.then(|| PQ_VALUE.into())),
        ];
        Ok(all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }

    /// The policy that a server has of `inputs`, among which are these flags' variables.
    pub fn resolve(&self, inputs: &Inputs) -> anyhow::Result<Policy> {
        match policy::resolve(inputs) {
            Ok(resolved) => Ok(resolved.policy),
            Err(PolicyError::Unreadable { path, error, .. }) if self.names_file() => {
                Err(PolicyError::Unreadable { path, error, remedy: "correct --policy" }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether --policy names a file.
    fn names_file(&self) -> bool {
        self.policy.as_deref().is_some_and(|policy| policy != Path::new(policy::AUTO))
    }

    /// Refuses CPUs and users that the lane process cannot have on this machine.
    pub fn check_lane_process(&self, policy: &Policy, starter: Starter) -> anyhow::Result<()> {
        if let Some(mistake) = system::lane_mistakes(policy, starter).first() {
            bail!("{mistake}");
        }
        let lane_cpus = policy.lane_cpus.as_ref();
        if self.lane_max_simd_bitwidth.is_some() && lane_cpus.is_none_or(LaneCpus::is_none) {
            bail!("there is no lane process for --lane-max-simd-bitwidth; give --lane-cpus, too");
        }
        Ok(())
    }
}

/// A flag's value as it stands in a variable.
fn words<T: ToString>(value: &Option<T>) -> Option<OsString> {
    value.as_ref().map(|value| value.to_string().into())
}

/// The policy's path, which holds in every directory, or `auto`.
pub fn absolute(path: &Path) -> anyhow::Result<OsString> {
    if path.as_os_str().is_empty() || path == OsStr::new(policy::AUTO) {
        return Ok(path.into());
    }
    Ok(std::path::absolute(path)?.into())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        flags: Flags,
    }

    fn variables(arguments: &str) -> Vec<(&'static str, String)> {
        let arguments = ["server"].into_iter().chain(arguments.split_whitespace());
        let variables = CommandLine::parse_from(arguments).flags.variables().unwrap();
        variables.into_iter().map(|(name, value)| (name, value.into_string().unwrap())).collect()
    }

    #[test]
    fn each_flag_has_its_variable() {
        assert_eq!(variables(""), []);
        for (arguments, name, value) in [
            ("--policy auto", "WIDELANE_POLICY", "auto"),
            ("--policy /etc/other.toml", "WIDELANE_POLICY", "/etc/other.toml"),
            ("--max-simd-bitwidth 256", "WIDELANE_MAX_SIMD_BITWIDTH", "256"),
            ("--wait-max 200us", "WIDELANE_WAIT_MAX", "0.2ms"),
            ("--combine off", "WIDELANE_COMBINE", "off"),
            ("--lane-cpus 2,0", "WIDELANE_LANE_CPUS", "0,2"),
            ("--lane-user widelane", "WIDELANE_LANE_USER", "widelane"),
            ("--lane-max-simd-bitwidth 512", "WIDELANE_LANE_MAX_SIMD_BITWIDTH", "512"),
            ("--engine qat-first", "WIDELANE_ENGINE", "qat-first"),
            ("--pq", "WIDELANE_PQ", "yes"),
        ] {
            assert_eq!(variables(arguments), [(name, value.to_owned())], "{arguments}");
        }
    }

    #[test]
    fn the_document_shows_the_file_that_is_shipped() {
        let shipped = include_str!("../../../packaging/policy.toml");
        assert!(include_str!("../../../docs/operate/policy.md").contains(shipped));
        let (_, settings) = shipped.split_once("\n\n").unwrap();
        let settings = settings.lines().filter_map(|line| line.strip_prefix("# "));
        let settings = settings.filter(|line| line.contains(" = ") || line.starts_with('['));
        let settings: Vec<&str> = settings.collect();
        policy::parse(Path::new("policy.toml"), &settings.join("\n")).unwrap();
    }

    #[test]
    fn the_help_tells_what_holds_where_nobody_says_otherwise() {
        let command = CommandLine::command();
        for (flag, default) in [
            ("max_simd_bitwidth", Policy::open().width_max.to_string()),
            ("wait_max", WaitMax::DEFAULT.to_string()),
            ("combine", Combine::default().to_string()),
            ("lane_cpus", "none".to_owned()),
            ("engine", Engine::default().to_string()),
        ] {
            let flag = command.get_arguments().find(|argument| argument.get_id() == flag).unwrap();
            let help = flag.get_help().unwrap().to_string();
            let expected = format!("[default: what the policy file says, otherwise {default}");
            assert!(help.contains(&expected), "{help}");
        }
    }

    #[test]
    fn a_policy_is_found_from_every_directory() {
        let here = std::env::current_dir().unwrap().join("other.toml");
        let expected = [("WIDELANE_POLICY", here.to_str().unwrap().to_owned())];
        assert_eq!(variables("--policy other.toml"), expected);
    }
}

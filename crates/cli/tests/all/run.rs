//! `widelane run`: what the program inherits, and that it starts whatever is wrong with us.

use widelane_testkit::program::without_policy;

/// What a program that is run by `script`, in a shell, says that it ignores of signals.
fn ignored_signals(script: &str) -> u64 {
    let mut shell = without_policy("/bin/sh");
    let output = shell.args(["-c", script, env!("CARGO_BIN_EXE_widelane")]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mask = said.strip_prefix("SigIgn:").map(str::trim);
    u64::from_str_radix(mask.unwrap_or_else(|| panic!("{script}: {said}")), 16).unwrap()
}

#[test]
fn the_program_ignores_the_signals_that_widelane_was_started_with() {
    const SIGPIPE: u64 = 1 << 12;
    let run = "exec \"$0\" run -- grep SigIgn /proc/self/status";
    let natively = "exec grep SigIgn /proc/self/status";
    for (before, is_ignored) in [("", false), ("trap '' PIPE; ", true)] {
        let ignored = ignored_signals(&format!("{before}{run}"));
        assert_eq!(ignored & SIGPIPE != 0, is_ignored, "{before}{run}");
        assert_eq!(ignored, ignored_signals(&format!("{before}{natively}")));
    }
}

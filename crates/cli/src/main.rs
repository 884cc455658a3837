//! The `widelane` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    widelane_cli::main()
}

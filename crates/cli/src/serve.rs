//! `widelane serve-embedded`: the server that compare starts where none is installed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use widelane_bench::embedded;

/// Serves TLS until it is ended; `widelane compare` uses it
#[derive(clap::Args)]
pub struct Args {
    /// Address to listen on
    #[arg(long)]
    listen: SocketAddr,
    /// Certificate chain, PEM
    #[arg(long)]
    certificate: PathBuf,
    /// Private key, PEM
    #[arg(long)]
    private_key: PathBuf,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    embedded::serve(args.listen, &args.certificate, &args.private_key)?;
    Ok(ExitCode::SUCCESS)
}

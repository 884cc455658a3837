//! `widelane serve-embedded`: the server that compare starts where none is installed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use widelane_bench::embedded;
use widelane_bench::server::GROUPS;

/// Serves TLS until it is ended; `widelane compare` uses it
#[derive(clap::Args)]
pub struct Args {
    /// Address to listen on
    #[arg(long)]
    listen: SocketAddr,
    /// Certificate chains, PEM
    #[arg(long, required = true)]
    certificate: Vec<PathBuf>,
    /// Their private keys, PEM, in the same order
    #[arg(long, required = true)]
    private_key: Vec<PathBuf>,
    /// Key-exchange groups, as OpenSSL reads them
    #[arg(long, default_value = GROUPS)]
    groups: String,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let identities: Vec<(&Path, &Path)> = (args.certificate.iter().zip(&args.private_key))
        .map(|(certificate, private_key)| (certificate.as_path(), private_key.as_path()))
        .collect();
    embedded::serve(args.listen, &identities, &args.groups)?;
    Ok(ExitCode::SUCCESS)
}

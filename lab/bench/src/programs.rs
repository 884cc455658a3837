//! What is installed: the servers, and the parts of widelane itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use widelane_host::programs::{
    find, haproxy_version, nginx_first_errors, nginx_version, said, word_behind,
};

use crate::server::{ServerError, ServerKind};

/// The programs and shared objects that a comparison needs.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// The `widelane` binary, which starts servers accelerated.
    pub widelane: PathBuf,
    /// The `widelane-bench` binary beside it, which serves by itself where no server is installed.
    pub bench: PathBuf,
    /// The provider.
    pub provider: Option<PathBuf>,
    /// nginx, if installed.
    pub nginx: Option<PathBuf>,
    /// HAProxy, if installed.
    pub haproxy: Option<PathBuf>,
    /// HAProxy on AWS-LC, which is built from source.
    pub haproxy_aws_lc: Built,
    /// The `openssl` tool, if installed.
    pub openssl: Option<PathBuf>,
    /// Where programs were looked for.
    pub search: Vec<PathBuf>,
    /// The policy's variables that are set here.
    pub policy: Vec<(&'static str, OsString)>,
}

/// A rival that is built from source.
#[derive(Clone, Debug, Default)]
pub enum Built {
    /// It was not asked for.
    #[default]
    Unwanted,
    /// Where it is.
    At(PathBuf),
    /// It is not there; why, where a build has failed.
    Missing(Option<String>),
}

impl Programs {
    /// Looks for servers in the directories of `search`, in order.
    pub fn search(widelane: PathBuf, provider: Option<PathBuf>, search: &[PathBuf]) -> Self {
        Programs {
            bench: widelane.with_file_name("widelane-bench"),
            widelane,
            provider,
            nginx: find("nginx", search),
            haproxy: find("haproxy", search),
            haproxy_aws_lc: Built::Unwanted,
            openssl: find("openssl", search),
            search: search.to_vec(),
            policy: Vec::new(),
        }
    }

    /// The servers that can be compared here: those installed, or else the embedded one.
    pub fn servers(&self) -> Vec<ServerKind> {
        let mut kinds = Vec::new();
        kinds.extend(self.nginx.as_ref().map(|_| ServerKind::Nginx));
        kinds.extend(self.haproxy.as_ref().map(|_| ServerKind::Haproxy));
        if kinds.is_empty() {
            kinds.push(ServerKind::Embedded);
        }
        kinds
    }

    /// Why a server cannot be compared here, as far as that is known before it is started: it is
    /// not installed, or is to speak HTTP/3 and cannot.
    pub fn objection(&self, kind: ServerKind, http3: bool) -> Option<ServerError> {
        let (package, program) = match kind {
            ServerKind::Embedded => return None,
            ServerKind::Haproxy => ("haproxy", self.haproxy.clone()),
            ServerKind::Listed(recipe) => (recipe.packages, self.find(recipe.program())),
            ServerKind::Nginx => ("nginx", self.nginx.clone()),
            ServerKind::SServer => ("openssl", self.openssl.clone()),
        };
        let Some(program) = program else { return Some(ServerError::NotInstalled(package)) };
        let (name, version, flag, mark) = match kind {
            ServerKind::Haproxy => ("HAProxy", haproxy_version(&program), "-vv", "+QUIC"),
            ServerKind::Nginx => ("nginx", nginx_version(&program), "-V", "http_v3_module"),
            _ => return None,
        };
        let lacks_quic = http3 && !said(&program, flag)?.contains(mark);
        let version = version.unwrap_or_default();
        // Without the distribution's own number.
        let version = version.split('-').next().unwrap_or_default().to_owned();
        lacks_quic.then_some(ServerError::NoQuic { name, version })
    }

    /// A program by its name.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        find(name, &self.search)
    }

    /// A program by its name, or by a name with a version behind it: `php-fpm8.2`.
    pub fn find_beginning(&self, name: &str) -> Option<PathBuf> {
        self.find(name).or_else(|| {
            let is_version = |rest: &str| {
                !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            };
            let files = self.search.iter().filter_map(|directory| directory.read_dir().ok());
            let mut paths = files.flatten().filter_map(|file| Some(file.ok()?.path()));
            paths.find(|path| {
                let own = path.file_name().and_then(|own| own.to_str()).unwrap_or_default();
                own.strip_prefix(name).is_some_and(is_version)
            })
        })
    }

    /// Version of nginx, as it reports it: `1.22.1`.
    pub fn nginx_version(&self) -> Option<String> {
        nginx_version(self.nginx.as_deref()?)
    }

    /// The words that run nginx by a configuration in a directory, with its errors on standard
    /// error.
    pub fn nginx_words(
        &self,
        directory: &Path,
        configuration: PathBuf,
    ) -> Result<Vec<PathBuf>, ServerError> {
        let nginx = self.nginx.clone().ok_or(ServerError::NotInstalled("nginx"))?;
        let errors = nginx_first_errors(&nginx, "stderr").into_iter().map(PathBuf::from);
        let rest = ["-p".into(), directory.to_owned(), "-c".into(), configuration];
        Ok([nginx].into_iter().chain(errors).chain(rest).collect())
    }

    /// Where nginx keeps its modules, as it reports it.
    pub fn nginx_modules(&self) -> Option<PathBuf> {
        let text = said(self.nginx.as_deref()?, "-V")?;
        word_behind(&text, "--modules-path=").map(PathBuf::from)
    }

    /// Version of HAProxy, as it reports it: `2.6.12-1+deb12u4`.
    pub fn haproxy_version(&self) -> Option<String> {
        haproxy_version(self.haproxy.as_deref()?)
    }

    /// Versions of HAProxy on AWS-LC and of its library, as it reports them: `3.0.11, AWS-LC
    /// 5.12.0`.
    pub fn haproxy_aws_lc_version(&self) -> Option<String> {
        let Built::At(program) = &self.haproxy_aws_lc else { return None };
        let text = said(program, "-vv")?;
        let own = word_behind(&text, "ersion ")?;
        let own = own.split_once('-').map_or(own.as_str(), |(version, _)| version);
        Some(format!("{own}, AWS-LC {}", word_behind(&text, ": AWS-LC ")?))
    }
}

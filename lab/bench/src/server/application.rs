//! An application behind TLS: WordPress by PHP, its posts in MariaDB. Both run on files and Unix
//! sockets of their own; what the system has configured for either is not touched.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Pid, User, geteuid};

use super::process::Process;
use super::testbed::{self, write};
use super::{ServerError, plain};
use crate::programs::Programs;

/// Where Debian keeps WordPress, and a theme, without which pages are empty.
const WORDPRESS: &str = "/usr/share/wordpress";
const THEMES: &str = "/usr/share/wordpress/wp-content/themes";

/// The user that PHP and MariaDB run as if we are root.
const NOBODY: &str = "nobody";

/// Processes of PHP.
const CHILDREN: u32 = 4;

/// Programs that the application needs.
struct Parts {
    php: PathBuf,
    php_fpm: PathBuf,
    mariadbd: PathBuf,
    mariadb_install_db: PathBuf,
}

/// The application at work.
pub struct Application {
    /// The script that answers every request.
    script: PathBuf,
    /// Where PHP listens.
    socket: PathBuf,
    // Dropped first.
    php: Process,
    database: Process,
}

impl Application {
    /// What is missing for it on this machine, if anything.
    pub fn missing(programs: &Programs) -> Option<&'static str> {
        Parts::find(programs).err()
    }

    /// Sets it up in `directory` and starts it, pinned to `cpus`.
    pub fn start(
        programs: &Programs,
        directory: &Path,
        cpus: &[usize],
    ) -> Result<Self, ServerError> {
        let parts = Parts::find(programs).map_err(ServerError::NoApplication)?;
        let failed = |source| ServerError::Directory { path: directory.to_owned(), source };
        fs::create_dir(directory).map_err(failed)?;
        fs::set_permissions(directory, Permissions::from_mode(0o711)).map_err(failed)?;
        let site = directory.join("site");
        prepare(Command::new("cp").args(["--recursive", "--dereference", WORDPRESS]).arg(&site))?;

        // Pages run as a user with few rights, whatever a request makes them do.
        let nobody = nobody()?;
        let run = directory.join("run");
        fs::create_dir(&run).map_err(failed)?;
        fs::set_permissions(&run, Permissions::from_mode(0o711)).map_err(failed)?;
        if let Some((user, group)) = nobody {
            chown(&run, Some(user), Some(group)).map_err(failed)?;
        }
        let command = |program: &Path| {
            let mut command = plain::command(&[program.to_owned()]);
            if let Some((user, group)) = nobody {
                command.uid(user).gid(group);
            }
            command
        };

        let data = run.join("data");
        let database_socket = data.join("socket");
        prepare(
            command(&parts.mariadb_install_db)
                .args(["--no-defaults", "--auth-root-authentication-method=normal"])
                .arg("--skip-test-db")
                .arg(format!("--datadir={}", data.display())),
        )?;
        let mut database = command(&parts.mariadbd);
        database
            .args(["--no-defaults", "--skip-networking", "--skip-log-bin"])
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", database_socket.display()))
            .arg(format!("--pid-file={}", data.join("pid").display()));
        let database = launch("mariadbd", database, cpus, &database_socket, directory)?;

        write(&site.join("wp-config.php"), &settings(&database_socket))?;
        let installation = directory.join("install.php");
        write(&installation, INSTALLATION)?;
        prepare(command(&parts.php).arg(&installation).arg(&site).arg(&database_socket))?;

        let socket = run.join("php");
        let pool = directory.join("php-fpm.conf");
        write(&pool, &pool_of(&run, &socket))?;
        let mut php = command(&parts.php_fpm);
        php.arg("--nodaemonize").arg("--fpm-config").arg(&pool);
        let php = launch("php-fpm", php, cpus, &socket, directory)?;
        Ok(Application { script: site.join("index.php"), socket, php, database })
    }

    /// The first processes of its parts.
    pub fn pids(&self) -> [Pid; 2] {
        [self.php.pid(), self.database.pid()]
    }

    /// What nginx does with a request.
    pub fn location(&self) -> String {
        let (socket, script) = (self.socket.display(), self.script.display());
        let parameters = [
            ("SCRIPT_FILENAME", script.to_string()),
            ("SCRIPT_NAME", "/index.php".to_owned()),
            ("REQUEST_METHOD", "$request_method".to_owned()),
            ("REQUEST_URI", "$request_uri".to_owned()),
            ("QUERY_STRING", "$query_string".to_owned()),
            ("SERVER_PROTOCOL", "$server_protocol".to_owned()),
            ("SERVER_NAME", "$host".to_owned()),
            ("HTTPS", "on".to_owned()),
        ];
        let parameters =
            parameters.map(|(name, value)| format!(" fastcgi_param {name} \"{value}\";")).concat();
        format!("fastcgi_pass \"unix:{socket}\";{parameters}")
    }
}

impl Parts {
    /// Finds them, or names the first that is missing.
    fn find(programs: &Programs) -> Result<Self, &'static str> {
        let has_theme = fs::read_dir(THEMES).is_ok_and(|mut themes| themes.next().is_some());
        for (is_there, what) in
            [(Path::new(WORDPRESS).is_dir(), "WordPress"), (has_theme, "a theme of WordPress")]
        {
            if !is_there {
                return Err(what);
            }
        }
        let find = |name| programs.find_beginning(name).ok_or(name);
        Ok(Parts {
            php: find("php")?,
            php_fpm: find("php-fpm")?,
            mariadbd: find("mariadbd")?,
            mariadb_install_db: find("mariadb-install-db")?,
        })
    }
}

/// Carries out a step that comes before the application starts.
fn prepare(step: &mut Command) -> Result<(), ServerError> {
    testbed::run(step, |program, output| ServerError::NotPrepared { program, output })
}

/// Starts a part and waits until it listens.
fn launch(
    name: &'static str,
    command: Command,
    cpus: &[usize],
    socket: &Path,
    directory: &Path,
) -> Result<Process, ServerError> {
    let log = directory.join(format!("{name}.log"));
    let mut process = Process::start(command, cpus, log)
        .map_err(|source| ServerError::Start { program: name.to_owned(), source })?;
    process.wait_to_listen(name, socket.display(), || UnixStream::connect(socket).is_ok())?;
    Ok(process)
}

/// The settings of WordPress: this database, no calls to the world, no chores beside requests.
fn settings(database_socket: &Path) -> String {
    format!(
        "<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:{}');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('WP_HOME', 'https://localhost');
define('WP_SITEURL', 'https://localhost');
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('DISABLE_WP_CRON', true);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
",
        database_socket.display()
    )
}

/// Fills the database: arguments are the site and the socket. The password is random, and
/// discarded.
const INSTALLATION: &str = "<?php
[, $site, $socket] = $argv;
$database = new mysqli('localhost', 'root', '', '', 0, $socket);
$database->query('CREATE DATABASE wordpress CHARACTER SET utf8mb4');
$_SERVER['HTTP_HOST'] = 'localhost';
$_SERVER['REQUEST_METHOD'] = 'GET';
$_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1';
define('WP_INSTALLING', true);
function wp_mail() { return true; }
require $site . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Widelane', 'nobody', 'nobody@localhost.invalid', false, '', bin2hex(random_bytes(32)));
for ($post = 0; $post < 10; $post++) {
    wp_insert_post([
        'post_title' => \"Post $post\",
        'post_content' => str_repeat('<p>The clock of a core follows its work.</p>', 40),
        'post_status' => 'publish',
    ]);
}
";

/// How PHP serves.
fn pool_of(run: &Path, socket: &Path) -> String {
    format!(
        "[global]
error_log = {}
[wordpress]
listen = {}
listen.mode = 0666
pm = static
pm.max_children = {CHILDREN}
",
        run.join("php.log").display(),
        socket.display()
    )
}

/// The user and the group that the parts run as if we are root.
fn nobody() -> Result<Option<(u32, u32)>, ServerError> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let user = User::from_name(NOBODY).ok().flatten();
    let user = user.ok_or(ServerError::NoApplication("the user nobody"))?;
    Ok(Some((user.uid.as_raw(), user.gid.as_raw())))
}

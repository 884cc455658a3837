//! Programs with an interpreter that cannot run on a fibre.
//!
//! A handshake calls the program's callbacks on the stack that it runs on. Some interpreters
//! compare the stack's address with the bounds of the thread's own, to find an overflow (QuickJS,
//! Python 3.14.0), or scan everything between the two for references to objects (Ruby). On a fibre
//! the first fail and the second read memory that is not there. Handshakes that may call them are
//! left alone.

use core::ffi::{CStr, c_ulong};
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use crate::notice::{Notice, say_once};
use crate::real::{self, CertificateCallback};

/// Whether the program chooses certificates by a callback, for whatever connection: which virtual
/// server it is for is not known before the handshake runs.
static HAS_CALLBACK: AtomicBool = AtomicBool::new(false);

/// nginx's modules for JavaScript. Their engine may be QuickJS, and a handshake calls it where the
/// name of a certificate contains a variable that it computes, by a callback of nginx.
const NGINX_MODULES: [&CStr; 2] = [c"ngx_http_js_module", c"ngx_stream_js_module"];

/// Python 3.14.0 and its pre-releases end the process where the stack is below the thread's own;
/// 3.14.1 takes that for a stack that it does not know.
const PYTHON_3_14_0: RangeInclusive<c_ulong> = 0x030e_0000..=0x030e_00f0;

/// Called when the program sets a callback that chooses certificates.
pub(crate) fn note_callback(callback: CertificateCallback) {
    if callback.is_some() {
        HAS_CALLBACK.store(true, Ordering::Relaxed);
    }
}

/// Whether callbacks of this program must find themselves on the thread's own stack; then says so.
pub(crate) fn need_own_stack() -> bool {
    static INTERPRETER: OnceLock<Interpreter> = OnceLock::new();
    match INTERPRETER.get_or_init(Interpreter::find) {
        Interpreter::None => return false,
        Interpreter::JavaScript if !HAS_CALLBACK.load(Ordering::Relaxed) => return false,
        Interpreter::JavaScript => say_once(
            Notice::OwnStack,
            "this nginx may compute names of certificates in JavaScript, which needs the thread's \
             own stack; its handshakes are not batched by its event loop",
        ),
        Interpreter::Ruby => say_once(
            Notice::OwnStack,
            "this program contains Ruby, which needs the thread's own stack; its handshakes are \
             not batched by its event loop",
        ),
        Interpreter::Python => say_once(
            Notice::OwnStack,
            "this program contains Python 3.14.0, which needs the thread's own stack; its \
             handshakes are not batched by its event loop (from 3.14.1 on they are)",
        ),
    }
    true
}

#[derive(Clone, Copy)]
enum Interpreter {
    None,
    JavaScript,
    Python,
    Ruby,
}

impl Interpreter {
    fn find() -> Self {
        if real::is_defined(c"ruby_init_stack") {
            Self::Ruby
        } else if real::python_version().is_some_and(|known| PYTHON_3_14_0.contains(&known)) {
            Self::Python
        } else if NGINX_MODULES.into_iter().any(real::is_defined) {
            Self::JavaScript
        } else {
            Self::None
        }
    }
}

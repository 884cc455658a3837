//! Programs that use the provider, above all `openssl`, and the provider's own emitted code.

mod command_line;
#[path = "../common/mod.rs"]
mod common;
mod curves_command_line;
mod peers;
mod raised_privileges;
mod stack_frames;

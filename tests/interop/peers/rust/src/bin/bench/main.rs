//! The benchmark's programs on the official Rust SDK: `bench agent` and `bench client SCENARIO COUNT -- AGENT...`.
//!
//! They are set up as the SDK's documentation does it (`Stdio`, `AcpAgent`, tokio's default runtime), or with `BENCH_RUST=tuned`
//! in the environment in the fastest way found: one thread, and pipes that tokio itself reads and writes.

mod agent;
mod client;
mod pipes;

use tokio::runtime::Builder;

/// Whether the fastest way found is asked for.
pub fn is_tuned() -> bool {
    std::env::var("BENCH_RUST").is_ok_and(|value| value == "tuned")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = if is_tuned() { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let runtime = builder.enable_all().build()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("agent") => runtime.block_on(agent::serve()),
        Some("client") => runtime.block_on(client::play(&arguments[1..])),
        part => Err(format!("received the part {part:?}, expected agent or client").into()),
    }
}

//! The peers made with the official Rust SDK: one program, whose first argument is the part it plays.

mod agent;
mod agent_v2;
mod asking;
mod client;
mod client_v2;
#[cfg(feature = "remote")]
mod network;

use agent_client_protocol::Error;
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let part = std::env::args().nth(1).unwrap_or_default();
    match part.as_str() {
        "client" => client::play_all().await,
        "agent" => agent::serve().await,
        "client_v2" => client_v2::play().await,
        "agent_v2" => agent_v2::serve().await,
        _ => Err(format!("received the part {part:?}, expected client or agent, or one of these with _v2").into()),
    }
}

/// Convert what was built by hand, or read, to a type of the SDK.
pub fn typed<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Error> {
    Ok(serde_json::from_value(value)?)
}

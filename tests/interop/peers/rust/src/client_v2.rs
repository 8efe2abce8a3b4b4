//! A client of version 2, in front of our built-in agent: prints what it saw, as JSON.

use std::sync::{Arc, Mutex};

use agent_client_protocol::v2::ConnectionTo;
use agent_client_protocol::v2::schema::*;
use agent_client_protocol::{
    AcpAgent, AcpAgentConfig, Agent, Client, Error, JsonRpcRequest, on_receive_notification, on_receive_request,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::typed;

pub async fn play() -> Result<(), Box<dyn std::error::Error>> {
    let play: Value = serde_json::from_str(&std::env::args().nth(2).unwrap_or_default())?;
    let command: Vec<String> = serde_json::from_value(play["command"].clone())?;
    let agent = AcpAgent::new(AcpAgentConfig::new(&command[0]).args(&command[1..]));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (heard, mut updates) = unbounded_channel();
    let asking = asked.clone();
    let app = Client.v2().on_receive_notification(
        async move |params: UpdateSessionNotification, _agent: ConnectionTo<Agent>| {
            let _ = heard.send(serde_json::to_value(&params.update)?);
            Ok(())
        },
        on_receive_notification!(),
    );
    let app = app.on_receive_request(
        async move |params: RequestPermissionRequest, responder, _agent: ConnectionTo<Agent>| {
            let params = serde_json::to_value(&params)?;
            let options = params["options"].as_array().cloned().unwrap_or_default();
            let chosen = options.iter().find(|option| option["kind"] == "allow_once").cloned().unwrap_or_default();
            asking.lock().unwrap().push(params);
            responder.respond(typed(json!({"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}}))?)
        },
        on_receive_request!(),
    );
    let mut seen = app.connect_with(agent, async |agent: ConnectionTo<Agent>| visit(&agent, &play, &mut updates).await).await?;
    seen["asked"] = json!(*asked.lock().unwrap());
    println!("{seen}");
    Ok(())
}

async fn visit(
    agent: &ConnectionTo<Agent>,
    play: &Value,
    updates: &mut UnboundedReceiver<Value>,
) -> Result<Value, Error> {
    let info = json!({"name": "interop", "version": "2"});
    let hello = ask::<InitializeRequest>(agent, json!({"protocolVersion": 2, "info": info, "capabilities": {}})).await?;
    let opened = ask::<NewSessionRequest>(agent, json!({"cwd": play["cwd"], "mcpServers": []})).await?;
    let id = &opened["sessionId"];
    let mut turns = Vec::new();
    for step in play["steps"].as_array().into_iter().flatten() {
        turns.push(turn(agent, id, step, updates).await?);
    }
    let changing = json!({"sessionId": id, "configId": "mode", "type": "id", "value": "code"});
    let changed = ask::<SetSessionConfigOptionRequest>(agent, changing).await?;
    let listed = ask::<ListSessionsRequest>(agent, json!({})).await?;
    ask::<CloseSessionRequest>(agent, json!({"sessionId": id})).await?;
    Ok(json!({"hello": hello, "opened": opened, "turns": turns, "changed": changed, "sessions": listed["sessions"]}))
}

async fn turn(
    agent: &ConnectionTo<Agent>,
    id: &Value,
    step: &Value,
    updates: &mut UnboundedReceiver<Value>,
) -> Result<Value, Error> {
    let prompt = json!({"sessionId": id, "prompt": [{"type": "text", "text": step[0]}]});
    let result = ask::<PromptRequest>(agent, prompt).await?;
    let (mut heard, mut cancel_at, mut is_running) = (Vec::new(), step[1].as_str(), false);
    let mut seen = json!({"result": result});
    while let Some(update) = updates.recv().await {
        heard.push(update.clone());
        let kind = update["sessionUpdate"].as_str();
        is_running |= update["state"] == "running";
        if is_running && update["state"] == "idle" {
            seen["stopReason"] = update["stopReason"].clone();
            seen["error"] = update["error"].clone();
            break;
        }
        if cancel_at == Some("terminal/cancel") && kind == Some("terminal_output_chunk") {
            let terminal = &update["terminalId"];
            let offers = |each: &Value| each["terminalId"] == *terminal && each["capabilities"]["cancel"].is_object();
            seen["wasCancellable"] = json!(heard.iter().any(offers));
            ask::<CancelTerminalRequest>(agent, json!({"sessionId": id, "terminalId": terminal})).await?;
            cancel_at = None;
        } else if cancel_at.is_some() && cancel_at == kind {
            agent.send_notification(typed::<CancelSessionNotification>(json!({"sessionId": id}))?)?;
            cancel_at = None;
        }
    }
    seen["updates"] = json!(heard);
    Ok(seen)
}

async fn ask<R>(agent: &ConnectionTo<Agent>, params: Value) -> Result<Value, Error>
where
    R: JsonRpcRequest + serde::de::DeserializeOwned,
    R::Response: serde::Serialize,
{
    let answer = agent.send_request(typed::<R>(params)?).block_task().await?;
    Ok(serde_json::to_value(answer)?)
}

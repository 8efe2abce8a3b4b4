//! The parts that need an answer from the client.

use agent_client_protocol::v1::schema::*;
use agent_client_protocol::{Error, JsonRpcRequest, UntypedMessage};
use serde_json::{Value, json};

use crate::agent::Turn;
use crate::typed;

/// Play one part, and say what the client answered.
pub async fn ask(turn: &Turn, word: &str, rest: &str) -> Result<String, Error> {
    let id = &turn.session.id;
    match word {
        "permission" => permission(turn).await,
        "read" => {
            let params = json!({"sessionId": id, "path": rest, "line": 2, "limit": 1});
            Ok(string(&request::<ReadTextFileRequest>(turn, params).await?["content"]))
        }
        "write" => {
            let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
            request::<WriteTextFileRequest>(turn, json!({"sessionId": id, "path": path, "content": content})).await?;
            Ok("written".into())
        }
        "run" => run(turn, rest).await,
        "kill" => kill(turn).await,
        "form" => form(turn).await,
        "url" => url(turn).await,
        "ping" => {
            let ping = UntypedMessage::new("_interop/ping", json!({"greeting": "hello"}))?;
            Ok(turn.client.send_request(ping).block_task().await?.to_string())
        }
        _ => Err(Error::invalid_params().data(json!({"received": word}))),
    }
}

async fn request<R>(turn: &Turn, params: Value) -> Result<Value, Error>
where
    R: JsonRpcRequest + serde::de::DeserializeOwned,
    R::Response: serde::Serialize,
{
    let answer = turn.client.send_request(typed::<R>(params)?).block_task().await?;
    Ok(serde_json::to_value(answer)?)
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

async fn permission(turn: &Turn) -> Result<String, Error> {
    let kinds = ["allow_once", "allow_always", "reject_once", "reject_always"];
    let options = kinds.map(|kind| json!({"optionId": format!("id-{kind}"), "name": kind, "kind": kind}));
    let call = json!({"toolCallId": "call-1", "title": "Something", "kind": "other", "status": "pending"});
    let params = json!({"sessionId": turn.session.id, "toolCall": call, "options": options});
    let outcome = &request::<RequestPermissionRequest>(turn, params).await?["outcome"];
    Ok(string(outcome.get("optionId").unwrap_or(&outcome["outcome"])))
}

async fn run(turn: &Turn, line: &str) -> Result<String, Error> {
    let words: Vec<&str> = line.split(' ').collect();
    let params = json!({"sessionId": turn.session.id, "command": words[0], "args": words[1..]});
    let terminal = request::<CreateTerminalRequest>(turn, params).await?["terminalId"].clone();
    let here = json!({"sessionId": turn.session.id, "terminalId": terminal});
    turn.tell(json!({"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": line, "kind": "execute",
        "content": [{"type": "terminal", "terminalId": terminal}]}))?;
    let ended = request::<WaitForTerminalExitRequest>(turn, here.clone()).await?;
    let shown = request::<TerminalOutputRequest>(turn, here.clone()).await?;
    request::<ReleaseTerminalRequest>(turn, here).await?;
    Ok(format!("{}: {}", ended["exitCode"], string(&shown["output"])))
}

async fn kill(turn: &Turn) -> Result<String, Error> {
    let params = json!({"sessionId": turn.session.id, "command": "sleep", "args": ["600"]});
    let terminal = request::<CreateTerminalRequest>(turn, params).await?["terminalId"].clone();
    let here = json!({"sessionId": turn.session.id, "terminalId": terminal});
    request::<KillTerminalRequest>(turn, here.clone()).await?;
    let ended = request::<WaitForTerminalExitRequest>(turn, here.clone()).await?;
    request::<ReleaseTerminalRequest>(turn, here).await?;
    Ok(string(&ended["signal"]))
}

async fn form(turn: &Turn) -> Result<String, Error> {
    let fields = json!({"name": {"type": "string"}, "count": {"type": "integer", "minimum": 1}});
    let schema = json!({"type": "object", "properties": fields, "required": ["name"]});
    let params = json!({"sessionId": turn.session.id, "mode": "form", "message": "Which one?", "requestedSchema": schema});
    let answer = request::<CreateElicitationRequest>(turn, params).await?;
    Ok(json!([answer["action"], answer["content"]]).to_string())
}

async fn url(turn: &Turn) -> Result<String, Error> {
    let params = json!({"sessionId": turn.session.id, "mode": "url", "message": "Go there",
        "url": "https://example.com/login", "elicitationId": "visit-1"});
    let answer = request::<CreateElicitationRequest>(turn, params).await?;
    let done = json!({"elicitationId": "visit-1"});
    turn.client.send_notification(typed::<CompleteElicitationNotification>(done)?)?;
    Ok(string(&answer["action"]))
}

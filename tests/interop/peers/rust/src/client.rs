//! A client. Each line it reads is a play: an agent to start, or its address, and steps to do. Each line it prints is what
//! it saw of one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use agent_client_protocol::v1::schema::*;
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    AcpAgent, AcpAgentConfig, Agent, Client, ConnectTo, Error, JsonRpcRequest, UntypedMessage, on_receive_notification,
    on_receive_request,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::typed;

/// What a client has seen so far, and how it answers.
#[derive(Default)]
struct Seen {
    steps: Vec<Value>,
    asked: Vec<Value>,
    updates: Vec<Value>,
    said: HashMap<String, String>,
    answers: Value,
    cancel_at: Option<String>,
    session_id: String,
}

#[derive(Clone)]
struct Player {
    play: Arc<Value>,
    seen: Arc<Mutex<Seen>>,
}

pub async fn play_all() -> Result<(), Box<dyn std::error::Error>> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let play: Value = serde_json::from_str(&line)?;
        let seen = Seen { answers: play["answers"].clone(), ..Seen::default() };
        let player = Player { play: Arc::new(play), seen: Arc::new(Mutex::new(seen)) };
        println!("{}", player.perform().await?);
    }
    Ok(())
}

/// Register the answer to one kind of request, which is kept among those that were asked.
macro_rules! answer {
    ($app:expr, $player:expr, $method:literal, $request:ty, |$seen:ident, $params:ident| $answer:expr) => {{
        let player = $player.clone();
        $app.on_receive_request(
            async move |request: $request, responder, _connection: ConnectionTo<Agent>| {
                let $params = serde_json::to_value(&request)?;
                player.heard($method, &$params);
                let $seen = player.seen();
                responder.respond(typed($answer)?)
            },
            on_receive_request!(),
        )
    }};
}

impl Player {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    fn heard(&self, method: &str, params: &Value) {
        self.seen().asked.push(json!({"method": method, "params": params}));
    }

    async fn perform(&self) -> Result<Value, Box<dyn std::error::Error>> {
        if let Some(url) = self.play["url"].as_str() {
            self.reach(url).await?;
        } else {
            let command: Vec<String> = serde_json::from_value(self.play["command"].clone())?;
            let config = AcpAgentConfig::new(&command[0]).args(&command[1..]);
            self.connect(AcpAgent::new(config)).await?;
        }
        let seen = self.seen();
        Ok(json!({"steps": seen.steps, "asked": seen.asked}))
    }

    #[cfg(feature = "remote")]
    async fn reach(&self, url: &str) -> Result<(), Box<dyn std::error::Error>> {
        let headers: HashMap<String, String> = serde_json::from_value(self.play["headers"].clone())?;
        if let Err(error) = self.connect(crate::network::dial(url, &headers)?).await {
            // The way to the agent is closed: what should have come next failed.
            self.seen().steps.push(json!({"updates": [], "error": {"message": format!("{error:?}")}}));
        }
        Ok(())
    }

    #[cfg(not(feature = "remote"))]
    async fn reach(&self, _url: &str) -> Result<(), Box<dyn std::error::Error>> {
        Err("this program was built without its ways over the network".into())
    }

    async fn connect(&self, agent: impl ConnectTo<Client>) -> Result<(), Error> {
        let (updating, permitting, pinging, watching) = (self.clone(), self.clone(), self.clone(), self.clone());
        let app = Client.v1().on_receive_notification(
            async move |params: SessionNotification, connection: ConnectionTo<Agent>| updating.update(params, &connection),
            on_receive_notification!(),
        );
        let app = app.on_receive_notification(
            async move |params: CompleteElicitationNotification, _connection: ConnectionTo<Agent>| {
                watching.heard("elicitation/complete", &serde_json::to_value(params)?);
                Ok(())
            },
            on_receive_notification!(),
        );
        let app = app.on_receive_request(
            async move |params: RequestPermissionRequest, responder, connection: ConnectionTo<Agent>| {
                permitting.permit(params, responder, &connection)
            },
            on_receive_request!(),
        );
        let app = answer!(app, self, "fs/read_text_file", ReadTextFileRequest, |seen, params| {
            let path = params["path"].as_str().unwrap_or_default();
            json!({"content": seen.answers["files"][path].as_str().unwrap_or_default()})
        });
        let app = answer!(app, self, "fs/write_text_file", WriteTextFileRequest, |_seen, _params| json!({}));
        let app = answer!(app, self, "terminal/create", CreateTerminalRequest, |_seen, _params| {
            json!({"terminalId": "terminal-1"})
        });
        let app = answer!(app, self, "terminal/output", TerminalOutputRequest, |seen, _params| {
            seen.answers["terminal"]["output"].clone()
        });
        let app = answer!(app, self, "terminal/wait_for_exit", WaitForTerminalExitRequest, |seen, _params| {
            seen.answers["terminal"]["exit"].clone()
        });
        let app = answer!(app, self, "terminal/kill", KillTerminalRequest, |_seen, _params| json!({}));
        let app = answer!(app, self, "terminal/release", ReleaseTerminalRequest, |_seen, _params| json!({}));
        let app = answer!(app, self, "elicitation/create", CreateElicitationRequest, |seen, _params| {
            seen.answers["elicitation"].clone()
        });
        let watching = self.clone();
        let app = app.on_receive_request(
            async move |request: UntypedMessage, responder: Responder<Value>, _connection: ConnectionTo<Agent>| {
                if request.method != "_duologue.example/ping" {
                    return responder.respond_with_error(Error::method_not_found());
                }
                pinging.heard(&request.method, &request.params);
                responder.respond(json!({"pong": true}))
            },
            on_receive_request!(),
        );
        // What a transport should keep to itself would show among what the agent asked.
        let app = app.on_receive_notification(
            async move |params: UntypedMessage, _connection: ConnectionTo<Agent>| {
                if params.method.starts_with("_duologue/") {
                    watching.heard(&params.method, &params.params);
                }
                Ok(())
            },
            on_receive_notification!(),
        );
        app.connect_with(agent, async |connection: ConnectionTo<Agent>| self.play(&connection).await).await
    }

    fn update(&self, params: SessionNotification, connection: &ConnectionTo<Agent>) -> Result<(), Error> {
        let update = serde_json::to_value(&params.update)?;
        let mut seen = self.seen();
        if let Some(text) = update["content"]["text"].as_str() {
            *seen.said.entry(params.session_id.to_string()).or_default() += text;
        }
        let is_time = seen.cancel_at.is_some() && seen.cancel_at.as_deref() == update["sessionUpdate"].as_str();
        seen.updates.push(update);
        if is_time {
            seen.cancel_at = None;
            connection.send_notification(CancelNotification::new(seen.session_id.clone()))?;
        }
        Ok(())
    }

    fn permit(
        &self,
        params: RequestPermissionRequest,
        responder: Responder<RequestPermissionResponse>,
        connection: &ConnectionTo<Agent>,
    ) -> Result<(), Error> {
        let asked = serde_json::to_value(&params)?;
        self.heard("session/request_permission", &asked);
        let seen = self.seen();
        if seen.answers["permission"] == "cancel" {
            connection.send_notification(CancelNotification::new(seen.session_id.clone()))?;
            return responder.respond(RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled));
        }
        let options = asked["options"].as_array().cloned().unwrap_or_default();
        let chosen = options.iter().find(|option| option["kind"] == seen.answers["permission"]);
        let option_id = chosen.map(|option| option["optionId"].clone()).unwrap_or_default();
        responder.respond(typed(json!({"outcome": {"outcome": "selected", "optionId": option_id}}))?)
    }

    async fn play(&self, agent: &ConnectionTo<Agent>) -> Result<(), Error> {
        for step in self.play["steps"].as_array().into_iter().flatten() {
            self.seen().updates.clear();
            let answer = self.step(agent, step).await;
            let mut seen = self.seen();
            let updates = std::mem::take(&mut seen.updates);
            seen.steps.push(match answer {
                Ok(result) => json!({"updates": updates, "result": result}),
                Err(error) => json!({"updates": updates, "error": error}),
            });
        }
        Ok(())
    }

    async fn step(&self, agent: &ConnectionTo<Agent>, step: &Value) -> Result<Value, Error> {
        let (verb, first, second) = (step[0].as_str().unwrap_or_default(), &step[1], &step[2]);
        let (id, cwd) = (self.seen().session_id.clone(), &self.play["cwd"]);
        let here = json!({"sessionId": id});
        let again = json!({"sessionId": id, "cwd": cwd, "mcpServers": []});
        let capabilities = &self.play["capabilities"];
        match verb {
            "answer" => {
                let mut seen = self.seen();
                for (name, answer) in first.as_object().into_iter().flatten() {
                    seen.answers[name] = answer.clone();
                }
                Ok(json!({}))
            }
            "initialize" => {
                let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
                ask::<InitializeRequest>(agent, params).await
            }
            "authenticate" => ask::<AuthenticateRequest>(agent, json!({"methodId": first})).await,
            "new" => {
                let opened = ask::<NewSessionRequest>(agent, json!({"cwd": cwd, "mcpServers": []})).await?;
                self.seen().session_id = opened["sessionId"].as_str().unwrap_or_default().into();
                Ok(opened)
            }
            "prompt" => {
                self.seen().cancel_at = second["cancelAt"].as_str().map(String::from);
                ask::<PromptRequest>(agent, prompt(second["sessionId"].as_str().unwrap_or(&id), first)).await
            }
            "parallel" => self.parallel(agent, first.as_u64().unwrap_or_default(), second).await,
            "load" => ask::<LoadSessionRequest>(agent, again).await,
            "resume" => ask::<ResumeSessionRequest>(agent, again).await,
            "list" => ask::<ListSessionsRequest>(agent, json!({"cwd": cwd})).await,
            "close" => ask::<CloseSessionRequest>(agent, here).await,
            "delete" => ask::<DeleteSessionRequest>(agent, here).await,
            "set_mode" => ask::<SetSessionModeRequest>(agent, json!({"sessionId": id, "modeId": first})).await,
            "set_config" => {
                let mut params = json!({"sessionId": id, "configId": first, "value": second});
                if second.is_boolean() {
                    params["type"] = json!("boolean");
                }
                ask::<SetSessionConfigOptionRequest>(agent, params).await
            }
            "extension" => {
                let request = UntypedMessage::new(&format!("_{}", first.as_str().unwrap_or_default()), second)?;
                agent.send_request(request).block_task().await
            }
            _ => Err(Error::new(-32603, format!("the Rust client has no verb {verb:?}"))),
        }
    }

    /// Open many sessions and prompt them all at once.
    async fn parallel(&self, agent: &ConnectionTo<Agent>, count: u64, text: &Value) -> Result<Value, Error> {
        let mut opening = Vec::new();
        for _ in 0..count {
            let request: NewSessionRequest = typed(json!({"cwd": self.play["cwd"], "mcpServers": []}))?;
            opening.push(agent.send_request(request));
        }
        let (mut ids, mut turns) = (Vec::new(), Vec::new());
        for each in opening {
            ids.push(each.block_task().await?.session_id.to_string());
        }
        for id in &ids {
            turns.push(agent.send_request(typed::<PromptRequest>(prompt(id, text))?));
        }
        for turn in turns {
            turn.block_task().await?;
        }
        let seen = self.seen();
        Ok(json!({"said": ids.iter().map(|id| seen.said.get(id)).collect::<Vec<_>>()}))
    }
}

fn prompt(id: &str, text: &Value) -> Value {
    json!({"sessionId": id, "prompt": [{"type": "text", "text": text}]})
}

async fn ask<R>(agent: &ConnectionTo<Agent>, params: Value) -> Result<Value, Error>
where
    R: JsonRpcRequest + serde::de::DeserializeOwned,
    R::Response: serde::Serialize,
{
    let answer = agent.send_request(typed::<R>(params)?).block_task().await?;
    Ok(serde_json::to_value(answer)?)
}

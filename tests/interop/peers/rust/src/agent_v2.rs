//! An agent of version 2: the first word of a prompt says which part of the protocol it shows.

use std::sync::{Arc, Mutex, MutexGuard};

use agent_client_protocol::v2::ConnectionTo;
use agent_client_protocol::v2::schema::*;
use agent_client_protocol::{Agent, Client, Error, Stdio, on_receive_notification, on_receive_request};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::typed;

/// What the agent keeps of one session.
#[derive(Clone)]
struct Session {
    id: String,
    cwd: Value,
    mode: String,
    count: usize,
    said: Vec<Value>,
    cancelled: Arc<Notify>,
}

impl Session {
    fn config_options(&self) -> Value {
        let options = ["ask", "code"].map(|value| json!({"value": value, "name": value}));
        json!([{"configId": "m", "name": "Mode", "type": "select", "category": "mode", "currentValue": self.mode,
            "options": options}])
    }
}

#[derive(Clone, Default)]
struct Desk {
    sessions: Arc<Mutex<Vec<Session>>>,
}

/// Register the answer to one kind of request.
macro_rules! answer {
    ($app:expr, $desk:expr, $request:ty, |$here:ident, $params:ident, $client:ident| $answer:expr) => {{
        let $here = $desk.clone();
        $app.on_receive_request(
            async move |$params: $request, responder, $client: ConnectionTo<Client>| {
                let _ = &$client;
                let answer: Result<Value, Error> = (|| $answer)();
                responder.respond_with_result(answer.and_then(typed))
            },
            on_receive_request!(),
        )
    }};
}

pub async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let desk = Desk::default();
    let app = answer!(Agent.v2(), desk, InitializeRequest, |_desk, _params, _client| {
        let info = json!({"name": "interop", "version": "2"});
        Ok(json!({"protocolVersion": 2, "info": info, "capabilities": {"session": {"delete": {}}}}))
    });
    let app = answer!(app, desk, NewSessionRequest, |desk, params, _client| desk.open(&serde_json::to_value(&params)?));
    let app = answer!(app, desk, ResumeSessionRequest, |desk, params, client| {
        let session = desk.with(&params.session_id.0, |session| session.clone())?;
        if params.replay_from.is_some() {
            session.said.iter().try_for_each(|update| notify(&client, &session.id, update.clone()))?;
        }
        notify(&client, &session.id, json!({"sessionUpdate": "state_update", "state": "idle"}))?;
        Ok(json!({"configOptions": session.config_options()}))
    });
    let app = answer!(app, desk, ListSessionsRequest, |desk, _params, _client| {
        let describe = |each: &Session| json!({"sessionId": each.id, "cwd": each.cwd});
        Ok(json!({"sessions": desk.sessions().iter().map(describe).collect::<Vec<_>>()}))
    });
    let app = answer!(app, desk, CloseSessionRequest, |_desk, _params, _client| Ok(json!({})));
    let app = answer!(app, desk, DeleteSessionRequest, |desk, params, _client| {
        desk.sessions().retain(|each| each.id != *params.session_id.0);
        Ok(json!({}))
    });
    let app = answer!(app, desk, SetSessionConfigOptionRequest, |desk, params, _client| {
        let given = serde_json::to_value(&params)?;
        desk.with(&params.session_id.0, |session| {
            session.mode = given["value"].as_str().unwrap_or_default().into();
            json!({"configOptions": session.config_options()})
        })
    });
    let prompting = desk.clone();
    let app = app.on_receive_request(
        async move |params: PromptRequest, responder, client: ConnectionTo<Client>| {
            let session = prompting.with(&params.session_id.0, |session| {
                session.count += 1;
                session.clone()
            })?;
            let message = format!("user-{}", session.count);
            responder.respond(typed(json!({"messageId": message}))?)?;
            let turn = Turn { desk: prompting.clone(), session, client: client.clone() };
            client.spawn(async move { turn.work(&serde_json::to_value(&params.prompt)?, &message).await })
        },
        on_receive_request!(),
    );
    let app = app.on_receive_notification(
        async move |params: CancelSessionNotification, _client: ConnectionTo<Client>| {
            desk.with(&params.session_id.0, |session| session.cancelled.notify_one())
        },
        on_receive_notification!(),
    );
    Ok(app.connect_to(Stdio::new()).await?)
}

impl Desk {
    fn sessions(&self) -> MutexGuard<'_, Vec<Session>> {
        self.sessions.lock().unwrap()
    }

    fn with<T>(&self, id: &str, act: impl FnOnce(&mut Session) -> T) -> Result<T, Error> {
        let mut sessions = self.sessions();
        let found = sessions.iter_mut().find(|each| each.id == id);
        Ok(act(found.ok_or_else(|| Error::new(-32002, "Resource not found"))?))
    }

    fn open(&self, params: &Value) -> Result<Value, Error> {
        let mut sessions = self.sessions();
        let session = Session {
            id: format!("session-{}", sessions.len() + 1),
            cwd: params["cwd"].clone(),
            mode: "ask".into(),
            count: 0,
            said: Vec::new(),
            cancelled: Arc::default(),
        };
        let (id, options) = (session.id.clone(), session.config_options());
        sessions.push(session);
        let commands = json!([{"type": "command", "name": "init", "description": "Begin"}]);
        Ok(json!({"sessionId": id, "configOptions": options, "availableCommands": commands}))
    }
}

/// One prompt at work.
struct Turn {
    desk: Desk,
    session: Session,
    client: ConnectionTo<Client>,
}

impl Turn {
    /// Tell the client, and remember that for the one who resumes the session.
    fn tell(&self, update: Value) -> Result<(), Error> {
        notify(&self.client, &self.session.id, update.clone())?;
        self.desk.with(&self.session.id, |session| session.said.push(update))
    }

    fn state(&self, update: Value) -> Result<(), Error> {
        let mut whole = json!({"sessionUpdate": "state_update"});
        whole.as_object_mut().expect("an object").append(&mut update.as_object().expect("an object").clone());
        notify(&self.client, &self.session.id, whole)
    }

    fn say(&self, id: &str, text: &str) -> Result<(), Error> {
        self.tell(json!({"sessionUpdate": "agent_message_chunk", "messageId": id,
            "content": {"type": "text", "text": text}}))
    }

    async fn work(&self, prompt: &Value, message: &str) -> Result<(), Error> {
        let text = prompt[0]["text"].as_str().unwrap_or_default();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        self.tell(json!({"sessionUpdate": "user_message", "messageId": message, "content": prompt}))?;
        self.state(json!({"state": "running"}))?;
        let end = self.show(word, rest).await?;
        self.state(end)
    }

    async fn show(&self, word: &str, rest: &str) -> Result<Value, Error> {
        match word {
            "echo" => {
                let (first, second) = rest.split_at(rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at));
                self.say("a", first)?;
                self.say("a", second)?;
            }
            "whole" => {
                for text in ["no", rest] {
                    let content = json!([{"type": "text", "text": text}]);
                    let id = format!("w{}", self.session.count);
                    self.tell(json!({"sessionUpdate": "agent_message", "messageId": id, "content": content}))?;
                }
            }
            "tools" => self.tools()?,
            "permission" => self.permission().await?,
            "wait" => {
                self.session.cancelled.notified().await;
                return Ok(json!({"state": "idle", "stopReason": "cancelled"}));
            }
            "fail" => {
                let error = json!({"code": -32002, "message": "gone"});
                return Ok(json!({"state": "idle", "stopReason": "error", "error": error}));
            }
            _ => {}
        }
        Ok(json!({"state": "idle", "stopReason": "end_turn"}))
    }

    fn tools(&self) -> Result<(), Error> {
        let cwd = self.session.cwd.as_str().unwrap_or_default();
        let path = format!("{cwd}/a.txt");
        let patch = format!("diff --git {path} {path}\n--- {path}\n+++ {path}\n@@ -1 +1 @@\n-old\n+new\n");
        let diff = json!({"type": "diff", "changes": [{"operation": "modify", "path": path}],
            "patch": {"format": "git_patch", "text": patch}});
        let updates = [
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "call", "title": "Edit", "kind": "edit",
                "status": "pending", "locations": [{"path": path, "line": 3}]}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "call", "status": "in_progress", "content": [diff]}),
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "call",
                "content": {"type": "terminal", "terminalId": "term"}}),
            json!({"sessionUpdate": "terminal_update", "terminalId": "term", "command": "make", "cwd": cwd}),
            json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "term", "data": "b3V0Cg=="}),
            json!({"sessionUpdate": "terminal_update", "terminalId": "term", "exitStatus": {"exitCode": 0}}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "call", "status": "completed", "locations": null}),
            json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": []}}),
            json!({"sessionUpdate": "usage_update", "used": 10, "size": 100}),
            json!({"sessionUpdate": "session_info_update", "title": "Interop"}),
        ];
        updates.into_iter().try_for_each(|update| self.tell(update))
    }

    async fn permission(&self) -> Result<(), Error> {
        self.state(json!({"state": "requires_action"}))?;
        let kinds = ["allow_once", "reject_once"];
        let options = kinds.map(|kind| json!({"optionId": format!("id-{kind}"), "name": kind, "kind": kind}));
        let subject = json!({"type": "tool_call", "toolCall": {"toolCallId": "call-1", "title": "Something"}});
        let params = json!({"sessionId": self.session.id, "title": "May I?", "options": options, "subject": subject});
        let answer = self.client.send_request(typed::<RequestPermissionRequest>(params)?).block_task().await?;
        let outcome = &serde_json::to_value(answer)?["outcome"];
        self.state(json!({"state": "running"}))?;
        self.say("p", outcome.get("optionId").unwrap_or(&outcome["outcome"]).as_str().unwrap_or_default())
    }
}

fn notify(client: &ConnectionTo<Client>, id: &str, update: Value) -> Result<(), Error> {
    client.send_notification(typed::<UpdateSessionNotification>(json!({"sessionId": id, "update": update}))?)
}

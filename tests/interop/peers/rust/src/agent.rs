//! An agent: the first word of a prompt says which part of the protocol it shows.

use std::sync::{Arc, Mutex, MutexGuard};

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::*;
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, Stdio, UntypedMessage, on_receive_notification, on_receive_request,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::asking::ask;
use crate::typed;

/// What the agent keeps of one session.
#[derive(Clone)]
pub struct Session {
    pub id: String,
    pub cwd: String,
    mode: String,
    depth: String,
    loud: bool,
    said: Vec<Value>,
    cancelled: Arc<Notify>,
}

impl Session {
    fn config_options(&self) -> Value {
        let options = ["brief", "long"].map(|value| json!({"value": value, "name": value}));
        let depth = json!({"id": "depth", "name": "Depth", "type": "select", "category": "thought_level",
            "currentValue": self.depth, "options": options});
        json!([depth, {"id": "loud", "name": "Loud", "type": "boolean", "currentValue": self.loud}])
    }

    fn state(&self) -> Value {
        let available = ["ask", "code"].map(|id| json!({"id": id, "name": id}));
        let modes = json!({"currentModeId": self.mode, "availableModes": available});
        json!({"sessionId": self.id, "modes": modes, "configOptions": self.config_options()})
    }
}

#[derive(Default)]
struct Kept {
    is_logged_in: bool,
    sessions: Vec<Session>,
}

/// The sessions, and one client.
#[derive(Clone)]
pub struct Desk {
    kept: Arc<Mutex<Kept>>,
}

pub async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let has = |option: &str| std::env::args().any(|each| each == option);
    let kept = Kept { is_logged_in: !has("--login"), ..Kept::default() };
    let desk = Desk { kept: Arc::new(Mutex::new(kept)) };
    if has("--listen") {
        return listen(desk).await;
    }
    Ok(desk.app().connect_to(Stdio::new()).await?)
}

#[cfg(feature = "remote")]
async fn listen(desk: Desk) -> Result<(), Box<dyn std::error::Error>> {
    crate::network::listen(desk).await
}

#[cfg(not(feature = "remote"))]
async fn listen(_desk: Desk) -> Result<(), Box<dyn std::error::Error>> {
    Err("this program was built without its ways over the network".into())
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

impl Desk {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }

    /// Change or read a session.
    fn with<T>(&self, id: &SessionId, act: impl FnOnce(&mut Session) -> T) -> Result<T, Error> {
        let mut kept = self.kept();
        let found = kept.sessions.iter_mut().find(|each| each.id == *id.0);
        let missing = || Error::new(-32002, "Resource not found").data(json!({"sessionId": id}));
        Ok(act(found.ok_or_else(missing)?))
    }

    pub fn app(&self) -> impl ConnectTo<Client> + use<> {
        let app = Agent.v1();
        let app = answer!(app, self, InitializeRequest, |_desk, _params, _client| Ok(introduction()));
        let app = answer!(app, self, AuthenticateRequest, |desk, _params, _client| {
            desk.kept().is_logged_in = true;
            Ok(json!({}))
        });
        let app = answer!(app, self, NewSessionRequest, |desk, params, client| desk.open(&params, &client));
        let app = answer!(app, self, LoadSessionRequest, |desk, params, client| {
            let session = desk.with(&params.session_id, |session| session.clone())?;
            session.said.iter().try_for_each(|update| notify(&client, &session.id, update))?;
            Ok(session.state())
        });
        let app = answer!(app, self, ResumeSessionRequest, |desk, params, _client| {
            desk.with(&params.session_id, |session| session.state())
        });
        let app = answer!(app, self, ListSessionsRequest, |desk, params, _client| Ok(desk.list(params.cursor.as_deref())));
        let app = answer!(app, self, CloseSessionRequest, |desk, params, _client| {
            desk.with(&params.session_id, |_session| json!({}))
        });
        let app = answer!(app, self, DeleteSessionRequest, |desk, params, _client| {
            desk.kept().sessions.retain(|each| each.id != *params.session_id.0);
            Ok(json!({}))
        });
        let app = answer!(app, self, SetSessionModeRequest, |desk, params, _client| {
            desk.with(&params.session_id, |session| session.mode = params.mode_id.to_string())?;
            Ok(json!({}))
        });
        let app = answer!(app, self, SetSessionConfigOptionRequest, |desk, params, _client| {
            let given = serde_json::to_value(&params)?;
            desk.with(&params.session_id, |session| {
                match &given["value"] {
                    Value::Bool(loud) => session.loud = *loud,
                    value => session.depth = value.as_str().unwrap_or_default().into(),
                }
                json!({"configOptions": session.config_options()})
            })
        });
        let desk = self.clone();
        let app = app.on_receive_request(
            async move |params: PromptRequest, responder, client: ConnectionTo<Client>| {
                let (desk, talking) = (desk.clone(), client.clone());
                client.spawn(async move { responder.respond_with_result(desk.prompt(params, &talking).await) })
            },
            on_receive_request!(),
        );
        let desk = self.clone();
        let app = app.on_receive_notification(
            async move |params: CancelNotification, _client: ConnectionTo<Client>| {
                desk.with(&params.session_id, |session| session.cancelled.notify_one())
            },
            on_receive_notification!(),
        );
        app.on_receive_request(
            async move |request: UntypedMessage, responder, _client: ConnectionTo<Client>| {
                let is_known = request.method == "_interop/echo";
                responder.respond_with_result(if is_known { Ok(request.params) } else { Err(Error::method_not_found()) })
            },
            on_receive_request!(),
        )
    }

    fn open(&self, params: &NewSessionRequest, client: &ConnectionTo<Client>) -> Result<Value, Error> {
        let mut kept = self.kept();
        if !kept.is_logged_in {
            return Err(Error::auth_required());
        }
        let session = Session {
            id: format!("session-{}", kept.sessions.len() + 1),
            cwd: params.cwd.display().to_string(),
            mode: "ask".into(),
            depth: "brief".into(),
            loud: false,
            said: Vec::new(),
            cancelled: Arc::default(),
        };
        kept.sessions.push(session.clone());
        // Before the answer that introduces the session, as many agents do.
        let commands = json!([{"name": "init", "description": "Begin"}]);
        let update = json!({"sessionUpdate": "available_commands_update", "availableCommands": commands});
        notify(client, &session.id, &update)?;
        Ok(session.state())
    }

    fn list(&self, cursor: Option<&str>) -> Value {
        let kept = self.kept();
        let at: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or_default();
        let describe = |each: &Session| json!({"sessionId": each.id, "cwd": each.cwd, "title": format!("Title of {}", each.id)});
        let page: Vec<Value> = kept.sessions.iter().skip(at).take(1).map(describe).collect();
        let next = (at + 1 < kept.sessions.len()).then(|| (at + 1).to_string());
        json!({"sessions": page, "nextCursor": next})
    }

    async fn prompt(&self, params: PromptRequest, client: &ConnectionTo<Client>) -> Result<PromptResponse, Error> {
        let prompt = serde_json::to_value(&params.prompt)?;
        let text = prompt[0]["text"].as_str().unwrap_or_default();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let session = self.with(&params.session_id, |session| {
            session.said.push(json!({"sessionUpdate": "user_message_chunk", "content": prompt[0]}));
            session.clone()
        })?;
        let turn = Turn { desk: self.clone(), session, client: client.clone() };
        Ok(PromptResponse::new(turn.show(word, rest).await?))
    }
}

/// One prompt at work.
pub struct Turn {
    desk: Desk,
    pub session: Session,
    pub client: ConnectionTo<Client>,
}

impl Turn {
    /// Tell the client, and remember that for the one who loads the session.
    pub fn tell(&self, update: Value) -> Result<(), Error> {
        notify(&self.client, &self.session.id, &update)?;
        self.desk.with(&SessionId::new(self.session.id.clone()), |session| session.said.push(update))
    }

    pub fn say(&self, text: &str) -> Result<(), Error> {
        self.tell(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
    }

    async fn show(&self, word: &str, rest: &str) -> Result<StopReason, Error> {
        let count = || rest.parse::<usize>().unwrap_or_default();
        match word {
            "stream" => (0..count()).try_for_each(|number| self.say(&format!("{number} ")))?,
            "big" => self.say(&"x".repeat(count()))?,
            "echo" => self.say(rest)?,
            "updates" => self.updates()?,
            "tools" => self.tools()?,
            "refuse" => return Ok(StopReason::Refusal),
            "error" => return Err(Error::new(-32050, "as requested").data(json!({"asked": true}))),
            "wait" => {
                self.say("waiting")?;
                self.session.cancelled.notified().await;
                self.say(" stopped")?;
                return Ok(StopReason::Cancelled);
            }
            _ => self.say(&ask(self, word, rest).await?)?,
        }
        Ok(StopReason::EndTurn)
    }

    fn updates(&self) -> Result<(), Error> {
        let plan = json!([{"content": "Look", "priority": "high", "status": "completed"}]);
        self.tell(json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "Hm."}}))?;
        self.tell(json!({"sessionUpdate": "plan", "entries": plan}))?;
        self.tell(json!({"sessionUpdate": "usage_update", "used": 10, "size": 100}))?;
        self.tell(json!({"sessionUpdate": "session_info_update", "title": "Interop"}))?;
        self.tell(json!({"sessionUpdate": "current_mode_update", "currentModeId": "code"}))?;
        let options = self.desk.with(&SessionId::new(self.session.id.clone()), |session| {
            session.depth = "long".into();
            session.config_options()
        })?;
        self.tell(json!({"sessionUpdate": "config_option_update", "configOptions": options}))?;
        let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
        self.tell(json!({"sessionUpdate": "agent_message_chunk", "content": image}))
    }

    fn tools(&self) -> Result<(), Error> {
        let path = format!("{}/a.txt", self.session.cwd);
        let diff = json!({"type": "diff", "path": path, "oldText": "old\n", "newText": "new\n"});
        self.tell(json!({"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "Edit", "kind": "edit",
            "status": "pending", "locations": [{"path": path, "line": 3}]}))?;
        self.tell(json!({"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "in_progress"}))?;
        self.tell(json!({"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "completed",
            "content": [diff], "rawOutput": {"ok": true}}))
    }
}

fn notify(client: &ConnectionTo<Client>, id: &str, update: &Value) -> Result<(), Error> {
    client.send_notification(typed::<SessionNotification>(json!({"sessionId": id, "update": update}))?)
}

fn introduction() -> Value {
    json!({
        "protocolVersion": 1,
        "agentInfo": {"name": "interop", "version": "1"},
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": true, "embeddedContext": true},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        },
        "authMethods": [{"id": "token", "name": "Token"}],
    })
}

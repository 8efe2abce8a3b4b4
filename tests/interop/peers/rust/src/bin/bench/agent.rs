//! The agent: `stream COUNT` in a prompt is answered with so many chunks of text.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::*;
use agent_client_protocol::{Agent, ByteStreams, Client, Error, Stdio, on_receive_request};
use serde_json::Value;

use crate::is_tuned;
use crate::pipes::{Incoming, Outgoing};

pub async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let given: Value = serde_json::from_str(&std::env::var("BENCH_TEXTS")?)?;
    let texts: Arc<Vec<String>> = Arc::new(serde_json::from_value(given["chunkTexts"].clone())?);
    let opened = AtomicUsize::new(0);
    let app = Agent
        .v1()
        .on_receive_request(
            async move |params: InitializeRequest, responder, _client: ConnectionTo<Client>| {
                responder.respond(InitializeResponse::new(params.protocol_version))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_params: NewSessionRequest, responder, _client: ConnectionTo<Client>| {
                let number = opened.fetch_add(1, Ordering::Relaxed) + 1;
                responder.respond(NewSessionResponse::new(format!("session-{number}")))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_params: SetSessionModeRequest, responder, _client: ConnectionTo<Client>| {
                responder.respond(SetSessionModeResponse::new())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |params: PromptRequest, responder, client: ConnectionTo<Client>| {
                let (texts, talking) = (texts.clone(), client.clone());
                client.spawn(async move {
                    stream(&params, &texts, &talking)?;
                    responder.respond(PromptResponse::new(StopReason::EndTurn))
                })
            },
            on_receive_request!(),
        );
    if is_tuned() {
        let incoming = Incoming::new(std::io::stdin().as_fd().try_clone_to_owned()?)?;
        let outgoing = Outgoing::new(std::io::stdout().as_fd().try_clone_to_owned()?)?;
        return Ok(app.connect_to(ByteStreams::new(outgoing, incoming)).await?);
    }
    Ok(app.connect_to(Stdio::new()).await?)
}

fn stream(params: &PromptRequest, texts: &[String], client: &ConnectionTo<Client>) -> Result<(), Error> {
    let Some(ContentBlock::Text(asked)) = params.prompt.first() else {
        return Err(Error::invalid_params());
    };
    let count = asked.text.strip_prefix("stream ").and_then(|count| count.parse::<usize>().ok());
    for number in 0..count.ok_or_else(Error::invalid_params)? {
        let content = ContentBlock::Text(TextContent::new(texts[number % texts.len()].clone()));
        let update = SessionUpdate::AgentMessageChunk(ContentChunk::new(content));
        client.send_notification(SessionNotification::new(params.session_id.clone(), update))?;
    }
    Ok(())
}

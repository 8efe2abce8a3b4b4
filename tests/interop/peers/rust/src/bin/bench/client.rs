//! The client: plays one scenario with the agent it starts, and prints what that cost as `benchmarks/script.py` does.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::*;
use agent_client_protocol::{
    AcpAgent, AcpAgentConfig, Agent, ByteStreams, Client, ConnectTo, Error, on_receive_notification,
};
use serde_json::{Value, json};

use crate::is_tuned;
use crate::pipes::{Incoming, Outgoing};

const IN_FLIGHT: usize = 64;
const LONGEST: Duration = Duration::from_secs(60);

pub async fn play(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [scenario, count, _, command @ ..] = arguments else {
        return Err("expected SCENARIO COUNT -- AGENT...".into());
    };
    let player =
        Player { scenario: scenario.clone(), count: count.parse()?, started: Instant::now(), seen: Arc::default() };
    if !is_tuned() {
        let config = AcpAgentConfig::new(&command[0]).args(&command[1..]);
        return Ok(player.connect(AcpAgent::new(config)).await?);
    }
    let mut child =
        Command::new(&command[0]).args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let outgoing = Outgoing::new(child.stdin.take().ok_or("the agent has no input")?.into())?;
    let incoming = Incoming::new(child.stdout.take().ok_or("the agent has no output")?.into())?;
    player.connect(ByteStreams::new(outgoing, incoming)).await?;
    child.wait()?;
    Ok(())
}

struct Player {
    scenario: String,
    count: usize,
    started: Instant,
    seen: Arc<AtomicUsize>,
}

impl Player {
    async fn connect(&self, agent: impl ConnectTo<Client>) -> Result<(), Error> {
        let seen = self.seen.clone();
        let app = Client.v1().on_receive_notification(
            async move |params: SessionNotification, _agent: ConnectionTo<Agent>| {
                if let SessionUpdate::AgentMessageChunk(chunk) = &params.update
                    && let ContentBlock::Text(text) = &chunk.content
                {
                    std::hint::black_box(text.text.len());
                    seen.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            },
            on_receive_notification!(),
        );
        app.connect_with(agent, async |agent: ConnectionTo<Agent>| {
            println!("{}", self.measure(&agent).await?);
            Ok(())
        })
        .await
    }

    async fn measure(&self, agent: &ConnectionTo<Agent>) -> Result<Value, Error> {
        agent.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
        let session = agent.send_request(NewSessionRequest::new("/tmp")).block_task().await?.session_id;
        let first_session = self.started.elapsed();
        let agent_pid = child().map_err(Error::into_internal_error)?;
        let before = (cpu_seconds("self"), cpu_seconds(&agent_pid));
        let began = Instant::now();
        self.perform(agent, session).await?;
        let seconds = began.elapsed().as_secs_f64();
        Ok(json!({
            "first_session": first_session.as_secs_f64(),
            "seconds": seconds,
            "client_cpu": cpu_seconds("self") - before.0,
            "agent_cpu": cpu_seconds(&agent_pid) - before.1,
            "client_peak": peak_bytes("self"),
            "agent_peak": peak_bytes(&agent_pid),
        }))
    }

    async fn perform(&self, agent: &ConnectionTo<Agent>, session: SessionId) -> Result<(), Error> {
        match self.scenario.as_str() {
            "spawn" => {}
            "stream" => {
                let text = ContentBlock::Text(TextContent::new(format!("stream {}", self.count)));
                agent.send_request(PromptRequest::new(session, vec![text])).block_task().await?;
                let began = Instant::now();
                while self.seen.load(Ordering::Relaxed) < self.count && began.elapsed() < LONGEST {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                assert_eq!(self.seen.load(Ordering::Relaxed), self.count, "updates handled");
            }
            "sequential" => self.ask(agent, &session, self.count).await?,
            "in_flight" => {
                let shares = (0..IN_FLIGHT).map(|number| (self.count + number) / IN_FLIGHT);
                let asking = shares.map(|share| self.ask(agent, &session, share));
                for answer in futures::future::join_all(asking).await {
                    answer?;
                }
            }
            _ => return Err(Error::invalid_params()),
        }
        Ok(())
    }

    async fn ask(&self, agent: &ConnectionTo<Agent>, session: &SessionId, count: usize) -> Result<(), Error> {
        for _ in 0..count {
            agent.send_request(SetSessionModeRequest::new(session.clone(), "ask")).block_task().await?;
        }
        Ok(())
    }
}

/// The process id of the only child, whoever started it.
fn child() -> io::Result<String> {
    for thread in fs::read_dir("/proc/self/task")? {
        if let Some(pid) = fs::read_to_string(thread?.path().join("children"))?.split_whitespace().next() {
            return Ok(pid.into());
        }
    }
    Err(io::Error::other("no agent was started"))
}

/// CPU time of all threads.
fn cpu_seconds(pid: &str) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let used = threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    used.filter_map(|line| line.split(' ').next().and_then(|value| value.parse::<f64>().ok())).sum::<f64>() / 1e9
}

fn peak_bytes(pid: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() * 1024
}

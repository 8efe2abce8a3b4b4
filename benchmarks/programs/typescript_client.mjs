// The client on the TypeScript SDK; plays what script.py plays and prints the same object.
import { spawn } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

const { client, ndJsonStream } = await import(process.env.BENCH_TYPESCRIPT_SDK);
const [scenario, number, , command, ...args] = process.argv.slice(2);
const count = Number(number);
const limit = Number(process.env.BENCH_MAX_MESSAGE_BYTES ?? 0);
const seen = { updates: 0, characters: 0, isBusy: scenario === "slow", busyUntil: 0 };

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const memory = (pid, field) =>
  1024 * Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]);
const cpuSeconds = (pid) =>
  readdirSync(`/proc/${pid}/task`)
    .map((thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]))
    .reduce((sum, nanoseconds) => sum + nanoseconds, 0) / 1e9;

async function update({ params }) {
  if (seen.isBusy) {
    seen.busyUntil ||= performance.now() + 1500;
    const wait = seen.busyUntil - performance.now();
    if (wait > 0) await pause(wait);
  }
  seen.updates++;
  seen.characters += params.update.content.text.length;
}

async function play(agent) {
  const newSession = async () => (await agent.request("session/new", { cwd: "/tmp", mcpServers: [] })).sessionId;
  const setMode = (sessionId) => agent.request("session/set_mode", { sessionId, modeId: "ask" });
  const prompt = (sessionId, text) => agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  const untilSeen = async (wanted) => {
    while (seen.updates < wanted) await pause(1);
    if (seen.updates !== wanted) throw new Error(`${seen.updates} updates instead of ${wanted}`);
  };
  const scenarios = {
    spawn: () => {},
    stream: async () => {
      await prompt(session, `stream ${count}`);
      await untilSeen(count);
    },
    sessions: async () => {
      const opened = await Promise.all(Array.from({ length: 100 }, newSession));
      await Promise.all(opened.map((id) => prompt(id, `stream ${count / 100}`)));
      await untilSeen(count);
    },
    slow: async () => {
      await prompt(session, `flood ${count}`);
      await untilSeen(count);
    },
    large: async () => {
      await prompt(session, "echo " + "x".repeat(count - 5));
      await untilSeen(1);
      if (seen.characters !== count) throw new Error(`${seen.characters} characters instead of ${count}`);
    },
    sequential: async () => {
      for (let i = 0; i < count; i++) await setMode(session);
    },
    in_flight: async () => {
      let left = count;
      const ask = async () => {
        for (; left > 0; await setMode(session)) left--;
      };
      await Promise.all(Array.from({ length: 64 }, ask));
    },
  };
  await agent.request("initialize", { protocolVersion: 1 });
  const session = await newSession();
  const firstSession = (performance.now() - started) / 1e3;
  writeFileSync("/proc/self/clear_refs", "5");
  const before = memory("self", "VmRSS");
  const clientCpu = cpuSeconds("self");
  const agentCpu = cpuSeconds(child.pid);
  const began = performance.now();
  await scenarios[scenario]();
  return {
    first_session: firstSession,
    seconds: (performance.now() - began) / 1e3,
    client_cpu: cpuSeconds("self") - clientCpu,
    agent_cpu: cpuSeconds(child.pid) - agentCpu,
    client_growth: memory("self", "VmHWM") - before,
    client_peak: memory("self", "VmHWM"),
    agent_peak: memory(child.pid, "VmHWM"),
  };
}

const started = performance.now();
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const pipes = () =>
  ndJsonStream(
    Writable.toWeb(child.stdin),
    Readable.toWeb(child.stdout),
    limit ? { maxMessageBytes: limit } : undefined,
  );
const wire = process.env.BENCH_WIRE;
const stream = wire ? await (await import("./typescript_network.mjs")).dial(wire, child) : pipes();
await client()
  .onNotification("session/update", update)
  .connectWith(stream, async (agent) => console.log(JSON.stringify(await play(agent))));
if (wire) child.kill();
else child.stdin.end();
child.on("exit", () => process.exit(0));

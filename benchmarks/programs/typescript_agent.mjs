// The agent on the TypeScript SDK.
import { Readable, Writable } from "node:stream";

const { agent, ndJsonStream } = await import(process.env.BENCH_TYPESCRIPT_SDK);
const { chunkTexts, floodText } = JSON.parse(process.env.BENCH_TEXTS);
const limit = Number(process.env.BENCH_MAX_MESSAGE_BYTES ?? 0);
let sessions = 0;

async function prompt({ params, client }) {
  const { sessionId, prompt: [{ text: asked }] } = params;
  const [word, argument] = asked.slice(0, 32).split(" ");
  const texts = { stream: chunkTexts, flood: [floodText], echo: [asked] }[word];
  const count = word === "echo" ? 1 : Number(argument);
  for (let i = 0; i < count; i++) {
    const content = { type: "text", text: texts[i % texts.length] };
    await client.notify("session/update", { sessionId, update: { sessionUpdate: "agent_message_chunk", content } });
  }
  return { stopReason: "end_turn" };
}

const app = agent()
  .onRequest("initialize", () => ({ protocolVersion: 1 }))
  .onRequest("session/new", () => ({ sessionId: `session-${++sessions}` }))
  .onRequest("session/set_mode", () => ({}))
  .onRequest("session/prompt", prompt);

if (process.env.BENCH_WIRE) await (await import("./typescript_network.mjs")).listen(app);
else
  app.connect(
    ndJsonStream(
      Writable.toWeb(process.stdout),
      Readable.toWeb(process.stdin),
      limit ? { maxMessageBytes: limit } : undefined,
    ),
  );

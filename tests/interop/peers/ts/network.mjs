// The TypeScript SDK's ways over the network: an agent that listens, and a client's stream to an address.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const sdk = pathToFileURL(process.env.INTEROP_SDK);
const transport = (name) => import(new URL(`../../transports/${name}.js`, sdk));
const { WebSocket, WebSocketServer } = createRequire(sdk)("ws");
const COOKIE = "lane=7";

// Like a gate in front of a server that a load balancer stands before: a token for all, and for those who came before
// the cookie that they were given.
function refusal({ headers }) {
  if (headers.authorization !== `Bearer ${process.env.INTEROP_TOKEN}`) return 401;
  return headers["acp-connection-id"] && !(headers.cookie ?? "").includes(COOKIE) ? 403 : undefined;
}

export async function listen(agent) {
  const { AcpServer } = await transport("server");
  const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await transport("node-adapter");
  const server = new AcpServer({ agent });
  const sockets = new WebSocketServer({ noServer: true });
  sockets.on("headers", (headers) => headers.push(`Set-Cookie: ${COOKIE}; Path=/`));
  const answer = createNodeHttpHandler(server);
  const upgrade = createNodeWebSocketUpgradeHandler(server, sockets);
  const http = createServer((request, response) => {
    const status = refusal(request);
    if (status) return response.writeHead(status).end();
    if (!request.headers["acp-connection-id"]) response.setHeader("Set-Cookie", `${COOKIE}; Path=/; HttpOnly`);
    answer(request, response);
  });
  http.on("upgrade", (request, socket, head) => {
    const status = refusal(request);
    if (status) socket.end(`HTTP/1.1 ${status} Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
    else upgrade(request, socket, head);
  });
  http.listen(0, "127.0.0.1", () => console.log(http.address().port));
}

export async function dial(url, headers) {
  if (url.startsWith("http")) {
    const { createHttpStream } = await transport("http-stream");
    return createHttpStream(url, { headers });
  }
  const { createWebSocketStream } = await transport("ws-stream");
  return createWebSocketStream(url, { headers, WebSocket });
}

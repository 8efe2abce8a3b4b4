import com.agentclientprotocol.sdk.client.AcpAsyncClient;
import com.agentclientprotocol.sdk.client.AcpClient;
import com.agentclientprotocol.sdk.client.transport.AgentParameters;
import com.agentclientprotocol.sdk.client.transport.StdioAcpClientTransport;
import com.agentclientprotocol.sdk.spec.AcpClientSession.AcpError;
import com.agentclientprotocol.sdk.spec.AcpSchema.*;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import reactor.core.publisher.Mono;

/** A client. Each line it reads is a play: an agent to start, and steps to do. Each line it prints is what it saw. */
final class Client {

    private final Map<String, Object> play;
    private final Map<String, Object> answers;
    private final Object cwd;
    private final List<Object> asked = Collections.synchronizedList(new ArrayList<>());
    private volatile List<Object> updates = Collections.synchronizedList(new ArrayList<>());
    private volatile String cancelAt;
    private volatile String sessionId = "";
    private AcpAsyncClient agent;

    private Client(Map<String, Object> play) {
        this.play = play;
        this.answers = Peer.object(play.get("answers"));
        this.cwd = play.get("cwd");
    }

    static void playAll() throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            var seen = new Client(Peer.object(Peer.JSON.readValue(line, Map.class))).perform();
            System.out.write(Peer.JSON.writeValueAsBytes(seen));
            System.out.write('\n');
            System.out.flush();
        }
    }

    private Map<String, Object> perform() {
        var command = ((List<?>) play.get("command")).stream().map(Object::toString).toList();
        var parameters = AgentParameters.builder(command.get(0)).args(command.subList(1, command.size())).build();
        agent = build(new StdioAcpClientTransport(parameters));
        var steps = new ArrayList<Object>();
        for (Object step : (List<?>) play.get("steps")) {
            steps.add(step((List<?>) step));
        }
        agent.closeGracefully().block();
        return Map.of("steps", steps, "asked", List.copyOf(asked));
    }

    private AcpAsyncClient build(StdioAcpClientTransport transport) {
        return AcpClient.async(transport)
            .requestTimeout(Duration.ofSeconds(60))
            .sessionUpdateConsumer(this::update)
            .requestPermissionHandler(this::permit)
            .readTextFileHandler(request -> {
                heard("fs/read_text_file", request);
                var text = Peer.object(answers.get("files")).getOrDefault(request.path(), "");
                return Mono.just(new ReadTextFileResponse(text.toString()));
            })
            .writeTextFileHandler(request -> {
                heard("fs/write_text_file", request);
                return Mono.just(new WriteTextFileResponse());
            })
            .createTerminalHandler(request -> {
                heard("terminal/create", request);
                return Mono.just(new CreateTerminalResponse("terminal-1"));
            })
            .terminalOutputHandler(request -> {
                heard("terminal/output", request);
                return Mono.just(Peer.typed(TerminalOutputResponse.class, terminal("output")));
            })
            .waitForTerminalExitHandler(request -> {
                heard("terminal/wait_for_exit", request);
                return Mono.just(Peer.typed(WaitForTerminalExitResponse.class, terminal("exit")));
            })
            .killTerminalHandler(request -> {
                heard("terminal/kill", request);
                return Mono.just(new KillTerminalCommandResponse());
            })
            .releaseTerminalHandler(request -> {
                heard("terminal/release", request);
                return Mono.just(new ReleaseTerminalResponse());
            })
            .createElicitationHandler(request -> {
                heard("elicitation/create", request);
                return Mono.just(Peer.typed(CreateElicitationResponse.class, answers.get("elicitation")));
            })
            .notificationHandler("elicitation/complete", params -> {
                heard("elicitation/complete", params);
                return Mono.empty();
            })
            .requestHandler("_duologue.example/ping", params -> {
                heard("_duologue.example/ping", params);
                return Mono.just(Map.of("pong", true));
            })
            .build();
    }

    private Object terminal(String name) {
        return Peer.object(answers.get("terminal")).get(name);
    }

    private void heard(String method, Object params) {
        asked.add(Map.of("method", method, "params", params));
    }

    private Mono<Void> update(SessionNotification notification) {
        var update = Peer.object(notification.update());
        updates.add(update);
        if (cancelAt == null || !cancelAt.equals(update.get("sessionUpdate"))) {
            return Mono.empty();
        }
        cancelAt = null;
        return agent.cancel(new CancelNotification(sessionId));
    }

    private Mono<RequestPermissionResponse> permit(RequestPermissionRequest request) {
        heard("session/request_permission", request);
        var wanted = answers.get("permission");
        if ("cancel".equals(wanted)) {
            var cancelled = new RequestPermissionResponse(new PermissionCancelled("cancelled"));
            return agent.cancel(new CancelNotification(sessionId)).thenReturn(cancelled);
        }
        for (Object option : (List<?>) Peer.object(request).get("options")) {
            if (Peer.object(option).get("kind").equals(wanted)) {
                var id = Peer.object(option).get("optionId").toString();
                return Mono.just(new RequestPermissionResponse(new PermissionSelected("selected", id)));
            }
        }
        return Mono.error(new IllegalStateException("no option is of the kind " + wanted));
    }

    private Map<String, Object> step(List<?> step) {
        var seen = new HashMap<String, Object>();
        updates = Collections.synchronizedList(new ArrayList<>());
        try {
            var result = perform(step.get(0).toString(), step.subList(1, step.size())).block();
            seen.put("result", result == null ? Map.of() : result);
        } catch (AcpError error) {
            var told = new HashMap<String, Object>();
            told.put("code", error.getCode());
            told.put("message", error.getError().message());
            told.put("data", error.getData());
            seen.put("error", told);
        } catch (RuntimeException error) {
            seen.put("error", Map.of("message", String.valueOf(error)));
        }
        seen.put("updates", List.copyOf(updates));
        return seen;
    }

    private Mono<?> perform(String verb, List<?> arguments) {
        Map<String, Object> here = Map.of("sessionId", sessionId);
        Map<String, Object> again = Map.of("sessionId", sessionId, "cwd", cwd, "mcpServers", List.of());
        return switch (verb) {
            case "answer" -> Mono.fromRunnable(() -> answers.putAll(Peer.object(arguments.get(0))));
            case "initialize" -> agent.initialize(Peer.typed(InitializeRequest.class,
                Map.of("protocolVersion", 1, "clientCapabilities", play.get("capabilities"))));
            case "authenticate" -> agent.authenticate(new AuthenticateRequest(arguments.get(0).toString()));
            case "new" -> agent.newSession(Peer.typed(NewSessionRequest.class, Map.of("cwd", cwd, "mcpServers", List.of())))
                .doOnNext(opened -> sessionId = opened.sessionId());
            case "prompt" -> prompt(arguments);
            case "load" -> agent.loadSession(Peer.typed(LoadSessionRequest.class, again));
            case "resume" -> agent.resumeSession(Peer.typed(ResumeSessionRequest.class, again));
            case "list" -> agent.listSessions(Peer.typed(ListSessionsRequest.class, Map.of("cwd", cwd)));
            case "close" -> agent.closeSession(Peer.typed(CloseSessionRequest.class, here));
            case "delete" -> agent.deleteSession(Peer.typed(DeleteSessionRequest.class, here));
            case "set_mode" -> agent.setSessionMode(new SetSessionModeRequest(sessionId, arguments.get(0).toString()));
            case "set_config" -> agent.setSessionConfigOption(option(arguments.get(0).toString(), arguments.get(1)));
            default -> Mono.error(new IllegalArgumentException("the Java client has no verb " + verb));
        };
    }

    private SetSessionConfigOptionRequest option(String id, Object value) {
        return value instanceof Boolean flag
            ? SetSessionConfigOptionRequest.bool(sessionId, id, flag)
            : SetSessionConfigOptionRequest.select(sessionId, id, value.toString());
    }

    private Mono<?> prompt(List<?> arguments) {
        Map<String, Object> options = arguments.size() > 1 ? Peer.object(arguments.get(1)) : Map.of();
        cancelAt = (String) options.get("cancelAt");
        var text = Map.of("type", "text", "text", arguments.get(0));
        var params = Map.of("sessionId", options.getOrDefault("sessionId", sessionId), "prompt", List.of(text));
        return agent.prompt(Peer.typed(PromptRequest.class, params));
    }
}

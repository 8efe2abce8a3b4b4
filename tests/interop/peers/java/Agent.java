import com.agentclientprotocol.sdk.agent.AcpAgent;
import com.agentclientprotocol.sdk.agent.AcpAsyncAgent;
import com.agentclientprotocol.sdk.agent.PromptContext;
import com.agentclientprotocol.sdk.agent.transport.StdioAcpAgentTransport;
import com.agentclientprotocol.sdk.error.AcpProtocolException;
import com.agentclientprotocol.sdk.spec.AcpSchema.*;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/**
 * An agent: the first word of a prompt says which part of the protocol it shows. All of it runs on the thread that reads:
 * the SDK forgets a turn only after its answer is on the way, and another thread would refuse the next prompt by chance.
 */
final class Agent {

    /** What the agent keeps of one session. */
    static final class Session {
        final String id;
        final String cwd;
        String mode = "ask";
        String depth = "brief";
        boolean loud;
        volatile Sinks.One<Boolean> cancelled = Sinks.one();
        final List<SessionUpdate> said = Collections.synchronizedList(new ArrayList<>());

        Session(String id, String cwd) {
            this.id = id;
            this.cwd = cwd;
        }

        List<Object> configOptions() {
            var options = List.of(Map.of("value", "brief", "name", "brief"), Map.of("value", "long", "name", "long"));
            var depth = Map.of("id", "depth", "name", "Depth", "type", "select", "category", "thought_level",
                "currentValue", this.depth, "options", options);
            return List.of(depth, Map.of("id", "loud", "name", "Loud", "type", "boolean", "currentValue", loud));
        }

        Map<String, Object> state() {
            var modes = List.of(Map.of("id", "ask", "name", "ask"), Map.of("id", "code", "name", "code"));
            var state = Map.of("currentModeId", mode, "availableModes", modes);
            return Map.of("sessionId", id, "modes", state, "configOptions", configOptions());
        }
    }

    private final Map<String, Session> sessions = Collections.synchronizedMap(new java.util.LinkedHashMap<>());
    private volatile boolean isLoggedIn;
    private AcpAsyncAgent client;

    Agent(String[] arguments) {
        isLoggedIn = !Arrays.asList(arguments).contains("--login");
    }

    void serve() {
        client = AcpAgent.async(new StdioAcpAgentTransport())
            .initializeHandler(request -> Mono.just(Peer.typed(InitializeResponse.class, introduction())))
            .authenticateHandler(request -> {
                isLoggedIn = true;
                return Mono.just(new AuthenticateResponse());
            })
            .newSessionHandler(this::open)
            .loadSessionHandler(request -> {
                var session = find(request.sessionId());
                var told = Flux.fromIterable(session.said).concatMap(each -> client.sendSessionUpdate(session.id, each));
                return told.then(Mono.just(Peer.typed(LoadSessionResponse.class, session.state())));
            })
            .resumeSessionHandler(request ->
                Mono.just(Peer.typed(ResumeSessionResponse.class, find(request.sessionId()).state())))
            .listSessionsHandler(request -> Mono.just(list(request.cursor())))
            .closeSessionHandler(request -> {
                find(request.sessionId());
                return Mono.just(new CloseSessionResponse(null));
            })
            .deleteSessionHandler(request -> {
                sessions.remove(request.sessionId());
                return Mono.just(new DeleteSessionResponse(null));
            })
            .setSessionModeHandler(request -> {
                find(request.sessionId()).mode = request.modeId();
                return Mono.just(new SetSessionModeResponse());
            })
            .setSessionConfigOptionHandler(request -> Mono.just(set(request)))
            .promptHandler(this::prompt)
            .cancelHandler(notification ->
                Mono.fromRunnable(() -> find(notification.sessionId()).cancelled.tryEmitValue(true)))
            .build();
        client.start().block();
        client.awaitTermination().block();
    }

    private Session find(String id) {
        var session = sessions.get(id);
        if (session == null) {
            throw new AcpProtocolException(-32002, "Resource not found", Map.of("sessionId", id));
        }
        return session;
    }

    private Mono<NewSessionResponse> open(NewSessionRequest request) {
        if (!isLoggedIn) {
            throw new AcpProtocolException(-32000, "Authentication required");
        }
        var session = new Session("session-" + (sessions.size() + 1), request.cwd());
        sessions.put(session.id, session);
        // Before the answer that introduces the session, as many agents do.
        var commands = List.of(Map.of("name", "init", "description", "Begin"));
        var update = update("available_commands_update", Map.of("availableCommands", commands));
        var answer = Peer.typed(NewSessionResponse.class, session.state());
        return client.sendSessionUpdate(session.id, update).thenReturn(answer);
    }

    private ListSessionsResponse list(String cursor) {
        var all = new ArrayList<>(sessions.values());
        int at = cursor == null ? 0 : Integer.parseInt(cursor);
        var page = new ArrayList<Object>();
        for (Session each : all.subList(Math.min(at, all.size()), Math.min(at + 1, all.size()))) {
            page.add(Map.of("sessionId", each.id, "cwd", each.cwd, "title", "Title of " + each.id));
        }
        var answer = new HashMap<String, Object>(Map.of("sessions", page));
        if (at + 1 < all.size()) {
            answer.put("nextCursor", String.valueOf(at + 1));
        }
        return Peer.typed(ListSessionsResponse.class, answer);
    }

    private SetSessionConfigOptionResponse set(SetSessionConfigOptionRequest request) {
        var session = find(request.sessionId());
        if (request.value() instanceof Boolean loud) {
            session.loud = loud;
        } else {
            session.depth = request.value().toString();
        }
        return Peer.typed(SetSessionConfigOptionResponse.class, Map.of("configOptions", session.configOptions()));
    }

    private Mono<PromptResponse> prompt(PromptRequest request, PromptContext context) {
        var session = find(request.sessionId());
        var block = request.prompt().get(0);
        session.said.add(update("user_message_chunk", Map.of("content", Peer.object(block))));
        var words = ((TextContent) block).text().split(" ", 2);
        var shown = new Turn(session, context).show(words[0], words.length > 1 ? words[1] : "");
        return shown.map(reason -> Peer.typed(PromptResponse.class, Map.of("stopReason", reason)));
    }

    static SessionUpdate update(String kind, Map<String, Object> rest) {
        var whole = new HashMap<>(rest);
        whole.put("sessionUpdate", kind);
        return Peer.typed(SessionUpdate.class, whole);
    }

    private static Map<String, Object> introduction() {
        return Map.of(
            "protocolVersion", 1,
            "agentInfo", Map.of("name", "interop", "version", "1"),
            "agentCapabilities", Map.of(
                "loadSession", true,
                "promptCapabilities", Map.of("image", true, "embeddedContext", true),
                "sessionCapabilities", Map.of("list", Map.of(), "resume", Map.of(), "close", Map.of(), "delete", Map.of())),
            "authMethods", List.of(Map.of("id", "token", "name", "Token")));
    }
}

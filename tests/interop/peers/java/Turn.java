import com.agentclientprotocol.sdk.agent.PromptContext;
import com.agentclientprotocol.sdk.error.AcpProtocolException;
import com.agentclientprotocol.sdk.spec.AcpSchema.*;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** One prompt at work. */
final class Turn {

    private final Agent.Session session;
    private final PromptContext client;

    Turn(Agent.Session session, PromptContext client) {
        this.session = session;
        this.client = client;
    }

    private Mono<Void> tell(String kind, Map<String, Object> rest) {
        return Mono.defer(() -> {
            var update = Agent.update(kind, rest);
            session.said.add(update);
            return client.sendUpdate(session.id, update);
        });
    }

    private Mono<Void> say(String text) {
        return tell("agent_message_chunk", Map.of("content", Map.of("type", "text", "text", text)));
    }

    /** Show the part that the word names, and tell how the turn ended. */
    Mono<String> show(String word, String rest) {
        return switch (word) {
            case "stream" -> Flux.range(0, Integer.parseInt(rest)).concatMap(number -> say(number + " ")).then(ended());
            case "big" -> say("x".repeat(Integer.parseInt(rest))).then(ended());
            case "echo" -> say(rest).then(ended());
            case "updates" -> updates().then(ended());
            case "tools" -> tools().then(ended());
            case "wait" -> await();
            case "refuse" -> Mono.just("refusal");
            case "error" -> Mono.error(new AcpProtocolException(-32050, "as requested", Map.of("asked", true)));
            default -> ask(word, rest).flatMap(this::say).then(ended());
        };
    }

    private static Mono<String> ended() {
        return Mono.just("end_turn");
    }

    private Mono<String> await() {
        session.cancelled = Sinks.one();
        return say("waiting").then(session.cancelled.asMono()).then(say(" stopped")).thenReturn("cancelled");
    }

    private Mono<Void> updates() {
        var entry = Map.of("content", "Look", "priority", "high", "status", "completed");
        var image = Map.of("type", "image", "data", "aGk=", "mimeType", "image/png");
        session.depth = "long";
        return tell("agent_thought_chunk", Map.of("content", Map.of("type", "text", "text", "Hm.")))
            .then(tell("plan", Map.of("entries", List.of(entry))))
            .then(tell("usage_update", Map.of("used", 10, "size", 100)))
            .then(tell("current_mode_update", Map.of("currentModeId", "code")))
            .then(tell("config_option_update", Map.of("configOptions", session.configOptions())))
            .then(tell("agent_message_chunk", Map.of("content", image)));
    }

    private Mono<Void> tools() {
        var path = session.cwd + "/a.txt";
        var diff = Map.of("type", "diff", "path", path, "oldText", "old\n", "newText", "new\n");
        return tell("tool_call", Map.of("toolCallId", "call-1", "title", "Edit", "kind", "edit", "status", "pending",
                "locations", List.of(Map.of("path", path, "line", 3))))
            .then(tell("tool_call_update", Map.of("toolCallId", "call-1", "status", "in_progress")))
            .then(tell("tool_call_update", Map.of("toolCallId", "call-1", "status", "completed",
                "content", List.of(diff), "rawOutput", Map.of("ok", true))));
    }

    /** Play a part that needs an answer from the client, and tell what that was. */
    private Mono<String> ask(String word, String rest) {
        var words = Arrays.asList(rest.split(" "));
        return switch (word) {
            case "permission" -> permission();
            case "read" -> client.readTextFile(new ReadTextFileRequest(session.id, rest, 2, 1))
                .map(ReadTextFileResponse::content);
            case "write" -> client.writeTextFile(new WriteTextFileRequest(session.id, words.get(0), words.get(1)))
                .thenReturn("written");
            case "run" -> create(words).flatMap(id -> run(rest, id));
            case "kill" -> create(List.of("sleep", "600")).flatMap(this::kill);
            case "form" -> form();
            case "url" -> url();
            default -> Mono.error(new AcpProtocolException(-32602, "Invalid params", Map.of("received", word)));
        };
    }

    private Mono<String> permission() {
        var options = new ArrayList<Object>();
        for (String kind : List.of("allow_once", "allow_always", "reject_once", "reject_always")) {
            options.add(Map.of("optionId", "id-" + kind, "name", kind, "kind", kind));
        }
        var call = Map.of("toolCallId", "call-1", "title", "Something", "kind", "other", "status", "pending");
        var params = Map.of("sessionId", session.id, "toolCall", call, "options", options);
        return client.requestPermission(Peer.typed(RequestPermissionRequest.class, params))
            .map(answer -> answer.outcome() instanceof PermissionSelected one ? one.optionId() : "cancelled");
    }

    private Mono<String> create(List<String> words) {
        var params = Map.of("sessionId", session.id, "command", words.get(0), "args", words.subList(1, words.size()));
        return client.createTerminal(Peer.typed(CreateTerminalRequest.class, params))
            .map(CreateTerminalResponse::terminalId);
    }

    private Mono<String> run(String line, String id) {
        var content = List.of(Map.of("type", "terminal", "terminalId", id));
        return tell("tool_call", Map.of("toolCallId", "call-1", "title", line, "kind", "execute", "content", content))
            .then(client.waitForTerminalExit(new WaitForTerminalExitRequest(session.id, id)))
            .flatMap(ended -> client.getTerminalOutput(new TerminalOutputRequest(session.id, id))
                .map(shown -> ended.exitCode() + ": " + shown.output()))
            .flatMap(said -> client.releaseTerminal(new ReleaseTerminalRequest(session.id, id)).thenReturn(said));
    }

    private Mono<String> kill(String id) {
        return client.killTerminal(new KillTerminalCommandRequest(session.id, id))
            .then(client.waitForTerminalExit(new WaitForTerminalExitRequest(session.id, id)))
            .flatMap(ended -> client.releaseTerminal(new ReleaseTerminalRequest(session.id, id))
                .thenReturn(ended.signal()));
    }

    private Mono<String> form() {
        var fields = Map.of("name", Map.of("type", "string"), "count", Map.of("type", "integer", "minimum", 1));
        var schema = Map.of("type", "object", "properties", fields, "required", List.of("name"));
        var question = CreateElicitationRequest.form(session.id, "Which one?", Peer.typed(ElicitationSchema.class, schema));
        return client.createElicitation(question).map(answer -> {
            var told = Peer.object(answer);
            try {
                return Peer.JSON.writeValueAsString(Arrays.asList(told.get("action"), told.get("content")));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        });
    }

    private Mono<String> url() {
        var question = CreateElicitationRequest.url(session.id, "Go there", "visit-1", "https://example.com/login");
        var done = Peer.typed(CompleteElicitationNotification.class, Map.of("elicitationId", "visit-1"));
        return client.createElicitation(question).flatMap(answer ->
            client.completeElicitation(done).thenReturn(Peer.object(answer).get("action").toString()));
    }
}

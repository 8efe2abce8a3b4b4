import com.agentclientprotocol.sdk.json.AcpJsonMapper;
import java.util.Map;

/** The peers made with the Java SDK: one program, whose first argument is the part it plays. */
final class Peer {

    static final AcpJsonMapper JSON = AcpJsonMapper.createDefault();

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "client" -> Client.playAll();
            case "agent" -> new Agent(arguments).serve();
            default -> throw new IllegalArgumentException(
                "received the part " + arguments[0] + ", expected client or agent");
        }
    }

    /** Convert what was built by hand, or read, to a type of the SDK. */
    static <T> T typed(Class<T> type, Object value) {
        return JSON.convertValue(value, type);
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        return value instanceof Map<?, ?> map ? (Map<String, Object>) map : JSON.convertValue(value, Map.class);
    }
}

// An agent: the first word of a prompt says which part of the protocol it shows.
import com.agentclientprotocol.agent.Agent
import com.agentclientprotocol.agent.AgentInfo
import com.agentclientprotocol.agent.AgentSession
import com.agentclientprotocol.agent.AgentSupport
import com.agentclientprotocol.agent.client
import com.agentclientprotocol.client.ClientInfo
import com.agentclientprotocol.common.ClientSessionOperations
import com.agentclientprotocol.common.Event
import com.agentclientprotocol.common.SessionCreationParameters
import com.agentclientprotocol.model.*
import com.agentclientprotocol.protocol.JsonRpcException
import com.agentclientprotocol.protocol.Protocol
import com.agentclientprotocol.protocol.invoke
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.FlowCollector
import kotlinx.coroutines.flow.flow
import kotlinx.serialization.json.JsonElement

suspend fun serve(arguments: List<String>) = coroutineScope {
    val transport = wire(this, System.`in`, System.out)
    val ended = CompletableDeferred<Unit>()
    transport.onClose { ended.complete(Unit) }
    val protocol = Protocol(this, transport)
    Agent(protocol, Desk(protocol, "--login" !in arguments))
    protocol.start()
    ended.await()
}

fun update(kind: String, rest: Map<String, Any?>): SessionUpdate =
    typed(SessionUpdate.serializer(), rest + ("sessionUpdate" to kind))

class Desk(private val protocol: Protocol, private var isLoggedIn: Boolean) : AgentSupport {
    private val sessions = mutableMapOf<String, Session>()

    override suspend fun initialize(clientInfo: ClientInfo): AgentInfo {
        val capabilities = mapOf("loadSession" to true, "promptCapabilities" to mapOf("image" to true, "embeddedContext" to true))
        val methods = listOf(typed(AuthMethod.serializer(), mapOf("id" to "token", "name" to "Token")))
        return AgentInfo(1, typed(AgentCapabilities.serializer(), capabilities), methods, Implementation("interop", "1"))
    }

    override suspend fun authenticate(methodId: AuthMethodId, _meta: JsonElement?): AuthenticateResponse {
        isLoggedIn = true
        return AuthenticateResponse()
    }

    override suspend fun createSession(sessionParameters: SessionCreationParameters): AgentSession {
        if (!isLoggedIn) throw JsonRpcException(-32000, "Authentication required")
        val session = Session("session-${sessions.size + 1}", sessionParameters.cwd)
        sessions[session.sessionId.value] = session
        // Before the answer that introduces the session, as many agents do.
        val commands = listOf(mapOf("name" to "init", "description" to "Begin"))
        tell(session, update("available_commands_update", mapOf("availableCommands" to commands)))
        return session
    }

    override suspend fun loadSession(sessionId: SessionId, sessionParameters: SessionCreationParameters): AgentSession {
        val session = sessions[sessionId.value]
            ?: throw JsonRpcException(-32002, "Resource not found", json(mapOf("sessionId" to sessionId.value)))
        session.said.forEach { tell(session, it) }
        return session
    }

    private fun tell(session: Session, update: SessionUpdate) =
        AcpMethod.ClientMethods.SessionUpdate(protocol, SessionNotification(session.sessionId, update))
}

class Session(id: String, private val cwd: String) : AgentSession {
    override val sessionId = SessionId(id)
    private var mode = "ask"
    val said = mutableListOf<SessionUpdate>()

    override val availableModes = listOf("ask", "code").map { typed(SessionMode.serializer(), mapOf("id" to it, "name" to it)) }
    override val defaultMode get() = SessionModeId(mode)

    override suspend fun setMode(modeId: SessionModeId, _meta: JsonElement?): SetSessionModeResponse {
        mode = modeId.value
        return SetSessionModeResponse()
    }

    override suspend fun prompt(content: List<ContentBlock>, _meta: JsonElement?): Flow<Event> = flow {
        val text = (content[0] as ContentBlock.Text).text
        said.add(SessionUpdate.UserMessageChunk(content[0]))
        val stopReason = show(text.substringBefore(" "), text.substringAfter(" ", ""))
        emit(Event.PromptResponseEvent(PromptResponse(stopReason)))
    }

    private suspend fun FlowCollector<Event>.tell(kind: String, rest: Map<String, Any?>) {
        val whole = update(kind, rest)
        said.add(whole)
        emit(Event.SessionUpdateEvent(whole))
    }

    private suspend fun FlowCollector<Event>.say(text: String) =
        tell("agent_message_chunk", mapOf("content" to mapOf("type" to "text", "text" to text)))

    private suspend fun FlowCollector<Event>.show(word: String, rest: String): StopReason {
        when (word) {
            "stream" -> repeat(rest.toInt()) { say("$it ") }
            "big" -> say("x".repeat(rest.toInt()))
            "echo" -> say(rest)
            "updates" -> updates()
            "tools" -> tools()
            "wait" -> {
                say("waiting")
                // The SDK cancels this, and answers for the turn itself.
                CompletableDeferred<Unit>().await()
            }
            "refuse" -> return StopReason.REFUSAL
            "error" -> throw JsonRpcException(-32050, "as requested", json(mapOf("asked" to true)))
            "run" -> say(run(rest))
            else -> say(ask(currentCoroutineContext().client, word, rest))
        }
        return StopReason.END_TURN
    }

    private suspend fun FlowCollector<Event>.updates() {
        val plan = listOf(mapOf("content" to "Look", "priority" to "high", "status" to "completed"))
        tell("agent_thought_chunk", mapOf("content" to mapOf("type" to "text", "text" to "Hm.")))
        tell("plan", mapOf("entries" to plan))
        tell("current_mode_update", mapOf("currentModeId" to "code"))
        val image = mapOf("type" to "image", "data" to "aGk=", "mimeType" to "image/png")
        tell("agent_message_chunk", mapOf("content" to image))
    }

    private suspend fun FlowCollector<Event>.tools() {
        val path = "$cwd/a.txt"
        val diff = mapOf("type" to "diff", "path" to path, "oldText" to "old\n", "newText" to "new\n")
        val call = mapOf("toolCallId" to "call-1")
        val places = listOf(mapOf("path" to path, "line" to 3))
        tell("tool_call", call + mapOf("title" to "Edit", "kind" to "edit", "status" to "pending", "locations" to places))
        tell("tool_call_update", call + mapOf("status" to "in_progress"))
        val end = mapOf("status" to "completed", "content" to listOf(diff), "rawOutput" to mapOf("ok" to true))
        tell("tool_call_update", call + end)
    }

    private suspend fun FlowCollector<Event>.run(line: String): String {
        val client = currentCoroutineContext().client
        val words = line.split(" ")
        val id = client.terminalCreate(words[0], words.drop(1)).terminalId
        val content = listOf(mapOf("type" to "terminal", "terminalId" to id))
        tell("tool_call", mapOf("toolCallId" to "call-1", "title" to line, "kind" to "execute", "content" to content))
        val ended = client.terminalWaitForExit(id)
        val shown = client.terminalOutput(id)
        client.terminalRelease(id)
        return "${ended.exitCode}: ${shown.output}"
    }

    private suspend fun ask(client: ClientSessionOperations, word: String, rest: String): String = when (word) {
        "permission" -> permission(client)
        "read" -> client.fsReadTextFile(rest, 2u, 1u).content
        "write" -> "written".also { client.fsWriteTextFile(rest.substringBefore(" "), rest.substringAfter(" ")) }
        "kill" -> {
            val id = client.terminalCreate("sleep", listOf("600")).terminalId
            client.terminalKill(id)
            val ended = client.terminalWaitForExit(id)
            client.terminalRelease(id)
            "${ended.signal}"
        }
        else -> throw JsonRpcException(-32602, "Invalid params", json(mapOf("received" to word)))
    }

    private suspend fun permission(client: ClientSessionOperations): String {
        val options = listOf("allow_once", "allow_always", "reject_once", "reject_always").map {
            typed(PermissionOption.serializer(), mapOf("optionId" to "id-$it", "name" to it, "kind" to it))
        }
        val call = update("tool_call_update", mapOf("toolCallId" to "call-1", "title" to "Something", "kind" to "other", "status" to "pending"))
        val answer = client.requestPermissions(call as SessionUpdate.ToolCallUpdate, options)
        val outcome = told(RequestPermissionOutcome.serializer(), answer.outcome)
        return outcome["optionId"].text ?: "cancelled"
    }
}

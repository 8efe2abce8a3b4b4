// A client. Each line it reads is a play: an agent to start, and steps to do. Each line it prints is what it saw of one.
import com.agentclientprotocol.client.Client
import com.agentclientprotocol.client.ClientInfo
import com.agentclientprotocol.client.ClientSession
import com.agentclientprotocol.common.ClientSessionOperations
import com.agentclientprotocol.common.Event
import com.agentclientprotocol.common.SessionCreationParameters
import com.agentclientprotocol.model.*
import com.agentclientprotocol.protocol.JsonRpcException
import com.agentclientprotocol.protocol.Protocol
import com.agentclientprotocol.protocol.invoke
import com.agentclientprotocol.rpc.MethodName
import kotlinx.coroutines.coroutineScope
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import java.util.Collections

suspend fun playAll() {
    for (line in generateSequence(::readLine)) {
        println(json(Player(Json.parseToJsonElement(line) as JsonObject).perform()))
    }
}

class Player(private val play: JsonObject) : ClientSessionOperations {
    private val answers = (play["answers"] as JsonObject).toMutableMap()
    private val asked = Collections.synchronizedList(mutableListOf<Any?>())

    @Volatile private var updates = Collections.synchronizedList(mutableListOf<JsonElement>())
    @Volatile private var cancelAt: String? = null
    private lateinit var protocol: Protocol
    private lateinit var client: Client
    private var session: ClientSession? = null

    suspend fun perform(): Any = coroutineScope {
        val command = (play["command"] as JsonArray).map { it.text!! }
        val process = ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start()
        protocol = Protocol(this, wire(this, process.inputStream, process.outputStream))
        client = Client(protocol)
        protocol.start()
        val steps = (play["steps"] as JsonArray).map { step(it as JsonArray) }
        protocol.close()
        process.outputStream.close()
        process.waitFor()
        mapOf("steps" to steps, "asked" to asked.toList())
    }

    private suspend fun step(step: JsonArray): Any {
        updates = Collections.synchronizedList(mutableListOf())
        val seen = mutableMapOf<String, Any?>()
        try {
            seen["result"] = perform(step[0].text!!, step.drop(1))
        } catch (error: JsonRpcException) {
            val whole = mapOf("code" to error.code, "message" to error.message, "data" to error.data)
            seen["error"] = whole.filterValues { it != null }
        } catch (error: Exception) {
            seen["error"] = mapOf("message" to "$error")
        }
        seen["updates"] = updates.toList()
        return seen
    }

    private suspend fun perform(verb: String, arguments: List<JsonElement>): Any? = when (verb) {
        "answer" -> mapOf<String, Any>().also { answers.putAll(arguments[0] as JsonObject) }
        "initialize" -> {
            val capabilities = typed(ClientCapabilities.serializer(), play["capabilities"])
            val agent = client.initialize(ClientInfo(1, capabilities))
            val whole = InitializeResponse(agent.protocolVersion, agent.capabilities, agent.authMethods, agent.implementation)
            told(InitializeResponse.serializer(), whole)
        }
        "authenticate" -> {
            client.authenticate(typed(AuthMethodId.serializer(), arguments[0]))
            mapOf<String, Any>()
        }
        "new" -> client.newSession(place()) { _, _ -> this }.also { session = it }.let(::opened)
        "load" -> client.loadSession(session!!.sessionId, place()) { _, _ -> this }.also { session = it }.let(::opened)
        "prompt" -> prompt(arguments[0].text!!, arguments.getOrNull(1))
        "set_mode" -> {
            session!!.setMode(typed(SessionModeId.serializer(), arguments[0]))
            mapOf<String, Any>()
        }
        "extension" -> protocol.sendRequestRaw(MethodName("_" + arguments[0].text), arguments[1])
        else -> throw IllegalArgumentException("the Kotlin client has no verb $verb")
    }

    private fun place() = SessionCreationParameters(play["cwd"].text!!, emptyList())

    private fun opened(session: ClientSession) = mapOf(
        "sessionId" to session.sessionId.value,
        "modes" to mapOf(
            "currentModeId" to session.currentMode.value.value,
            "availableModes" to session.availableModes.map { told(SessionMode.serializer(), it) },
        ),
    )

    private suspend fun prompt(text: String, options: JsonElement?): JsonElement {
        cancelAt = options["cancelAt"].text
        val content = listOf(ContentBlock.Text(text))
        options["sessionId"].text?.let { other ->
            val request = PromptRequest(SessionId(other), content)
            return told(PromptResponse.serializer(), AcpMethod.AgentMethods.SessionPrompt(protocol, request))
        }
        var answer: PromptResponse? = null
        session!!.prompt(content).collect { event ->
            when (event) {
                is Event.SessionUpdateEvent -> keep(event.update)
                is Event.PromptResponseEvent -> answer = event.response
            }
        }
        return told(PromptResponse.serializer(), answer!!)
    }

    private suspend fun keep(update: SessionUpdate) {
        val whole = told(SessionUpdate.serializer(), update)
        updates.add(whole)
        if (cancelAt != null && whole["sessionUpdate"].text == cancelAt) {
            cancelAt = null
            session!!.cancel()
        }
    }

    private fun heard(method: String, params: Map<String, Any?>) {
        asked.add(mapOf("method" to method, "params" to params.filterValues { it != null }))
    }

    override suspend fun notify(notification: SessionUpdate, _meta: JsonElement?) = keep(notification)

    override suspend fun requestPermissions(
        toolCall: SessionUpdate.ToolCallUpdate,
        permissions: List<PermissionOption>,
        _meta: JsonElement?,
    ): RequestPermissionResponse {
        val options = permissions.map { told(PermissionOption.serializer(), it) }
        heard("session/request_permission", mapOf("options" to options))
        if (answers["permission"].text == "cancel") {
            session!!.cancel()
            return typed(RequestPermissionResponse.serializer(), mapOf("outcome" to mapOf("outcome" to "cancelled")))
        }
        val chosen = options.first { it["kind"].text == answers["permission"].text }
        val outcome = mapOf("outcome" to "selected", "optionId" to chosen["optionId"])
        return typed(RequestPermissionResponse.serializer(), mapOf("outcome" to outcome))
    }

    override suspend fun fsReadTextFile(path: String, line: UInt?, limit: UInt?, _meta: JsonElement?): ReadTextFileResponse {
        heard("fs/read_text_file", mapOf("path" to path))
        return ReadTextFileResponse(answers["files"][path].text ?: "")
    }

    override suspend fun fsWriteTextFile(path: String, content: String, _meta: JsonElement?): WriteTextFileResponse {
        heard("fs/write_text_file", mapOf("path" to path, "content" to content))
        return WriteTextFileResponse()
    }

    override suspend fun terminalCreate(
        command: String,
        args: List<String>,
        cwd: String?,
        env: List<EnvVariable>,
        outputByteLimit: ULong?,
        _meta: JsonElement?,
    ): CreateTerminalResponse {
        heard("terminal/create", mapOf("command" to command, "args" to args))
        return CreateTerminalResponse("terminal-1")
    }

    override suspend fun terminalOutput(terminalId: String, _meta: JsonElement?): TerminalOutputResponse {
        heard("terminal/output", mapOf("terminalId" to terminalId))
        return typed(TerminalOutputResponse.serializer(), answers["terminal"]["output"])
    }

    override suspend fun terminalWaitForExit(terminalId: String, _meta: JsonElement?): WaitForTerminalExitResponse {
        heard("terminal/wait_for_exit", mapOf("terminalId" to terminalId))
        return typed(WaitForTerminalExitResponse.serializer(), answers["terminal"]["exit"])
    }

    override suspend fun terminalKill(terminalId: String, _meta: JsonElement?): KillTerminalCommandResponse {
        heard("terminal/kill", mapOf("terminalId" to terminalId))
        return KillTerminalCommandResponse()
    }

    override suspend fun terminalRelease(terminalId: String, _meta: JsonElement?): ReleaseTerminalResponse {
        heard("terminal/release", mapOf("terminalId" to terminalId))
        return ReleaseTerminalResponse()
    }
}

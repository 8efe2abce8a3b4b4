// The peers made with the Kotlin SDK: one program, whose first argument is the part it plays.
import com.agentclientprotocol.rpc.ACPJson
import com.agentclientprotocol.transport.StdioTransport
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.runBlocking
import kotlinx.io.asSink
import kotlinx.io.asSource
import kotlinx.io.buffered
import kotlinx.serialization.KSerializer
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.contentOrNull
import kotlinx.serialization.json.jsonPrimitive
import java.io.InputStream
import java.io.OutputStream
import kotlin.system.exitProcess

object Peer {
    @JvmStatic
    fun main(arguments: Array<String>): Unit = runBlocking(Dispatchers.Default) {
        when (arguments[0]) {
            "client" -> playAll()
            "agent" -> serve(arguments.toList())
            else -> throw IllegalArgumentException("received the part ${arguments[0]}, expected client or agent")
        }
        exitProcess(0)
    }
}

fun wire(scope: CoroutineScope, input: InputStream, output: OutputStream) =
    StdioTransport(scope, Dispatchers.IO, input.asSource().buffered(), output.asSink().buffered())

/** What was built by hand as JSON. */
fun json(value: Any?): JsonElement = when (value) {
    null -> JsonNull
    is JsonElement -> value
    is Boolean -> JsonPrimitive(value)
    is Number -> JsonPrimitive(value)
    is Map<*, *> -> JsonObject(value.entries.associate { (name, each) -> name.toString() to json(each) })
    is List<*> -> JsonArray(value.map(::json))
    else -> JsonPrimitive(value.toString())
}

/** Convert what was built by hand, or read, to a type of the SDK. */
fun <T> typed(type: KSerializer<T>, value: Any?): T = ACPJson.decodeFromJsonElement(type, json(value))

fun <T> told(type: KSerializer<T>, value: T): JsonElement = ACPJson.encodeToJsonElement(type, value)

operator fun JsonElement?.get(name: String): JsonElement? = (this as? JsonObject)?.get(name)

val JsonElement?.text: String?
    get() = (this as? JsonPrimitive)?.jsonPrimitive?.contentOrNull

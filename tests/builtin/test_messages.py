"""Text, thoughts, plans, numbers, links, images and audio."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
from pathlib import Path

from duologue.builtin.agent import builtin_agent
from duologue.schema import v1
from tests.agent.wire_client import editor_for
from tests.builtin.harness import Bench, bench


async def test_a_greeting_is_answered_with_what_to_try(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        assert "/help" in await on.say("hello there")


async def test_words_without_meaning_are_said_back_with_all_that_came_along(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        said = await on.say(
            "lorem ipsum",
            v1.ImageContent(data=base64.b64encode(b"1234").decode(), mime_type="image/png"),
            v1.AudioContent(data=base64.b64encode(b"123456").decode(), mime_type="audio/wav"),
            v1.ResourceLink(name="a.txt", uri="file:///a.txt"),
            v1.EmbeddedResource(resource=v1.TextResourceContents(uri="file:///b.txt", text="12345")),
            v1.EmbeddedResource(resource=v1.BlobResourceContents(uri="file:///c.bin", blob="AA==")),
        )
        assert "You said: lorem ipsum\n" in said
        assert "- image, `image/png`, 4 bytes" in said
        assert "- audio, `audio/wav`, 6 bytes" in said
        assert "- a link to [a.txt](file:///a.txt)" in said
        assert "- the text of `file:///b.txt`, 5 characters" in said
        assert "- the bytes of `file:///c.bin`, 1 bytes" in said
        assert "large model" not in said
        await on.say("/config model echo-2")
        assert "large model" in await on.say("lorem ipsum")


async def test_a_prompt_with_only_an_image_is_answered(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        said = await on.say(v1.ImageContent(data="AAAA", mime_type="image/png"))
        assert "nothing I could read as text" in said
        assert "3 bytes" in said


async def test_thoughts_come_before_words_and_are_longer_if_that_is_set(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        await on.say("/think tea")
        *thoughts, words = on.updates[-4:]
        assert all(isinstance(thought, v1.AgentThoughtChunk) for thought in thoughts)
        assert isinstance(words, v1.AgentMessageChunk)
        assert on.of(v1.AgentThoughtChunk)[1].content.text == "This is about tea. "
        await on.say("/config thoughts long")
        await on.say("/think")
        assert len(on.of(v1.AgentThoughtChunk)) == 4


async def test_a_plan_is_sent_completely_after_every_step(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        await on.say("show me a plan")
        told = [[entry.status for entry in plan.entries] for plan in on.of(v1.Plan)]
        assert told == [
            ["in_progress", "pending", "pending"],
            ["completed", "in_progress", "pending"],
            ["completed", "completed", "in_progress"],
            ["completed", "completed", "completed"],
        ]
        await on.say("/named-plan")
        assert on.of(v1.PlanUpdate)
        assert on.of(v1.PlanRemoved)


async def test_usage_is_sent_in_the_turn_and_with_its_response(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        response = await on.prompt("/usage")
        (update,) = on.of(v1.UsageUpdate)
        assert (update.used, update.size, update.cost) == (53_000, 200_000, v1.Cost(amount=0.045, currency="USD"))
        assert response.usage is not None
        assert response.usage.total_tokens == 1_500


async def test_notices_titles_and_words_in_the_users_name(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        await on.say("/notice warning")
        assert on.of(v1.Notice)[0].severity == "warning"
        await on.say("/title Tea for two")
        assert on.of(v1.SessionInfoUpdate)[0].title == "Tea for two"
        assert "| title | Tea for two |" in await on.say("/session")
        await on.say("/title")
        assert on.of(v1.SessionInfoUpdate)[0].title is None
        await on.say("/user-message one more thing")
        assert on.of(v1.UserMessageChunk)[0].content.text == "one more thing"


async def test_content_that_the_client_did_not_advertise_is_not_sent_and_that_is_reported(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(builtin_agent(unstable=True), tmp_path) as editor:
        on = Bench(editor, None)
        on.session = await editor.new()
        for command in ("/notice", "/named-plan"):
            assert "your client does not support it" in await on.say(command)
        assert on.of(v1.Notice) == []


async def test_links_annotations_and_meta(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        await on.say("/links")
        link, text = (chunk.content for chunk in on.of(v1.AgentMessageChunk))
        assert link.uri == (tmp_path / "README.md").as_uri()
        assert link.annotations.last_modified == "2026-01-01T00:00:00Z"
        assert text.annotations == v1.Annotations(audience=["user"], priority=1.0)

        request = v1.PromptRequest(
            session_id=on.session, prompt=[v1.TextContent(text="/meta")], meta={"example.com/trace": 7}
        )
        await on.editor.connection.request(v1.SESSION_PROMPT, request)
        assert '"example.com/trace": 7' in on.text
        assert on.editor.updates[-2].meta == {"duologue.example/attached": True}


async def test_images_and_audio_have_the_declared_format(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        await on.say("show me a picture")  # not prose: a user's words
        image = on.of(v1.AgentMessageChunk)[0].content
        assert isinstance(image, v1.ImageContent)
        assert base64.b64decode(image.data).startswith(b"\x89PNG\r\n\x1a\n")
        assert image.uri == "duologue:example.png"

        await on.say("play some music")
        audio = on.of(v1.AgentMessageChunk)[0].content
        assert isinstance(audio, v1.AudioContent)
        with wave.open(io.BytesIO(base64.b64decode(audio.data))) as sound:
            assert sound.getnframes() / sound.getframerate() == 0.25

        await on.say("/resource")
        text, blob = (chunk.content.resource for chunk in on.of(v1.AgentMessageChunk))
        assert text.text == "# Embedded\n"
        assert base64.b64decode(blob.blob).startswith(b"\x89PNG")

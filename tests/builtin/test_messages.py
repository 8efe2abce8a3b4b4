"""Text, thoughts, plans, numbers, links, images and audio."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
from pathlib import Path

from duologue.builtin.agent import builtin_agent
from duologue.schema import v1
from tests.agent.wire_client import client_for
from tests.builtin.harness import Harness, open_harness


async def test_a_greeting_is_answered_with_what_to_try(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert "/help" in await harness.ask("hello there")


async def test_words_without_meaning_are_said_back_with_all_that_came_along(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        text = await harness.ask(
            "lorem ipsum",
            v1.ImageContent(data=base64.b64encode(b"1234").decode(), mime_type="image/png"),
            v1.AudioContent(data=base64.b64encode(b"123456").decode(), mime_type="audio/wav"),
            v1.ResourceLink(name="a.txt", uri="file:///a.txt"),
            v1.EmbeddedResource(resource=v1.TextResourceContents(uri="file:///b.txt", text="12345")),
            v1.EmbeddedResource(resource=v1.BlobResourceContents(uri="file:///c.bin", blob="AA==")),
        )
        assert "You said: lorem ipsum\n" in text
        assert "- image, `image/png`, 4 bytes" in text
        assert "- audio, `audio/wav`, 6 bytes" in text
        assert "- a link to [a.txt](file:///a.txt)" in text
        assert "- the text of `file:///b.txt`, 5 characters" in text
        assert "- the bytes of `file:///c.bin`, 1 bytes" in text
        assert "large model" not in text
        await harness.ask("/config model echo-2")
        assert "large model" in await harness.ask("lorem ipsum")


async def test_a_prompt_with_only_an_image_is_answered(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        text = await harness.ask(v1.ImageContent(data="AAAA", mime_type="image/png"))
        assert "nothing I could read as text" in text
        assert "3 bytes" in text


async def test_thoughts_come_before_words_and_are_longer_if_that_is_set(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("/think tea")
        *thoughts, words = harness.updates[-4:]
        assert all(isinstance(thought, v1.AgentThoughtChunk) for thought in thoughts)
        assert isinstance(words, v1.AgentMessageChunk)
        assert harness.of(v1.AgentThoughtChunk)[1].content.text == "This is about tea. "
        await harness.ask("/config thoughts long")
        await harness.ask("/think")
        assert len(harness.of(v1.AgentThoughtChunk)) == 4


async def test_a_plan_is_sent_completely_after_every_step(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("show me a plan")
        changes = [[entry.status for entry in plan.entries] for plan in harness.of(v1.Plan)]
        assert changes == [
            ["in_progress", "pending", "pending"],
            ["completed", "in_progress", "pending"],
            ["completed", "completed", "in_progress"],
            ["completed", "completed", "completed"],
        ]
        await harness.ask("/named-plan")
        assert harness.of(v1.PlanUpdate)
        assert harness.of(v1.PlanRemoved)


async def test_usage_is_sent_in_the_turn_and_with_its_response(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        response = await harness.prompt("/usage")
        (update,) = harness.of(v1.UsageUpdate)
        assert (update.used, update.size, update.cost) == (53_000, 200_000, v1.Cost(amount=0.045, currency="USD"))
        assert response.usage is not None
        assert response.usage.total_tokens == 1_500


async def test_notices_titles_and_words_in_the_users_name(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("/notice warning")
        assert harness.of(v1.Notice)[0].severity == "warning"
        await harness.ask("/title Tea for two")
        assert harness.of(v1.SessionInfoUpdate)[0].title == "Tea for two"
        assert "| title | Tea for two |" in await harness.ask("/session")
        await harness.ask("/title")
        assert harness.of(v1.SessionInfoUpdate)[0].title is None
        await harness.ask("/user-message one more thing")
        assert harness.of(v1.UserMessageChunk)[0].content.text == "one more thing"


async def test_content_that_the_client_did_not_advertise_is_not_sent_and_that_is_reported(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(builtin_agent(unstable=True), tmp_path) as client:
        harness = Harness(client, None)
        harness.session = await client.new()
        for command in ("/notice", "/named-plan"):
            assert "your client does not support it" in await harness.ask(command)
        assert harness.of(v1.Notice) == []


async def test_links_annotations_and_meta(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("/links")
        link, text = (chunk.content for chunk in harness.of(v1.AgentMessageChunk))
        assert link.uri == (tmp_path / "README.md").as_uri()
        assert link.annotations.last_modified == "2026-01-01T00:00:00Z"
        assert text.annotations == v1.Annotations(audience=["user"], priority=1.0)

        request = v1.PromptRequest(
            session_id=harness.session, prompt=[v1.TextContent(text="/meta")], meta={"example.com/trace": 7}
        )
        await harness.client.connection.request(v1.SESSION_PROMPT, request)
        assert '"example.com/trace": 7' in harness.text
        assert harness.client.updates[-2].meta == {"duologue.example/attached": True}


async def test_images_and_audio_have_the_declared_format(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("show me a picture")  # not prose: a user's words
        image = harness.of(v1.AgentMessageChunk)[0].content
        assert isinstance(image, v1.ImageContent)
        assert base64.b64decode(image.data).startswith(b"\x89PNG\r\n\x1a\n")
        assert image.uri == "duologue:example.png"

        await harness.ask("play some music")
        audio = harness.of(v1.AgentMessageChunk)[0].content
        assert isinstance(audio, v1.AudioContent)
        with wave.open(io.BytesIO(base64.b64decode(audio.data))) as wav:
            assert wav.getnframes() / wav.getframerate() == 0.25

        await harness.ask("/resource")
        text, blob = (chunk.content.resource for chunk in harness.of(v1.AgentMessageChunk))
        assert text.text == "# Embedded\n"
        assert base64.b64decode(blob.blob).startswith(b"\x89PNG")

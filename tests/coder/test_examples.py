"""The examples that use the coding agent, run as the programs they are."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from duologue.testing import ModelServer, ModelTurn, RequestPattern, tool_call

EXAMPLES = Path(__file__).parents[2] / "examples"

CHECK = """\
import calc, unittest

class Test(unittest.TestCase):
    def test(self):
        self.assertEqual(calc.add(1, 1), 2)
"""
EDIT = tool_call("edit_file", path="calc.py", old_text="a - b", new_text="a + b")
TESTS = tool_call("run_command", command="python3 -m unittest")
REMOVE = tool_call("run_command", command="rm test_calc.py")


async def test_the_agent_fixes_a_project_from_a_program_and_runs_its_tests_only(project: Path, tmp_path: Path) -> None:
    (project / "test_calc.py").write_text(CHECK)
    script = [
        ModelTurn("I look. ", tools=[TESTS], expect=RequestPattern(api="responses", prompt="fix what fails")),
        ModelTurn(tools=[REMOVE], expect=RequestPattern(tool_result="FAILED (failures=1)")),
        ModelTurn(tools=[EDIT], expect=RequestPattern(tool_result="did not permit")),
        ModelTurn(tools=[TESTS]),
        ModelTurn("Fixed.", expect=RequestPattern(tool_result="OK")),
    ]
    async with asyncio.timeout(200), ModelServer(script) as server:
        directories = {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CONFIG", "DATA", "STATE")}
        model = {"OPENAI_API_KEY": server.api_key, "OPENAI_BASE_URL": server.openai_url}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, str(EXAMPLES / "fix_project.py"), str(project)),
            env={**os.environ, **directories, **model, "PATH": path},
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await child.communicate()
        server.check()

    assert child.returncode == 0
    assert (project / "test_calc.py").exists()
    assert output.decode().splitlines() == [
        "I look. [completed] python3 -m unittest",
        "[failed] rm test_calc.py",
        "[completed] Edit calc.py",
        "[completed] python3 -m unittest",
        "Fixed.",
        "ended: end_turn",
    ]

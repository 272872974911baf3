"""`llmprof mcp` with the protocol's official client, and with arguments that nobody would write."""

from __future__ import annotations

import asyncio
import json
import random
import string
import subprocess
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from llmprof_harness import find_binary
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "fixtures/faults/sync_each_layer.json.gz"
ANSWER_BYTES_MAX = 8192


@pytest.fixture(scope="module")
def folder(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mcp")
    subprocess.run([binary, "import", TRACE, "-o", "runs/one"], cwd=path, check=True, capture_output=True)
    return path


def with_client(binary: Path, folder: Path, use: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        server = StdioServerParameters(command=str(binary), args=["mcp"], cwd=folder)
        async with Client(stdio_client(server)) as client:
            await use(client)

    asyncio.run(run())


@cache
def validator(binary: Path, schema: str) -> Draft202012Validator:
    printed = subprocess.run([binary, "schema", schema], capture_output=True, text=True, check=True).stdout
    Draft202012Validator.check_schema(json.loads(printed))
    return Draft202012Validator(json.loads(printed))


def check_schema(binary: Path, answer: dict[str, Any]) -> None:
    """An answer is what its schema says, and has no key that the schema does not have."""
    known = validator(binary, answer["schema"])
    known.validate(answer)
    assert set(answer) <= set(known.schema["properties"]), answer


async def call(client: Client, tool: str, arguments: dict[str, Any]) -> tuple[bool, Any]:
    """Whether the answer is an error, and the answer, which follows its schema."""
    result = await client.call_tool(tool, arguments)
    [content] = result.content
    assert content.type == "text"
    assert len(content.text.encode()) <= ANSWER_BYTES_MAX
    answer = json.loads(content.text)
    check_schema(find_binary(), answer)
    return bool(result.is_error), answer


def test_the_official_client_reads_a_run(binary: Path, folder: Path) -> None:
    async def use(client: Client) -> None:
        assert client.server_info.name == "llmprof"
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {"runs", "summary", "findings", "explain", "kernels", "window", "compare", "predict"}
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        failed, answer = await call(client, "runs", {})
        assert not failed and answer["runs"][0]["run"] == "runs/one"
        failed, answer = await call(client, answer["next"][0]["tool"], answer["next"][0]["arguments"])
        assert not failed
        [found] = [finding for finding in answer["findings"] if finding["code"] == "synchronization"]
        assert found["gain"][0]["saved_ms"] > 0
        failed, explained = await call(client, "explain", {"run": "runs/one", "id": found["id"]})
        assert not failed
        assert {key: explained[key] for key in found} == found

    with_client(binary, folder, use)


def texts(chance: random.Random) -> str:
    """Ids and paths with a part changed, and noise."""
    known = ["runs/one", "finding=1", "kernel=2", "phase=decode", "step=0", "window=0..5000", "request=1", "..", "/etc/passwd", "model=llama3_1_8b"]
    text = chance.choice([*known, ""])
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(text) + 1)
        noise = chance.choice([chance.choice(string.printable), "\u0000", "\u202e", "é", "=", "..", "9" * 25, "-", "\\", "'", "${oc.env:HOME}", "/" * 9])
        text = text[:place] + noise + text[place + chance.randrange(2) :]
    return text


def value(chance: random.Random, depth: int = 0) -> Any:
    kinds: list[Any] = [None, True, 0, -1, 1, 3, 2**63, -(2**63), 1e308, 0.5, texts(chance), texts(chance), texts(chance), "x" * 5000]
    if depth < 2:
        kinds += [[value(chance, depth + 1) for _ in range(chance.randrange(3))], {texts(chance): value(chance, depth + 1)}]
    return chance.choice(kinds)


def test_any_arguments_are_answered(binary: Path, folder: Path) -> None:
    """A call with any arguments is answered: with data, or with an error that names a call that works."""
    chance = random.Random(20261117)
    names = ["run", "id", "from", "filter", "step", "from_ms", "to_ms", "a", "b", "overrides"]
    calls = []
    for _ in range(400):
        arguments = {chance.choice([*names, "other"]): value(chance) for _ in range(chance.randrange(4))}
        # Most calls name a run, or nothing behind it is reached.
        if chance.random() < 0.7:
            arguments["run"] = "runs/one"
        tool = chance.choice(["runs", "summary", "findings", "explain", "kernels", "window", "compare", "predict"])
        calls.append((tool, arguments))

    async def use(client: Client) -> None:
        errors = 0
        for tool, arguments in calls:
            failed, answer = await call(client, tool, arguments)
            errors += failed
            if failed:
                assert answer["error"], (tool, arguments)
                step = answer["next"][0]
                again, _ = await call(client, step["tool"], step["arguments"])
                assert not again, (tool, arguments, answer)
            assert "root:" not in json.dumps(answer)
        assert 100 < errors < len(calls)

    with_client(binary, folder, use)


def test_lines_that_are_no_messages_do_not_end_it(binary: Path, folder: Path) -> None:
    chance = random.Random(20261118)
    lines = [bytes(chance.randrange(256) for _ in range(chance.randrange(200))).replace(b"\n", b"") for _ in range(200)]
    lines += [b"[" * 100_000, b"x" * 3_000_000, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5}}']
    lines += [b'{"jsonrpc": "2.0", "id": "last", "method": "ping"}']
    process = subprocess.run([binary, "mcp"], input=b"\n".join(lines) + b"\n", cwd=folder, capture_output=True, check=True, timeout=120)
    replies = [json.loads(line) for line in process.stdout.splitlines()]
    assert replies[-1] == {"jsonrpc": "2.0", "id": "last", "result": {}}
    assert all("error" in reply for reply in replies[:-1])


def test_answers_in_a_shell_follow_their_schemas(binary: Path, folder: Path) -> None:
    ids = ["summary", "findings", "kernels", "finding=1", "finding=99", "kernel=1", "phase=decode", "step=0", "window=0..1000000", "request=0"]
    seen = set()
    for id_ in ids:
        done = subprocess.run([binary, "explain", "runs/one", id_], cwd=folder, capture_output=True, text=True, check=False)
        answer = json.loads(done.stdout)
        check_schema(binary, answer)
        assert (done.returncode == 2) == (answer["schema"] == "llmprof.agent.error/1")
        seen.add(answer["schema"])
    listed = subprocess.run([binary, "schema"], capture_output=True, text=True, check=True).stdout.split()
    listed = [name for name in listed if name.startswith("llmprof.agent.")]
    # Requests, comparisons, predictions and the list of runs are those of other tests.
    assert seen == set(listed) - {f"llmprof.agent.{name}/1" for name in ("explain_request", "compare", "predict", "runs")}

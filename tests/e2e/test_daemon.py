"""The real daemon with the real default model over a real port: same bits, unloading, queue, kills and ends."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ollama
import psutil
import pytest

from localdecide.store.store import Store

STATE = "I was charged twice for one order. Refund me today, please."
QUESTIONS: dict[str, Any] = {
    "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "payments", "technical": "bugs"}},
    "urgent": {"type": "noul", "instructions": "The customer needs an answer today"},
    "tone": {"type": "score", "instructions": "How upset?", "criteria": ["calm", "annoyed", "furious"]},
}
URGENT = {"urgent": QUESTIONS["urgent"]}
LONG = "again " * 150


@dataclass(frozen=True)
class Daemon:
    """A process that serves, and its port."""

    process: subprocess.Popen[bytes]
    port: int

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes, http.client.HTTPMessage]:
        """Status, body and headers of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            return response.status, response.read(), response.headers
        finally:
            connection.close()

    def decide(self, state: str = STATE, questions: Any = QUESTIONS, **fields: Any) -> tuple[int, bytes]:
        """Status and raw bytes of a decision of the default model."""
        return self.ask("POST", "/v1/systemone", {"state": state, "questions": questions, **fields})[:2]

    def answers(self, **fields: Any) -> bytes:
        """The bytes of `answers` as they crossed the wire: everything before how the work was done."""
        status, body = self.decide(**fields)
        assert (200, 1) == (status, body.count(b',"x_exact"'))
        return body.partition(b',"x_exact"')[0]

    def loaded(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.ask("GET", "/api/ps")[1])["models"]
        return found

    def runners(self) -> list[psutil.Process]:
        """Its children that hold a model."""
        return psutil.Process(self.process.pid).children()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def start(root: Path, **settings: str) -> Daemon:
    """A daemon on the store `root` that accepts connections; `settings` by lower-case name."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCALDECIDE_")}
    chosen = {"host": f"127.0.0.1:{port}", "models": str(root), "log_level": "warning", **settings}
    process = subprocess.Popen(
        [sys.executable, "-m", "localdecide.cli.main", "serve"],
        env=kept | {f"LOCALDECIDE_{name.upper()}": value for name, value in chosen.items()},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for _ in range(600):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return Daemon(process, port)
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    raise AssertionError("the daemon did not listen within 30 s")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> Path:
    """A store that holds the default model."""
    folder = tmp_path_factory.mktemp("models")
    Store(folder).resolve("smollm2")
    return folder


@pytest.fixture(scope="module")
def daemon(root: Path) -> Iterator[Daemon]:
    made = start(root)
    yield made
    if made.process.poll() is None:
        assert made.end() == 0


def test_the_same_request_gives_the_same_bytes(daemon: Daemon) -> None:
    """Cold, repeated, from a loaded model, while 8 other requests run, and after a restart of the runner."""
    cold = daemon.answers()
    repeated = daemon.answers()
    with ThreadPoolExecutor(9) as pool:
        others = [pool.submit(daemon.decide, f"Case {number} {'more ' * 8 * number}", URGENT) for number in range(8)]
        loaded = list(pool.map(lambda _: daemon.answers(), range(3)))
        statuses = {other.result()[0] for other in others}
    assert daemon.answers(keep_alive=0) == cold
    again = daemon.answers()

    assert [cold] * 5 == [repeated, *loaded, again]
    assert statuses == {200}


def test_exact_answers_ignore_companions_and_order(daemon: Daemon) -> None:
    """With `exact`, alone, in company and in another order: each question's answer has the same bits."""

    def answers(*names: str) -> dict[str, Any]:
        questions = {name: QUESTIONS[name] for name in names}
        body = {"state": STATE, "questions": questions, "options": {"exact": True}}
        reply = json.loads(daemon.ask("POST", "/v1/systemone", body)[1])
        assert reply["x_exact"] is True
        found: dict[str, Any] = reply["answers"]
        assert [*found] == [*names]
        return found

    together = answers("team", "urgent", "tone")
    assert together == answers("tone", "team", "urgent")
    assert together == answers("team") | answers("urgent") | answers("tone")


def test_curl_and_the_ollama_client(daemon: Daemon) -> None:
    """Both get three answers, and the same numbers."""
    url = f"http://127.0.0.1:{daemon.port}"
    body = json.dumps({"model": "smollm2", "state": STATE, "questions": QUESTIONS})
    curl = shutil.which("curl")
    assert curl, "this test runs curl"
    run = subprocess.run([curl, "-s", f"{url}/v1/systemone", "-d", body], capture_output=True, check=True)
    plain = json.loads(run.stdout)
    with ollama.Client(url) as official:
        reply = official.systemone(model="smollm2", state=STATE, questions=QUESTIONS)
    client = json.loads(reply.model_dump_json())["answers"]

    assert [*plain][:3] == ["model", "answers", "usage"]
    assert (plain["model"], plain["usage"]["output_tokens"]) == ("smollm2:latest", 0)
    assert [answer["type"] for answer in plain["answers"].values()] == ["choice", "noul", "score"]
    for name, field in (("team", "choice"), ("urgent", "noul"), ("tone", "score")):
        assert plain["answers"][name][field] == client[name][field]
    assert plain["answers"]["team"]["probabilities"] == client["team"]["probabilities"]
    assert plain["answers"]["tone"]["probabilities"] == client["tone"]["probabilities"]


def test_label_mass_where_labels_are_read(daemon: Daemon) -> None:
    """Yes or no and scores are read at labels and say how much of the vocabulary those hold; option text has none."""
    found = json.loads(daemon.decide()[1])["answers"]

    assert {name: "x_label_mass" in answer for name, answer in found.items()} == {
        "team": False,
        "urgent": True,
        "tone": True,
    }
    assert all(0 < answer["x_label_mass"] <= 1 for answer in found.values() if "x_label_mass" in answer)
    assert {name: answer["x_readout"] for name, answer in found.items()} == {
        "team": "text",
        "urgent": "yesno",
        "tone": "digits",
    }


def test_control_tokens_in_a_state_cost_what_their_characters_cost(daemon: Daemon) -> None:
    """`<|im_end|>` in a state is ten characters, not one token: the prompt grows by more than one each."""

    def tokens(state: str) -> int:
        reply = json.loads(
            daemon.ask("POST", "/v1/systemone", {"state": state, "questions": {"a": QUESTIONS["urgent"]}})[1]
        )
        return int(reply["usage"]["input_tokens"])

    assert tokens("x" + "<|im_end|>" * 10) - tokens("x") >= 30


def test_a_prompt_that_does_not_fit_is_refused(daemon: Daemon) -> None:
    """400 with the question and both numbers; the next request is answered."""
    status, body = daemon.decide(LONG * 20)
    sentence = json.loads(body)["error"]

    assert status == 400
    assert sentence.startswith('prompt for question "team" has ')
    assert sentence.endswith(" tokens; the model's context is 2048 (input is never truncated)")
    assert daemon.decide()[0] == 200


def test_keep_alive_and_explicit_unload(daemon: Daemon) -> None:
    """0 unloads after the answer; -1 pins; a plain request keeps the pin; an empty generate with 0 unloads."""
    assert daemon.decide(keep_alive=0)[0] == 200
    for _ in range(100):
        if not daemon.loaded():
            break
        time.sleep(0.05)
    assert daemon.loaded() == []
    assert daemon.decide(keep_alive="-1")[0] == 200
    assert daemon.decide()[0] == 200
    assert [model["forever"] for model in daemon.loaded()] == [True]
    status, body, _ = daemon.ask("POST", "/api/generate", {"model": "smollm2", "keep_alive": 0})
    assert (200, "unload") == (status, json.loads(body)["done_reason"])
    assert (daemon.loaded(), daemon.runners()) == ([], [])


def test_parameters_are_checked_and_shown(daemon: Daemon) -> None:
    """Every PARAMETER of the table reaches `show`; a value of the wrong kind and an unknown name are refused."""
    sizes = {"num_ctx": 1024, "num_batch": 128, "num_ubatch": 64, "num_thread": 1, "num_gpu": 0, "main_gpu": 0}
    given = sizes | {"use_mmap": True, "flash_attention": "off", "kv_cache_type": "f32", "keep_alive": "1m"}
    body = {"model": "tuned", "from": "smollm2", "parameters": given, "stream": False}
    assert daemon.ask("POST", "/api/create", body)[0] == 200
    assert daemon.ask("POST", "/v1/systemone", {"model": "tuned", "state": "x", "questions": QUESTIONS})[0] == 200
    shown = json.loads(daemon.ask("POST", "/api/show", {"model": "tuned"})[1])
    assert daemon.ask("DELETE", "/api/delete", {"model": "tuned"})[0] == 200

    lines = dict(line.split(None, 1) for line in shown["parameters"].splitlines())
    assert lines == {name: str(value).lower() for name, value in given.items()}
    engine = shown["loaded"]["engine"]
    assert (1024, 128, 64, 1, "off", "f32") == tuple(
        engine[name] for name in ("context", "batch", "ubatch", "threads", "flash_attention", "kv_cache_type")
    )
    for name, value in (("num_ctx", "many"), ("flash_attention", "maybe"), ("kv_cache_type", "q4_0"), ("num_foo", 1)):
        status, reply, _ = daemon.ask("POST", "/api/create", {**body, "parameters": {name: value}})
        assert (400, True) == (status, name in json.loads(reply)["error"])


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")
def test_kill_9_of_a_runner_during_twenty_requests(daemon: Daemon) -> None:
    """Each gets an answer or a JSON error, the daemon keeps its process, the next request has the same bytes."""
    before = daemon.answers()
    with ThreadPoolExecutor(20) as pool:
        requests = [pool.submit(daemon.decide, f"{number} {'again ' * 20}", URGENT) for number in range(20)]
        time.sleep(0.3)
        (runner,) = daemon.runners()
        runner.kill()
        replies = [request.result() for request in requests]

    assert {status for status, _ in replies} <= {200, 500}
    # At most those that the runner held; one that it had hardly received is asked again and gets an answer.
    assert sum(status == 500 for status, _ in replies) <= 4
    assert all(["error"] == [*json.loads(body)] for status, body in replies if status == 500)
    assert daemon.answers() == before
    assert (daemon.process.poll(), runner.is_running()) == (None, False)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")
def test_requests_that_share_decode_calls(root: Path, daemon: Daemon) -> None:
    """Four lanes, twelve clients, a broken request and one that leaves among them: the answers of alone, nearly."""
    states = [f"Case {number}: {STATE} {'more ' * (40 * (number % 3))}" for number in range(12)]
    alone = [json.loads(daemon.decide(state)[1])["answers"] for state in states]
    shared = start(root, num_parallel="4")
    try:
        assert shared.decide()[0] == 200
        shown = json.loads(shared.ask("POST", "/api/show", {"model": "smollm2"})[1])
        with ThreadPoolExecutor(14) as pool:
            replies = [pool.submit(shared.decide, state) for state in states]
            broken = pool.submit(shared.decide, "again " * 5000)
            with socket.create_connection(("127.0.0.1", shared.port)) as leaving:
                body = json.dumps({"state": LONG, "questions": QUESTIONS}).encode()
                leaving.sendall(
                    b"POST /v1/systemone HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
                )
                leaving.sendall(body)
                time.sleep(0.3)
            found = [json.loads(reply.result()[1])["answers"] for reply in replies]
        assert broken.result()[0] == 400
        for mine, wanted in zip(found, alone, strict=True):
            assert mine["tone"]["probabilities"] == pytest.approx(wanted["tone"]["probabilities"], abs=0.02)
            assert mine["urgent"]["noul"] == pytest.approx(wanted["urgent"]["noul"], abs=0.02)
    finally:
        assert shared.end() == 0
    assert 4 == shown["loaded"]["engine"]["parallel"]


def test_a_full_queue_refuses_and_a_signal_drains(root: Path) -> None:
    """Beyond the bound 503 with Retry-After; after SIGTERM what runs is answered, nothing new is, and all ends."""
    daemon = start(root, max_queue="2", shutdown_grace="60s")
    assert daemon.decide()[0] == 200
    (runner,) = daemon.runners()
    body = {"state": "", "questions": URGENT}
    with ThreadPoolExecutor(12) as pool:
        sent = [pool.submit(daemon.ask, "POST", "/v1/systemone", {**body, "state": f"{n} {LONG}"}) for n in range(8)]
        refused = [reply for reply in (request.result() for request in sent) if reply[0] == 503]
        assert len(refused) >= 1
        assert all(int(headers["retry-after"]) >= 1 for _, _, headers in refused)
        assert all("LOCALDECIDE_MAX_QUEUE" in json.loads(reply)["error"] for _, reply, _ in refused)
        running = pool.submit(daemon.ask, "POST", "/v1/systemone", {**body, "state": "other " * 800})
        time.sleep(0.3)
        daemon.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        late = daemon.ask("POST", "/v1/systemone", body) if not running.done() else (503, b'{"error": ""}', None)
        assert (503, ["error"]) == (late[0], [*json.loads(late[1])])
        assert running.result()[0] == 200
    assert daemon.process.wait(20) == 0
    assert not runner.is_running()

"""`localdecide bench` against fakes: what it sends, what it counts, what its table says."""

from __future__ import annotations

import http.server
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cli_doubles import Outcome

from localdecide.cli import processes
from localdecide.cli.bench_cells import Cell, Figures, Round, calibrate, cells, questions, text
from localdecide.cli.bench_target import PATHS, Reply, Target, TargetFailed


class Many(http.server.ThreadingHTTPServer):
    """Takes as many connections at once as sixteen clients may open."""

    request_queue_size = 64


class Server:
    """Answers System One like a model that decodes three tokens a word; keeps every body with its path."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any], str | None]] = []
        self.status = 200
        self.counts = True
        self.replies: dict[str, Any] = {}
        self.targets: list[Target] = []
        seen: set[str] = set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(200, {})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path in outer.replies:
                    return self._send(200, outer.replies[self.path])
                outer.asked.append((self.path, body, self.headers["Authorization"]))
                if outer.status != 200:
                    return self._send(outer.status, {"error": "the model is on holiday"})
                words, count = len(body["state"].split()), len(body["questions"])
                cached = 3 * words if body["state"] in seen else 0
                seen.add(body["state"])
                reply: dict[str, Any] = {"answers": {key: {"noul": 0.5} for key in body["questions"]}}
                if outer.counts:
                    reply["usage"] = {"input_tokens": (3 * words + 40) * count}
                    reply["x_decoded_tokens"] = 3 * words - cached + 40 * count
                    reply["x_compute_seconds"] = 0.5
                self._send(200, reply)

            def _send(self, status: int, value: Any) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._http = Many(("127.0.0.1", 0), Handler)
        self.port = self._http.server_port
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def target(self, dialect: str = "localdecide", model: str = "m") -> Target:
        self.targets.append(Target(f"http://127.0.0.1:{self.port}", dialect, model))
        return self.targets[-1]

    def close(self) -> None:
        for target in self.targets:
            target.close()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def rival() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """A short table and a daemon: the fake at LOCALDECIDE_HOST."""
    server.replies["/api/show"] = {"loaded": {"engine": {"threads": 1}}}
    monkeypatch.setenv("LOCALDECIDE_HOST", f"127.0.0.1:{server.port}")
    short = [Cell(300, 1, "cold"), Cell(300, 4, "cold"), Cell(300, 4, "cached"), Cell(200, 1, "clients", 4)]
    monkeypatch.setattr("localdecide.cli.bench.cells", lambda quick: short)


def test_cells_are_those_of_the_targets() -> None:
    """The full table: 3 lengths by 4 counts, cold and cached, and three numbers of clients; quick asks less."""
    full = cells(False)
    assert 27 == len(full)
    assert {(200, 1), (1000, 16), (2000, 64)} <= {(cell.state, cell.questions) for cell in full}
    assert [1, 4, 16] == [cell.clients for cell in full if cell.mode == "clients"]
    assert set(cells(True)) < set(full)


def test_lengths_are_calibrated(server: Server) -> None:
    """What two requests say of their tokens gives words per token; the state then has the wanted length."""
    words = calibrate(server.target(), "s")
    assert 1 / 3 == pytest.approx(words)

    Round(words, "s").play(Cell(900, 1, "cold"), [server.target()], figures := {})
    state = server.asked[-1][1]["state"]
    assert 300 == pytest.approx(len(state.split()), abs=2)
    assert [3 * len(state.split()) + 40] == figures[0, Cell(900, 1, "cold")].decoded


def test_cold_states_are_new_and_cached_ones_are_not(server: Server) -> None:
    """Each cold turn asks about another state; a cached turn asks about one that was just read."""
    sent = Round(1.0, "s")
    figures: dict[tuple[int, Cell], Figures] = {}
    for _ in range(3):
        sent.play(Cell(50, 1, "cold"), [server.target()], figures)
    assert 3 == len({body["state"] for _, body, _ in server.asked})

    sent.play(Cell(50, 4, "cached"), [server.target()], figures)
    (_, warm, _), (_, timed, _) = server.asked[-2:]
    assert warm["state"] == timed["state"]
    assert (1, 4) == (len(warm["questions"]), len(timed["questions"]))
    assert [160] == figures[0, Cell(50, 4, "cached")].decoded


def test_servers_get_the_same_texts_in_turn(server: Server, rival: Server) -> None:
    """Both servers are asked about the same states with the same questions, each by its own model's name."""
    sent = Round(1.0, "s")
    figures: dict[tuple[int, Cell], Figures] = {}
    sent.play(Cell(50, 4, "cold"), [server.target(model="a"), rival.target("vllm", "b")], figures)

    (path, ours, _), (other_path, theirs, _) = server.asked[0], rival.asked[0]
    assert ("a", "b") == (ours.pop("model"), theirs.pop("model"))
    assert ours == theirs
    assert ("/v1/systemone", PATHS["vllm"]) == (path, other_path)


def test_clients_share_the_requests(server: Server) -> None:
    """Sixteen requests whatever the number of clients, each about a state of its own."""
    figures: dict[tuple[int, Cell], Figures] = {}
    for clients in (1, 16):
        cell = Cell(50, 1, "clients", clients)
        Round(1.0, f"{clients}").play(cell, [server.target()], figures)
        assert 16 == figures[0, cell].requests
    assert 32 == len({body["state"] for _, body, _ in server.asked})


def test_figures_by_hand() -> None:
    """Median, nearest-rank p95, least CPU per request, best rate and throughput of known numbers."""
    figures = Figures()
    for number in range(1, 21):
        body = {"x_decoded_tokens": 100, "x_compute_seconds": 1.0 / number}
        figures.add([Reply(float(number), body)], cpu=number / 10, wall=0.5)

    assert 10.5 == figures.median
    assert 19.0 == figures.p95
    assert 0.1 == figures.cpu_seconds
    assert 2000 == pytest.approx(figures.rate)
    assert 2.0 == figures.throughput


def test_a_server_that_says_nothing_of_tokens_cannot_be_measured(server: Server) -> None:
    """Without counts there is no state of a known length, and the reason says so."""
    server.counts = False
    with pytest.raises(TargetFailed, match="does not count the tokens"):
        calibrate(server.target(), "s")


@pytest.mark.usefixtures("small")
def test_table_and_ratios(cli: Callable[..., Outcome], server: Server, rival: Server) -> None:
    """Each line of ours is followed by the other server's with its ratios; JSON holds the same rows."""
    url = f"http://127.0.0.1:{rival.port}"
    done = cli("bench", "m", "--against", url, "--dialect", "llama.cpp", "--against-model", "n", "--quick")
    lines = done.out.splitlines()
    assert (0, 9) == (done.code, len(lines))
    assert ["SERVER", "MODE", "STATE", "QUESTIONS"] == lines[0].split()[:4]
    assert ["localdecide", "llama.cpp"] * 4 == [line.split()[0] for line in lines[1:]]
    assert " x" in lines[2]
    assert {"n"} == {body["model"] for _, body, _ in rival.asked}

    printed = json.loads(cli("bench", "m", "--against", url, "--dialect", "llama.cpp", "--json").out)
    assert {"threads": 1} == printed["engine"]
    assert [0, 1] * 4 == [row["server"] for row in printed["rows"]]
    cold = next(row for row in printed["rows"] if row["questions"] == 4 and row["mode"] == "cold")
    assert 5 == cold["requests"]
    assert 1.0 == max(row["of_best_rate"] for row in printed["rows"] if row["mode"] == "cold")


@pytest.mark.usefixtures("small")
def test_the_key_goes_to_the_daemon_only(
    cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, server: Server, rival: Server
) -> None:
    """LOCALDECIDE_API_KEY is the daemon's; another server never sees it."""
    monkeypatch.setenv("LOCALDECIDE_API_KEY", "secret")
    assert 0 == cli("bench", "m", "--against", f"127.0.0.1:{rival.port}", "--dialect", "vllm", "--quick").code
    assert {"Bearer secret"} == {key for _, _, key in server.asked}
    assert {None} == {key for _, _, key in rival.asked}


@pytest.mark.usefixtures("small")
def test_wrong_calls_and_failures(cli: Callable[..., Outcome], server: Server, free_port: int) -> None:
    """Half an --against, an unknown dialect and a bad address are usage errors; a failing server is named."""
    assert (2, True) == ((got := cli("bench", "m", "--against", "http://x")).code, "go together" in got.err)
    assert (2, True) == ((got := cli("bench", "m", "--against", "x", "--dialect", "y")).code, "no dialect" in got.err)
    bad = cli("bench", "m", "--against", "ftp://x", "--dialect", "vllm")
    assert (2, True) == (bad.code, "is not the address" in bad.err)
    gone = cli("bench", "m", "--against", f"127.0.0.1:{free_port}", "--dialect", "vllm")
    assert (1, True) == (gone.code, f"127.0.0.1:{free_port} did not answer" in gone.err)
    server.status = 500
    failed = cli("bench", "m")
    assert (1, True) == (failed.code, "status 500" in failed.err and "on holiday" in failed.err)


@pytest.mark.skipif(not processes.PROC.is_dir(), reason="needs /proc")
def test_cpu_time_of_a_listener_and_its_children(server: Server) -> None:
    """The process behind a port is found, its children with it, and its CPU time grows with its work."""
    assert os.getpid() == processes.listener(server.port)
    before = processes.cpu_seconds(os.getpid())
    spent = time.process_time()
    while time.process_time() - spent < 0.05:
        text(1000, "work")
    assert processes.cpu_seconds(os.getpid()) - before >= 0.03
    assert os.getpid() in processes.tree(os.getppid())


def test_nobody_listens(free_port: int) -> None:
    """No process is made up for a free port, and questions do not depend on the run."""
    assert processes.listener(free_port) is None
    assert questions(3) == questions(3)

"""What a bench asks, and the figures of each cell: pure apart from the requests it is given to send.

A cell is one line of the table. `cold`: a state nobody asked about before. `cached`: the same state
again. `clients`: short requests from several connections at once.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from localdecide.cli.bench_target import Reply, Target, TargetFailed

SHORT_STATE = 200
REQUESTS_PER_CLIENT_CELL = 16
_TEXT = """
the invoice was charged twice and our customer asks for a refund before the end of this week because
her order came late with a broken seal while nobody from support called back about the second payment
"""
_WORDS = _TEXT.split()


@dataclass(frozen=True, slots=True)
class Cell:
    """state: its tokens. questions: in one request. mode: cold, cached or clients. clients: at once."""

    state: int
    questions: int
    mode: str
    clients: int = 1


def cells(quick: bool) -> list[Cell]:
    """The lines of the table, in its order."""
    states, counts, clients = (
        ((200, 1000), (1, 16), (1, 4)) if quick else ((200, 1000, 2000), (1, 4, 16, 64), (1, 4, 16))
    )
    single = [Cell(state, count, mode) for mode in ("cold", "cached") for state in states for count in counts]
    return single + [Cell(SHORT_STATE, 1, "clients", number) for number in clients]


def questions(count: int) -> dict[str, Any]:
    """`count` yes/no questions of about 40 tokens that begin alike."""
    begin = "Judge by nothing but the text above, and say whether this statement about the customer is correct:"
    made = {}
    for index in range(count):
        chosen = random.Random(index)
        made[f"q{index}"] = {
            "type": "noul",
            "instructions": f"{begin} {' '.join(chosen.choice(_WORDS) for _ in range(12))}",
        }
    return made


def text(words: int, seed: str) -> str:
    """A state of so many words, another for each seed from its first words on."""
    chosen = random.Random(seed)
    return " ".join([f"Case {seed}:", *(chosen.choice(_WORDS) for _ in range(words))])


@dataclass
class Figures:
    """Of one cell at one server. Lists hold one number a request (seconds) or a turn (the others)."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    compute: list[float] = field(default_factory=list)
    decoded: list[int] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    requests: int = 0

    def add(self, replies: list[Reply], cpu: float | None, wall: float) -> None:
        """One turn of the cell."""
        self.seconds += [reply.seconds for reply in replies]
        self.requests += len(replies)
        self.wall.append(wall)
        if cpu is not None:
            self.cpu.append(cpu / len(replies))
        decoded = [reply.body.get("x_decoded_tokens") for reply in replies]
        compute = [reply.body.get("x_compute_seconds") for reply in replies]
        self.decoded += [number for number in decoded if isinstance(number, int)]
        self.compute += [number for number in compute if isinstance(number, float)]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p95(self) -> float:
        """The nearest rank: of fewer than twenty requests, the slowest."""
        ranked = sorted(self.seconds)
        return ranked[-(-len(ranked) * 95 // 100) - 1]

    @property
    def cpu_seconds(self) -> float | None:
        """Least per request over the turns: other programs can only add."""
        return min(self.cpu) if self.cpu else None

    @property
    def rate(self) -> float | None:
        """Tokens decoded per second in the model, at its best."""
        pairs = [made / spent for made, spent in zip(self.decoded, self.compute, strict=False) if made and spent > 0]
        return max(pairs) if pairs else None

    @property
    def throughput(self) -> float:
        """Requests per second."""
        return self.requests / sum(self.wall)


class Round:
    """Sends a cell's requests. words: words of a state per token, as `calibrate` found them."""

    def __init__(self, words: float, seed: str) -> None:
        self._words, self._seed, self._number = words, seed, 0

    def play(self, cell: Cell, targets: list[Target], figures: dict[tuple[int, Cell], Figures]) -> None:
        """One turn of a cell at every target, with the same texts. Raises TargetFailed."""
        self._number += 1
        for index, target in enumerate(targets):
            states = [self._state(cell, number) for number in range(self._count(cell))]
            asked = questions(cell.questions)
            if cell.mode == "cached":
                target.ask(states[0], questions(1))
            cpu, started = target.cpu(), time.perf_counter()
            if cell.mode == "clients":
                replies = _at_once(cell.clients, [_asking(target, state, asked) for state in states])
            else:
                replies = [target.ask(states[0], asked)]
            wall, after = time.perf_counter() - started, target.cpu()
            spent = None if cpu is None or after is None else after - cpu
            figures.setdefault((index, cell), Figures()).add(replies, spent, wall)

    def _count(self, cell: Cell) -> int:
        return REQUESTS_PER_CLIENT_CELL if cell.mode == "clients" else 1

    def _state(self, cell: Cell, number: int) -> str:
        return text(round(cell.state * self._words), f"{self._seed}.{self._number}.{number}")


def calibrate(target: Target, seed: str) -> float:
    """Words of a state per token: from what two lengths add to a prompt. Raises TargetFailed."""
    small, large = (target.ask(text(words, seed), questions(1)).prompt_tokens for words in (50, 250))
    if small is None or large is None or large <= small:
        raise TargetFailed(f"{target.url} does not count the tokens of a prompt, which a bench needs to know")
    return 200 / (large - small)


def _asking(target: Target, state: str, asked: dict[str, Any]) -> Callable[[], Reply]:
    return lambda: target.ask(state, asked)


def _at_once(clients: int, work: list[Callable[[], Reply]]) -> list[Reply]:
    """All of `work`, shared out over so many threads. Raises what the first failure raised."""
    replies: list[Reply] = []
    failures: list[TargetFailed] = []

    def client(mine: list[Callable[[], Reply]]) -> None:
        try:
            for send in mine:
                replies.append(send())
        except TargetFailed as error:
            failures.append(error)

    threads = [threading.Thread(target=client, args=(work[index::clients],)) for index in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return replies

"""The engine alone, in one process: states and questions by their number of tokens, in CPU time.

Rows: tokens decoded against distinct tokens of the prompt tree, 16 and 64 questions against one,
tokens per CPU second against the build's own best prefill rate, cold and cached and exact.

    python -m tests.bench.engine [MODEL.gguf] [--weights file|bf16|f16 ...] [--states 200,1000]
        [--questions 1,16] [--modes cold,cached,exact] [--runs 3] [--threads 1] [--family] [--json]

A question is 40 tokens, 24 of them the same for all, read at its last token over four letters.
--family asks through the model's family instead (rendering and tokenising included).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localdecide.core.decision import Decision, Options
from localdecide.core.model import ModelSpec
from localdecide.core.plan import Labels, Plan, Prompt
from localdecide.core.questions import parse_questions
from localdecide.runner.loaded import LoadedModel
from tests.bench import prefill, weights
from tests.bench.inputs import Tokens, distinct_tokens, questions_json, state_text
from tests.bench.measure import Series, cpu_of, table

MODES = ("cold", "cached", "exact")
CACHE = 1 << 30


class Subject:
    """One GGUF under test: a loaded model and the raw prefill beside it."""

    def __init__(self, name: str, path: Path, arguments: argparse.Namespace) -> None:
        parameters = {"num_ctx": max(arguments.states) + 256, "num_thread": arguments.threads}
        spec = ModelSpec(name, str(path), parameters=parameters)
        self.name, self.path = name, path
        self.model = LoadedModel(spec, {"cache_bytes": CACHE}, lambda fraction: None)
        self.engine: Any = self.model._engine
        self.tokens = Tokens(self.engine.vocabulary.tokenize)
        self.prefill = prefill.Prefill(path, arguments.threads)
        self.rates: dict[tuple[int, int], float] = {}
        self.cells: dict[tuple[str, int, int], Series] = {}
        self.decoded: dict[tuple[str, int, int], tuple[int, int, int]] = {}
        self._family = arguments.family

    def plan(self, size: int, count: int, number: int) -> Plan:
        """`count` prompts on state `number`."""
        state, common = self.tokens.state(size, number), self.tokens.common()
        prompts = []
        for index in range(count):
            tokens = state + common + self.tokens.own(index)
            prompts.append(Prompt(f"q{index}", tokens, (Labels(len(tokens) - 1, self.tokens.labels),), size))
        return Plan(tuple(prompts))

    def work(self, size: int, count: int, number: int, exact: bool) -> Callable[[], tuple[int, int]]:
        """What is timed; returns tokens decoded and rows of padding beside them."""
        if self._family:
            vocabulary = self.engine.vocabulary
            text = state_text(size, number, lambda words: len(vocabulary.tokenize(words)))
            decision = Decision(text, parse_questions(questions_json(count)), options=Options(exact=exact))
            return lambda: (self.model.decide(decision, lambda: False).decoded_tokens, 0)
        plan = self.plan(size, count, number)

        def evaluate() -> tuple[int, int]:
            rows = self.engine.evaluate(plan, exact=exact)
            return rows.decoded, rows.padding

        return evaluate

    def run(self, mode: str, size: int, count: int, number: int) -> None:
        """One timed repetition; `number` names a state that was never seen before."""
        work = self.work(size, count, number, mode == "exact")
        if mode == "cached":
            self.work(size, 1, number, False)()
        spent, (decoded, padding) = cpu_of(work)
        cell = mode, size, count
        self.cells.setdefault(cell, Series()).seconds.append(spent)
        distinct = distinct_tokens([prompt.tokens for prompt in self.plan(size, count, number).prompts])
        self.decoded[cell] = decoded, padding, distinct - (size if mode == "cached" else 0)


def measure(subjects: list[Subject], arguments: argparse.Namespace) -> None:
    """All cells in turn, then all of them again: whatever else the machine does hits each alike."""
    number = 0
    for turn in range(arguments.runs):
        for subject in subjects:
            prefill.rates(subject.prefill, list(subject.tokens.state(max(prefill.SIZES), turn)), subject.rates)
        for size in arguments.states:
            for count in arguments.questions:
                for mode in arguments.modes:
                    number += 1
                    for subject in subjects:
                        subject.run(mode, size, count, number)
        print(f"turn {turn + 1} of {arguments.runs}", file=sys.stderr)


def report(subject: Subject, arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of one GGUF, printed unless JSON was asked for."""
    best = max(subject.rates.values())
    cells, rows = [], []
    for (mode, size, count), series in sorted(subject.cells.items()):
        decoded, padding, distinct = subject.decoded[mode, size, count]
        rate = decoded / series.least
        one = subject.cells.get((mode, size, 1))
        ratio = series.least / one.least if one else None
        cell = {
            "mode": mode,
            "state_tokens": size,
            "questions": count,
            **series.json(),
            "decoded": decoded,
            "padding": padding,
            "distinct": None if arguments.family else distinct,
            "tokens_per_cpu_second": rate,
            "of_best_prefill": rate / best,
            "against_one_question": ratio,
        }
        cells.append(cell)
        rows.append(
            (
                mode,
                str(size),
                str(count),
                f"{1000 * series.least:.0f}",
                f"{1000 * series.median:.0f}",
                str(decoded),
                "-" if arguments.family else f"{decoded / distinct:.2f}",
                str(padding),
                f"{rate:.0f}",
                f"{100 * rate / best:.0f} %",
                f"{ratio:.2f}" if ratio else "-",
            )
        )
    if not arguments.json:
        print(f"\n{subject.name}: {subject.path.name}; best prefill {best:.0f} tokens per CPU second")
        header = (
            "mode",
            "state",
            "questions",
            "least ms",
            "median ms",
            "decoded",
            "/ distinct",
            "padding",
            "tok/s",
            "of best",
            "/ 1",
        )
        print(table(header, rows))
    best_at = max(subject.rates, key=lambda key: subject.rates[key])
    return {
        "weights": subject.name,
        "file": subject.path.name,
        "best_prefill": {"tokens_per_cpu_second": best, "tokens": best_at[0], "ubatch": best_at[1]},
        "engine": subject.engine.describe(),
        "cells": cells,
    }


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, help="a GGUF; the default model's otherwise")
    parser.add_argument("--weights", nargs="+", choices=("file", *weights.TYPES), default=["file", "bf16"])
    parser.add_argument("--f16", action="store_true", help="the same as adding f16 to --weights")
    parser.add_argument("--states", type=numbers, default=[200, 1000, 2000])
    parser.add_argument("--questions", type=numbers, default=[1, 4, 16, 64])
    parser.add_argument("--modes", type=lambda text: text.split(","), default=list(MODES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--family", action="store_true", help="through the model's family")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if unknown := set(arguments.modes) - set(MODES):
        parser.error(f"--modes: {', '.join(sorted(unknown))} is none of {', '.join(MODES)}")
    source = arguments.model or weights.default_model()
    kinds = [*arguments.weights, *(["f16"] if arguments.f16 and "f16" not in arguments.weights else [])]
    paths = {kind: source if kind == "file" else weights.converted(source, kind) for kind in kinds}
    subjects = [Subject(kind, path, arguments) for kind, path in paths.items()]
    measure(subjects, arguments)
    reports = [report(subject, arguments) for subject in subjects]
    if arguments.json:
        print(json.dumps(reports, indent=2))


if __name__ == "__main__":
    main()

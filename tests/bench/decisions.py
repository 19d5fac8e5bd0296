"""The daemon against upstream's own decision serving (xllamacpp) on the same decision model, in CPU time.

    python -m tests.bench.decisions --python VENV/bin/python [--model DECISION.gguf] [--questions 1,16,64]

--python: an interpreter that has xllamacpp. Without --model one of about 50 M random parameters with
openjev's prompt is made (--architecture): its answers mean nothing, its work is a real model's. Both servers get
the same bodies at /v1/systemone; each shares the questions' common start in its own way.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.bench import weights
from tests.bench.inputs import questions_json, state_words
from tests.bench.measure import Series, table
from tests.bench.servers import Daemon, Server, Upstream

CONTEXT = 4096


def random_model(architecture: str) -> Path:
    """12 layers of width 512 in F32, made once: qwen35 (one attention layer in four) or qwen3 (all of them)."""
    target = weights.cache_folder() / f"{architecture}-random-openjev.gguf"
    if not target.exists():
        from tests.reference.judge.templates import TEMPLATES
        from tests.tiny import build
        from tests.tiny.qwen35 import FULL, LINEAR

        sizes: dict[str, dict[str, Any]] = {
            "qwen3": {"num_hidden_layers": 12},
            "qwen35": {
                "layer_types": [LINEAR, LINEAR, LINEAR, FULL] * 3,
                "linear_num_key_heads": 8,
                "linear_num_value_heads": 8,
                "linear_key_head_dim": 64,
                "linear_value_head_dim": 64,
                "mrope_section": [3, 3, 2],
            },
        }
        part = target.with_suffix(".part")
        build(
            architecture,
            part,
            metadata={
                f"{architecture}.decision.type": "openjev",
                "tokenizer.chat_template.systemone": TEMPLATES["openjev"],
                "tokenizer.chat_templates": ["systemone"],
            },
            hidden_size=512,
            intermediate_size=1536,
            num_attention_heads=8,
            num_key_value_heads=2,
            head_dim=64,
            max_position_embeddings=CONTEXT,
            **sizes[architecture],
        )
        part.replace(target)
    return target


def ask(server: Server, state: str, count: int) -> tuple[float, int]:
    """CPU seconds of a server for one request, and the prompt tokens it counts."""
    body = {"model": "m", "state": state, "questions": questions_json(count)}
    before = server.cpu()
    reply: Any = server.post("/v1/systemone", body)
    after = server.cpu()
    if len(reply["answers"]) != count:
        sys.exit(f"{server.url}: {count} questions, {len(reply['answers'])} answers")
    return after - before, int(reply["usage"]["input_tokens"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--questions", type=lambda text: [int(part) for part in text.split(",")], default=[1, 16, 64])
    parser.add_argument("--architecture", choices=("qwen3", "qwen35"), default="qwen35", help="without --model")
    parser.add_argument("--words", type=int, default=600, help="words of the state")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    model = arguments.model or random_model(arguments.architecture)
    modelfile = f"FROM {model}\nPARAMETER num_ctx {CONTEXT}\nPARAMETER num_thread 1\n"
    figures: dict[tuple[str, int], tuple[Series, Series]] = {}
    tokens: dict[int, int] = {}
    with (
        Daemon({"m": modelfile}, LOCALDECIDE_FAST_WEIGHTS="off") as ours,
        Upstream(arguments.python, model, CONTEXT) as theirs,
    ):
        for server in (ours, theirs):
            ask(server, "warm", 1)
        number = int(time.time())
        for turn in range(arguments.runs):
            for mode in ("cold", "again"):
                for count in arguments.questions:
                    number += 1
                    state = state_words(arguments.words, number)
                    for place, server in enumerate((ours, theirs)):
                        if mode == "again":
                            ask(server, state, 1)
                        seconds, found = ask(server, state, count)
                        pair = figures.setdefault((mode, count), (Series(), Series()))
                        pair[place].seconds.append(seconds)
                        tokens[count] = found
            print(f"turn {turn + 1} of {arguments.runs}", file=sys.stderr)
    rows = [
        {
            "mode": mode,
            "questions": count,
            "prompt_tokens": tokens[count],
            "ours": mine.json(),
            "upstream": other.json(),
            "ratio": other.least / mine.least,
        }
        for (mode, count), (mine, other) in figures.items()
    ]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    header = ("mode", "questions", "prompt tokens", "ours ms", "upstream ms", "ratio")
    lines = [
        (
            str(row["mode"]),
            str(row["questions"]),
            str(row["prompt_tokens"]),
            f"{1000 * figures[row['mode'], row['questions']][0].least:.0f}",
            f"{1000 * figures[row['mode'], row['questions']][1].least:.0f}",
            f"{row['ratio']:.2f}",
        )
        for row in rows
    ]
    print(table(header, lines))


if __name__ == "__main__":
    main()

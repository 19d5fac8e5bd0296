"""Golden prompts of the families with heads: exact text, token ids, and where each is read.

The vocabularies are those of the tiny models: a real one, cut down, with each family's special tokens.
`PYTHONPATH=. python tests/golden_heads.py` writes the files again; read the difference before it is committed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from awkward import FORGED, REQUESTS, decision
from golden_prompts import FOLDER, vocabulary_of

from localdecide.core.errors import LocaldecideError
from localdecide.core.model import ModelSpec
from localdecide.core.plan import Limits, Prompt, Vocabulary
from localdecide.families.base import Model
from localdecide.families.registry import family_named
from tests.tiny import build

ARCHITECTURES = {
    "kev": "qwen35",
    "clef": "qwen35",
    "laya": "modern-bert",
    "lfm2-d1-omni": "lfm2",
    "clm": "qwen3",
}


def vocabulary_for(family: str, folder: Path) -> Vocabulary:
    path = folder / f"{family}.gguf"
    return vocabulary_of(build(ARCHITECTURES[family], path, hidden_size=32).path)


def records(family: str, vocabulary: Vocabulary) -> dict[str, Any]:
    """By request: the prompts, or the sentence with which the family refuses it."""
    arch = ARCHITECTURES[family]
    keys = {"general.architecture": arch, f"{arch}.decision.max_head_tokens": 192}
    model = Model(ModelSpec("m:latest", "m.gguf", family=family), vocabulary, Limits(1 << 16, 1 << 16), keys)
    found: dict[str, Any] = {}
    for name in (*REQUESTS, *FORGED):
        try:
            plan = family_named(family).plan(decision(name), model)
        except LocaldecideError as error:
            found[name] = {"refused": error.message}
            continue
        # Hundreds of candidates' texts are told by the first ones and the hash of all.
        prompts = [_record(prompt, plan, vocabulary) for prompt in plan.prompts[:12]]
        whole = hashlib.sha256(json.dumps([prompt.tokens for prompt in plan.prompts]).encode()).hexdigest()
        found[name] = {"prompts": prompts, "count": len(plan.prompts), "ids": whole}
    return found


def _record(prompt: Prompt, plan: Any, vocabulary: Vocabulary) -> dict[str, Any]:
    record: dict[str, Any] = {
        "question": prompt.question,
        "text": "".join(map(vocabulary.piece, prompt.tokens)),
        "tokens": len(prompt.tokens),
        "shared": prompt.shared,
    }
    positions = prompt.reads[0].positions
    if len(positions) < len(prompt.tokens):
        record["read"] = list(positions)[:16]
    if hasattr(plan, "masks"):
        record |= {"masks": list(plan.masks[prompt.question])[:16], "truncated": plan.truncated[prompt.question]}
    if hasattr(plan, "pieces"):
        record["spans"] = sum(bool(piece.kind) for piece in plan.pieces)
    return record


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for family in ARCHITECTURES:
            whole = json.dumps(records(family, vocabulary_for(family, Path(folder))), ensure_ascii=False, indent=1)
            (FOLDER / f"{family}.json").write_text(whole + "\n", encoding="utf-8")
            sys.stdout.write(f"{family}\n")


if __name__ == "__main__":
    main()

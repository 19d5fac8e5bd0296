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

import gguf
import numpy as np
from awkward import FORGED, REQUESTS, decision
from gliner_vocabulary import PIECES, SPECIALS, write_backbone
from golden_prompts import FOLDER, vocabulary_of

from localdecide.core.errors import LocaldecideError
from localdecide.core.model import ModelSpec
from localdecide.core.plan import Limits, Prompt, Vocabulary
from localdecide.engine.words import WordEngine
from localdecide.families.base import Model
from localdecide.families.decision_file import TEMPLATE_KEY
from localdecide.families.gliner_decide import LABEL
from localdecide.families.laya import template_text
from localdecide.families.mmbert import KEY, NAME_OF_PRE
from localdecide.families.registry import family_named
from tests.reference.julia_vocabulary import JuliaVocabulary
from tests.tiny import build

ARCHITECTURES = {
    "kev": "qwen35",
    "clef": "qwen35",
    "laya": "modern-bert",
    "lfm2-d1-omni": "lfm2",
    "clm": "qwen3",
    "julia": "modern-bert",
    "gliner-decide": "deberta-v2",
}
# Models whose family has another name.
FAMILY = {"julia": "laya"}


def vocabulary_for(name: str, folder: Path) -> Vocabulary:
    path = folder / f"{name}.gguf"
    if name == "gliner-decide":
        write_backbone(path, np.zeros((len(SPECIALS) + len(PIECES), 8), np.float32))
        return WordEngine(str(path), {}).vocabulary
    if name == "julia":
        writer = gguf.GGUFWriter(str(path), ARCHITECTURES[name])
        JuliaVocabulary("gemma4").write(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return vocabulary_of(path)
    return vocabulary_of(build(ARCHITECTURES[name], path, hidden_size=32).path)


def model_of(name: str, vocabulary: Vocabulary) -> Model:
    """A loaded model, without weights."""
    arch = ARCHITECTURES[name]
    keys: dict[str, Any] = {"general.architecture": arch, f"{arch}.decision.max_head_tokens": 192}
    if name == "julia":
        keys |= {KEY: NAME_OF_PRE, TEMPLATE_KEY: template_text("<bos>", "<eos>", "<mask>", julia=True)}
    family = FAMILY.get(name, name)
    return Model(ModelSpec("m:latest", "m.gguf", family=family), vocabulary, Limits(1 << 16, 1 << 16), keys)


def records(family: str, vocabulary: Vocabulary) -> dict[str, Any]:
    """By request: the prompts, or the sentence with which the family refuses it."""
    model = model_of(family, vocabulary)
    found: dict[str, Any] = {}
    for name in (*REQUESTS, *FORGED):
        try:
            plan = family_named(FAMILY.get(family, family)).plan(decision(name), model)
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
    positions = prompt.reads[0].positions if prompt.reads else ()
    if not prompt.reads:
        label = vocabulary.specials[LABEL].id
        record["read"] = [index for index, token in enumerate(prompt.tokens) if token == label][:16]
    elif len(positions) < len(prompt.tokens):
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

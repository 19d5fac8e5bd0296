"""The prompts of one request to a label family: words guarded, the state's part found once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from localdecide.core.decision import Decision
from localdecide.core.errors import NotSupported, PromptTooLong, UnsupportedInput
from localdecide.core.jsontext import Json
from localdecide.core.plan import Attention, Hidden, Labels, Prompt
from localdecide.core.questions import Choice, Noul, Option, Question, Score
from localdecide.families import head_file
from localdecide.families.asked import Asked, all_words, sort_keys, with_words
from localdecide.families.base import Model
from localdecide.families.beginning import Beginning, common, shared
from localdecide.families.labels import after_last_special, require_tokens
from localdecide.families.template import SystemOneTemplate
from localdecide.families.text import Guard

if TYPE_CHECKING:
    from localdecide.families.label_family import LabelFamily

TEMPLATE_KEY = "tokenizer.chat_template.systemone"

# Tokens at the end of the state's text that the text after it may still change.
UNSETTLED = 2
# Characters before the answer that may join with a label.
TAIL = 64

# Questions that have no word in common: what their prompts begin with alike belongs to the state.
PROBES: dict[str, Question] = {
    "a": Choice((Option("c", "d"), Option("e", "f")), "b"),
    "1": Noul("2"),
    ".": Score(("-", "+"), "!"),
}


class LabelPrompts:
    """Raises as `LabelFamily.plan` does."""

    def __init__(self, family: LabelFamily, decision: Decision, model: Model) -> None:
        self.family, self.model, self.asked = family, model, decision.questions
        words = [[key, all_words(question)] for key, question in decision.questions.items()]
        self.guard = Guard(model.vocabulary, decision.state, words)
        self.codes = {key: family.codes(model, key, question) for key, question in decision.questions.items()}
        self._state = self._ready(decision.state)
        self._questions = {self._name(key): with_words(each, self._ready) for key, each in self.asked.items()}
        self._labels = {self._name(key): codes.texts for key, codes in self.codes.items()}
        self._write = writer(family, model)
        self._found: dict[str, dict[tuple[str, ...], tuple[int, ...]]] = {}
        self._whole = attention_of(model) == "bidirectional"
        # A state is decoded without what follows it: never a companion's text, never a token that
        # the next word could change.
        divisible = not model.vocabulary.prefixes_space
        self._beginning = Beginning(self._encode, self._state_text(), divisible=divisible)
        self._prefix = [] if self._whole else self._with_bos(self._beginning.tokens)[:-UNSETTLED]

    def of(self, key: str) -> list[Prompt]:
        """One prompt for each order that the family puts the question in."""
        return [self._prompt(key, bool(order)) for order in range(self.family.orders(self.asked[key]))]

    def text(self, key: str, reverse: bool = False) -> str:
        """A prompt before it becomes tokens, with the guard's marks."""
        name = self._name(key)
        return self._write(Asked(name, self._questions[name], self._state, self._labels, self._questions, reverse))

    def _prompt(self, key: str, reverse: bool) -> Prompt:
        text = self.text(key, reverse)
        tokens = self._with_bos(self._beginning.encode(text))
        last = len(tokens) - 1
        self._refuse_longer(key, len(tokens))
        read = Hidden((last,)) if head_file.has_readout(self.model) else Labels(last, self._tokens(key, text))
        return Prompt(key, tuple(tokens), (read,), shared(self._prefix, tokens))

    def _refuse_longer(self, key: str, count: int) -> None:
        limit = head_file.longest(self.model)
        if limit is not None and count > limit:
            raise PromptTooLong(
                f'prompt for question "{key}" has {count} tokens; the model was trained with at most {limit} '
                "(input is never truncated)",
                {"question": key, "tokens": count, "limit": limit},
            )

    def _tokens(self, key: str, text: str) -> tuple[int, ...]:
        codes = self.codes[key]
        if not self.family.at_prompt:
            return tuple(token for group in codes.groups for token in group)
        suffix = self.guard.plain(after_last_special(text, self.model.vocabulary))[-TAIL:]
        if suffix not in self._found:
            self._found[suffix] = {}
        found = self._found[suffix]
        if codes.texts not in found:
            found[codes.texts] = require_tokens(self.model.vocabulary, suffix, codes.texts, key)
        return found[codes.texts]

    def _state_text(self) -> str:
        """What every prompt about this state begins with."""
        texts = []
        for key, probe in PROBES.items():
            questions = {**self._wide(key), key: probe}
            try:
                labels = {name: self.family.codes(self.model, name, each).texts for name, each in questions.items()}
                texts.append(self._write(Asked(key, probe, self._state, labels, questions)))
            except (NotSupported, UnsupportedInput):
                continue
        return common(texts)

    def _wide(self, key: str) -> Mapping[str, Question]:
        """nimble words its first sentence by whether any question has more than 26 options."""
        if all(len(question.keys) <= 26 for question in self.asked.values()):
            return {}
        return {f"{key}{key}": Choice(tuple(Option(f"{key}{index}") for index in range(27)), key)}

    def _name(self, key: str) -> str:
        return str(self.guard.wrap(key))

    def _ready(self, value: Json) -> Json:
        guarded: Json = self.guard.wrap(sort_keys(value) if self.family.sort_keys else value)
        return guarded

    def _encode(self, text: str) -> list[int]:
        for escape in self.family.escapes:
            text = text.replace(escape + self.guard.mark, escape)
        return self.guard.encode(text)

    def _with_bos(self, tokens: list[int]) -> list[int]:
        """Templates in files write BOS themselves; other prompts get it from the vocabulary."""
        bos = self.model.vocabulary.bos
        own = self.model.spec.prompt or not self.model.metadata.get(TEMPLATE_KEY)
        return [bos, *tokens] if own and bos is not None and tokens[:1] != [bos] else tokens


def writer(family: LabelFamily, model: Model) -> Callable[[Asked], str]:
    """PROMPT, else the file's template, else the family's own words. Raises NotSupported where there is none."""
    source = model.spec.prompt or model.metadata.get(TEMPLATE_KEY)
    if source:
        if "systemone" not in model.cache:
            model.cache["systemone"] = SystemOneTemplate(str(source), name=prompt_source(model))
        template: SystemOneTemplate = model.cache["systemone"]
        joint = "questions" in template.variables
        return lambda asked: template.render(asked.inputs(family.true_first, joint))
    if family.write is None:
        raise NotSupported("this model has no decision template, and its Modelfile has no PROMPT")
    return family.write


def prompt_source(model: Model) -> str:
    if model.spec.prompt:
        return "the Modelfile's PROMPT"
    return "the template in the model's file" if model.metadata.get(TEMPLATE_KEY) else "the family's own words"


def attention_of(model: Model) -> Attention:
    """ATTENTION, else what the head's file says (pplx-decider v1.1 and d3), else causal."""
    said = model.spec.attention or head_file.keys(model).get("attention")
    return "bidirectional" if said == "bidirectional" else "causal"

"""Plain: any chat or base model, read at the next token. No decision metadata needed.

Prompt: SGLang's `/v1/decisions`, prompt format version 1 ("sglang/1"), or vLLM's wording ("vllm/1"),
which a request or `PROMPT vllm/1` in a Modelfile chooses; vLLM's reads a noul by yesno. Which readout
suits a model is the Modelfile's word, by question type:

    choice  letters     A, B, ... after the listed options; two letters each beyond 26 (default)
            rotations   letters, averaged over every rotation of the options' order
            text        the option's own words after "Answer:", against the same with the state "N/A"
    noul    pair        yes, no (default)
            yesno       yes, Yes, no, No: the case variants of a side added up, where both are one token
    score   digits      0 to 9 (default)
            text        as for choice
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile, InvalidRequest, NotSupported, UnsupportedInput
from localdecide.core.jsontext import Json, is_blank
from localdecide.core.plan import LabelRow, Labels, Plan, Prompt, Rows
from localdecide.core.questions import ABSENT, MAX_OPTIONS, Choice, Noul, Question, Score
from localdecide.families import thinking
from localdecide.families.base import Evidence, Model
from localdecide.families.beginning import Beginning, shared
from localdecide.families.labels import DIGITS, LETTERS, PAIRS, after_last_special, require_tokens, single_tokens
from localdecide.families.option_text import plan_text, read_text
from localdecide.families.render import compact, spaced
from localdecide.families.temperatures import by_size, describe_temperatures
from localdecide.families.template import ChatTemplate
from localdecide.families.text import Guard

NAME = "plain"
JOINT = False

DEFAULTS = {"choice": "letters", "noul": "pair", "score": "digits"}
READOUTS = {"choice": ("letters", "rotations", "text"), "noul": ("pair", "yesno"), "score": ("digits", "text")}
PROMPTS = ("sglang/1", "vllm/1")
TAKES = ("PROMPT",)
CLOSING = {
    "choice": "Answer with the letter of one option only.",
    "score": "Answer with the number of one level only.",
    "noul": "Answer with yes or no only.",
}
_EMPTY_PROBES = ("x", "y")

# Some templates print the date. A prompt must be the same today and tomorrow, so the clock stands
# still at the date that Llama 3's templates fall back to.
_CLOCK = datetime(2024, 7, 26)


def readout_of(model: Model, kind: str, decision: Decision) -> str:
    """The readout of a question type. A request for a published prompt version gets that version's."""
    if decision.options.prompt or decision.options.token_ids:
        return default_readout(decision.options.prompt or PROMPTS[0], kind)
    return _configured(model, kind) or default_readout(_version(model), kind)


def default_readout(version: str, kind: str) -> str:
    """vLLM adds the aliases Yes and No to a noul's labels."""
    return "yesno" if (version, kind) == ("vllm/1", "noul") else DEFAULTS[kind]


def temperature_of(model: Model, kind: str, readout: str, options: int | None = None) -> float:
    """READOUT ... TEMPERATURE where that readout is used, else TEMPERATURE by number of options, by type, else 1."""
    chosen = model.spec.readouts.get(kind)
    if chosen is not None and chosen.temperature is not None and readout == (_configured(model, kind) or readout):
        return chosen.temperature
    table = model.spec.temperatures
    bucket = "" if options is None else f"{kind}.{by_size(options)}"
    return table.get(bucket, table.get(kind, 1.0))


def _version(model: Model) -> str:
    """PROMPT of the Modelfile names a published version. Raises NotSupported for a prompt of one's own."""
    said = (model.spec.prompt or PROMPTS[0]).strip()
    if said not in PROMPTS:
        raise NotSupported(
            f"PROMPT: the plain family has the prompts {', '.join(PROMPTS)}; FAMILY systemone takes one of your own"
        )
    return said


def _configured(model: Model, kind: str) -> str | None:
    """READOUT of the Modelfile. `letters` is every type's own labels. Raises BadModelFile for others' names."""
    chosen = model.spec.readouts.get(kind)
    if chosen is None or chosen.name is None:
        return None
    name = DEFAULTS[kind] if chosen.name == "letters" else chosen.name
    if name not in READOUTS[kind]:
        raise BadModelFile(f"READOUT {kind} {name}: a plain model reads {kind} by {', '.join(READOUTS[kind])}")
    return name


def plan(decision: Decision, model: Model) -> Plan:
    """One prompt per question and variant; text readouts have one per continuation."""
    if decision.images:
        raise UnsupportedInput.at(("images",), "this model reads text only")
    if decision.options.prompt not in (None, *PROMPTS):
        raise InvalidRequest.at(("options", "prompt"), f"must be one of {', '.join(PROMPTS)}")
    wording = _Wording(decision, model)
    prompts: list[Prompt] = []
    for key, question in decision.questions.items():
        if readout_of(model, question.kind, decision) == "text":
            prompts += plan_text(key, question, wording.guard, wording.state, model)
        else:
            prompts += wording.prompts(key, question)
    return Plan(tuple(prompts))


def read(decision: Decision, model: Model, plan: Plan, rows: Rows) -> dict[str, Evidence]:
    """Log-probabilities of the labels, or sums of log-probabilities of the options' words."""
    parts: dict[str, list[tuple[Prompt, Any]]] = {key: [] for key in decision.questions}
    for prompt, values in zip(plan.prompts, rows.values, strict=True):
        parts[prompt.question].append((prompt, values))
    evidence: dict[str, Evidence] = {}
    for key, question in decision.questions.items():
        readout = readout_of(model, question.kind, decision)
        temperature = temperature_of(model, question.kind, readout, len(question.keys))
        if readout == "text":
            evidence[key] = read_text(question, parts[key], temperature)
        else:
            evidence[key] = _read_labels(question, parts[key], readout, temperature, decision.options.token_ids)
    return evidence


def describe(model: Model) -> dict[str, Any]:
    version = _version(model)
    readouts, labels = {}, {}
    for kind in DEFAULTS:
        given = _configured(model, kind)
        readout = given or default_readout(version, kind)
        readouts[kind] = {
            "readout": readout,
            "temperature": temperature_of(model, kind, readout),
            "source": "Modelfile" if given else f"the default of {version}",
        }
        labels[kind] = _ALPHABETS[readout]
    chat = chat_template(model) is not None
    framed = "the model's chat template" if chat else "no chat template"
    return {
        "prompt": f"{version} ({'Modelfile' if model.spec.prompt else 'the default'}) in {framed}",
        "readouts": readouts,
        "labels": labels,
        "temperatures": describe_temperatures(model),
        "limits": {"options": MAX_OPTIONS if chat else len(LETTERS), "levels": len(DIGITS)}
        | {"context": model.limits.context},
        "modalities": ["text"],
    }


_ALPHABETS = {
    "letters": "A to Z, AA to ZZ beyond 26",
    "rotations": "A to Z, AA to ZZ beyond 26",
    "pair": "yes, no",
    "yesno": "yes and Yes, no and No",
    "digits": "0 to 9",
    "text": "none: the options' own words",
}


def _read_labels(
    question: Question, parts: list[tuple[Prompt, Any]], readout: str, temperature: float, token_ids: bool
) -> Evidence:
    variants, masses, hits = [], [], []
    count = len(question.keys)
    for shift, (prompt, (row,)) in enumerate(parts):
        assert isinstance(row, LabelRow)
        logprobs = row.logprobs
        masses.append(math.fsum(map(math.exp, logprobs)))
        hits.append(row.argmax in prompt.reads[0].tokens if isinstance(prompt.reads[0], Labels) else False)
        if readout == "yesno":
            logprobs = tuple(_log_sum(logprobs[side::2]) for side in (0, 1))
        # Rotation `shift` listed option (i + shift) mod n at place i.
        variants.append(tuple(logprobs[(index - shift) % count] for index in range(count)))
    first = parts[0][0]
    labels = first.reads[0]
    assert isinstance(labels, Labels)
    return Evidence(
        variants=tuple(variants),
        readout=readout,
        temperature=temperature,
        label_mass=min(1.0, math.fsum(masses) / len(masses)),
        argmax_is_label=all(hits),
        prompt_tokens=sum(len(prompt.tokens) for prompt, _ in parts),
        prompt_token_ids=first.tokens if token_ids else None,
        label_token_ids=labels.tokens if token_ids else None,
    )


def _log_sum(values: tuple[float, ...]) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


class _Wording:
    """The prompts of one request: its state, guarded, and the model's chat template around each question."""

    def __init__(self, decision: Decision, model: Model) -> None:
        self.model, self.decision = model, decision
        self.vllm = (decision.options.prompt or _version(model)) == "vllm/1"
        self._render = spaced if self.vllm else compact
        texts = [decision.state, decision.options.system, model.spec.system]
        for question in decision.questions.values():
            texts += [question.instructions, *_words(question)]
        self.guard = Guard(model.vocabulary, *texts)
        self.state = "null" if self.vllm and decision.state is None else self.text(decision.state)
        self._beginning: tuple[str, Beginning] | None = None

    def text(self, value: Json) -> str:
        """A value as the prompt shows it: text as it is, null as nothing, the rest as JSON."""
        guarded = self.guard.wrap(value)
        return guarded if isinstance(guarded, str) else "" if guarded is None else self._render(guarded)

    def prompts(self, key: str, question: Question) -> list[Prompt]:
        readout = readout_of(self.model, question.kind, self.decision)
        if not isinstance(question, Choice):
            return [self._prompt(key, question, readout, 0)]
        shifts = len(question.options) if readout == "rotations" else 1
        return [self._prompt(key, question, readout, shift) for shift in range(shifts)]

    def _prompt(self, key: str, question: Question, readout: str, shift: int) -> Prompt:
        labels = self._labels(key, question)
        block = self._block(question, labels, shift)
        rendered = self._frame(f"{self.state}\n\n{block}")
        start = rendered.rfind(block)
        beginning = self._beginning_of(rendered[: max(start, 0)])
        tokens = self._bos(rendered) + beginning.encode(rendered)
        prefix = self._bos(rendered) + beginning.tokens
        suffix = self.guard.plain(after_last_special(rendered, self.model.vocabulary))
        ids = require_tokens(self.model.vocabulary, suffix, labels, key)
        if readout == "yesno":
            found = single_tokens(self.model.vocabulary, suffix, (*labels, *_ALIASES))
            # Both aliases or none: one alone would lean to its side.
            ids = tuple(found.values()) if len(found) == len(labels) + len(_ALIASES) else ids
        read = Labels(len(tokens) - 1, ids)
        return Prompt(key, tuple(tokens), (read,), shared(prefix, tokens))

    def _beginning_of(self, text: str) -> Beginning:
        """What comes before every question's own words, made into tokens once."""
        if self._beginning is None or self._beginning[0] != text:
            divisible = not self.model.vocabulary.prefixes_space
            self._beginning = text, Beginning(self.guard.encode, text, divisible=divisible)
        return self._beginning[1]

    def _bos(self, rendered: str) -> list[int]:
        """Chat templates write BOS themselves; a model without one gets it from its vocabulary."""
        bos = self.model.vocabulary.bos
        return [bos] if bos is not None and self._template() is None else []

    def _instructions(self, question: Question) -> str:
        """vLLM shows what is not text as Python prints it."""
        said = question.instructions
        return self.text(str(said) if self.vllm and said is not None else said)

    def _block(self, question: Question, labels: tuple[str, ...], shift: int) -> str:
        asked = self._instructions(question)
        lines = []
        if isinstance(question, Noul) and not self.vllm:
            lines.append(f"Is the following true? {asked}" if asked.strip() else "Is the following true?")
        elif asked.strip():
            lines.append(f"Question: {asked}")
        match question:
            case Choice():
                options = question.options[shift:] + question.options[:shift]
                for label, option in zip(labels, options, strict=True):
                    shown = "" if is_blank(option.description) else f" - {self.text(option.description)}"
                    lines.append(f"{label}: {self.text(option.name)}{shown}")
            case Score():
                lines += [f"{label}: {self.text(level)}" for label, level in zip(labels, question.levels, strict=True)]
            case Noul():
                for label, side in (("yes", question.true), ("no", question.false)):
                    if side is not ABSENT and not is_blank(side):
                        lines.append(f"{label}: {self.text(side)}")
        return "\n".join([*lines, CLOSING[question.kind]])

    def _labels(self, key: str, question: Question) -> tuple[str, ...]:
        if isinstance(question, Noul):
            return ("yes", "no")
        count = len(question.keys)
        if isinstance(question, Score):
            return DIGITS[:count]
        return LETTERS[:count] if count <= len(LETTERS) else self._pairs(key, count)

    def _pairs(self, key: str, count: int) -> tuple[str, ...]:
        """Two-letter labels for all options; only where every prompt of the model ends in the same way."""
        suffixes = {after_last_special(self._frame(probe), self.model.vocabulary) for probe in _EMPTY_PROBES}
        found: dict[str, int] = {}
        if len(suffixes) == 1 and self.model.vocabulary.specials and self._template() is not None:
            found = single_tokens(self.model.vocabulary, suffixes.pop(), PAIRS, count)
        if len(found) < count:
            raise UnsupportedInput.at(
                ("questions", key, "criteria"),
                f"{count} options, but this model can label at most {max(len(LETTERS), len(found))}",
                limit=max(len(LETTERS), len(found)),
                count=count,
            )
        return tuple(found)

    def _frame(self, content: str) -> str:
        """`content` as the user's message in the model's chat template, up to where the answer begins."""
        template = self._template()
        system = self.decision.options.system or self.model.spec.system
        if template is None:
            return f"{self.guard.wrap(system)}\n\n{content}\n" if system else f"{content}\n"
        kwargs = self._kwargs(template)
        messages = [{"role": "user", "content": content}]
        if system:
            messages.insert(0, {"role": "system", "content": self.guard.wrap(system)})
        rendered = template.render(messages, **kwargs)
        thinking.refuse_open_block(template, thinking.generation_prompt(template, rendered, content))
        return rendered

    def _template(self) -> ChatTemplate | None:
        return chat_template(self.model)

    def _kwargs(self, template: ChatTemplate) -> Mapping[str, Any]:
        requested = self.decision.options.chat_template_kwargs
        key = ("thinking", repr(sorted(requested.items())))
        cache = self.model.cache
        if key not in cache:
            kwargs = thinking.template_kwargs(template, requested)
            thinking.check(template, kwargs)
            cache[key] = kwargs
        checked: Mapping[str, Any] = cache[key]
        return checked


_ALIASES = ("Yes", "No")


def chat_template(model: Model) -> ChatTemplate | None:
    """The model's chat template (TEMPLATE wins over the file's), or None for a base model."""
    if "chat_template" not in model.cache:
        source = model.spec.template or model.metadata.get("tokenizer.chat_template")
        bos, eos = model.metadata.get("bos_text", ""), model.metadata.get("eos_text", "")
        model.cache["chat_template"] = (
            ChatTemplate(str(source), str(bos), str(eos), now=lambda: _CLOCK) if source else None
        )
    template: ChatTemplate | None = model.cache["chat_template"]
    return template


def _words(question: Question) -> list[Any]:
    match question:
        case Choice():
            return [part for option in question.options for part in (option.name, option.description)]
        case Score():
            return list(question.levels)
        case Noul():
            return [side for side in (question.true, question.false) if side is not ABSENT]

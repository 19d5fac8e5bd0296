"""Jinja templates that ship inside model files: chat templates and decision templates.

`ChatTemplate` renders as transformers' `apply_chat_template` does; `SystemOneTemplate` renders
`tokenizer.chat_template.systemone` as llama.cpp's engine does. Both run in the sandbox.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser

from localdecide.core.errors import BadModelFile
from localdecide.families.llama_jinja import LlamaSandbox
from localdecide.families.sandbox import Sandbox, raise_exception, render

Messages = Sequence[Mapping[str, Any]]


class ChatTemplate:
    """A chat template with the model's own BOS and EOS texts.

    source: jinja2 text. name: what errors call it. now: the clock behind `strftime_now`.
    Raises BadModelFile when the text is not a template.
    """

    def __init__(
        self,
        source: str,
        bos_text: str = "",
        eos_text: str = "",
        *,
        name: str = "the model's chat template",
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.source = source
        self.name = name
        self._template = _compile(source, name, _chat_environment())
        self._fixed = {
            "bos_token": bos_text,
            "eos_token": eos_text,
            "strftime_now": lambda form: now().strftime(form),
            "tools": None,  # transformers always passes these two
            "documents": None,
        }

    @property
    def variables(self) -> frozenset[str]:
        """Names that the template reads and does not set itself: what a caller may pass."""
        return _variables(self.source)

    def render(self, messages: Messages, add_generation_prompt: bool = True, **kwargs: Any) -> str:
        """The conversation as one text, ending where the assistant's reply begins.

        messages: mappings with at least `role` and `content`. kwargs: further template variables.
        Raises NotSupported, with the template's own words when it refuses the conversation.
        """
        conversation = [dict(message) for message in messages]
        context = {**self._fixed, **kwargs, "messages": conversation, "add_generation_prompt": add_generation_prompt}
        return render(self._template, context, self.name)


class SystemOneTemplate:
    """A decision template. Raises BadModelFile when the text is not a template."""

    def __init__(self, source: str, *, name: str = "the model's decision template") -> None:
        self.source = source
        self.name = name
        self._template = _compile(source, name, _system_one_environment())

    @property
    def variables(self) -> frozenset[str]:
        """Names that the template reads: id, type, instructions, state, options, questions, images, ..."""
        return _variables(self.source)

    def render(self, context: Mapping[str, Any]) -> str:
        """The prompt for one question, or for all of them where the template is joint.

        context: raw JSON values by input name; the template turns what is not a string into JSON.
        Raises NotSupported, with the template's own words when it refuses them.
        """
        return render(self._template, context, self.name)


class _GenerationBlock(Extension):
    """`{% generation %}...{% endgeneration %}`: marks the assistant's text for training, says nothing else."""

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja2

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)  # as in transformers, `set` does not reach outside


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # jinja2's own filter escapes < > & ' for HTML; models were trained without that.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@lru_cache(maxsize=1)
def _chat_environment() -> jinja2.Environment:
    environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, LoopControlExtension])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = raise_exception
    return environment


@lru_cache(maxsize=1)
def _system_one_environment() -> jinja2.Environment:
    environment = LlamaSandbox(trim_blocks=True, lstrip_blocks=True, extensions=[LoopControlExtension])
    environment.globals["raise_exception"] = raise_exception
    return environment


def _compile(source: str, name: str, environment: jinja2.Environment) -> jinja2.Template:
    try:
        return _compiled(source, environment)
    except jinja2.TemplateError as error:
        line = f" at line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise BadModelFile(f"{name} is not a template: {error.message}{line}") from None
    except RecursionError:
        raise BadModelFile(f"{name} is not a template: nested too deeply") from None


@lru_cache(maxsize=64)
def _compiled(source: str, environment: jinja2.Environment) -> jinja2.Template:
    tree = environment.tree(source) if isinstance(environment, LlamaSandbox) else environment.parse(source)
    code = environment.compile(tree, filename="<template>")
    return environment.template_class.from_code(environment, code, dict(environment.globals))


@lru_cache(maxsize=64)
def _variables(source: str) -> frozenset[str]:
    return frozenset(meta.find_undeclared_variables(_chat_environment().parse(source)))

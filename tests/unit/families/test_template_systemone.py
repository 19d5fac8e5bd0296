"""Decision templates render as llama.cpp's engine renders them."""

from __future__ import annotations

from typing import Any

import pytest

from localdecide.core.errors import BadModelFile, NotSupported
from localdecide.families import llama_jinja
from localdecide.families.template import SystemOneTemplate

VALUE = {"plan": "pro", "n": [1, 2.0, -0.5, 1e20, 3.14159265, 1e-7], "none": None, "on": True, "e": {}, "l": []}


def render(text: str, **context: Any) -> str:
    return SystemOneTemplate(text).render(context)


def test_tojson_keeps_order_and_prints_six_digits() -> None:
    """Default separators, insertion order, floats as %g."""
    expected = '{"plan": "pro", "n": [1, 2, -0.5, 1e+20, 3.14159, 1e-07], "none": null, "on": true, "e": {}, "l": []}'
    assert expected == render("{{ v | tojson }}", v=VALUE)


def test_tojson_with_indent_has_bare_commas() -> None:
    """A line each, no space after the comma, empty containers closed at once."""
    expected = '{\n  "a": [\n    1,\n    {\n      "b": "é<"\n    }\n  ],\n  "e": {},\n  "l": []\n}'
    assert expected == render("{{ v | tojson(indent=2) }}", v={"a": [1, {"b": "é<"}], "e": {}, "l": []})


def test_tojson_with_separators_and_ascii() -> None:
    """The item separator may be given alone; escapes are lower case."""
    assert '{"a":1,"é":2}' == render("{{ v | tojson(separators=[',', ':']) }}", v={"a": 1, "é": 2})
    assert '{"a": 1,"b": 2}' == render("{{ v | tojson(separators=[',']) }}", v={"a": 1, "b": 2})
    assert '"\\u00e9\\ud83d\\ude00"' == render("{{ v | tojson(ensure_ascii=true) }}", v="é😀")


def test_tojson_escapes_what_json_must_and_no_more() -> None:
    """Quotes, backslashes and control characters; not / < > & ' or DEL."""
    assert '"\\"\\\\\\b\\f\\n\\r\\t\\u0001/<>&\'\x7f"' == llama_jinja.tojson("\"\\\b\f\n\r\t\x01/<>&'\x7f")


def test_integers_beyond_64_bits_are_floats() -> None:
    """As the engine's JSON reader stores them."""
    assert "9223372036854775807 -9223372036854775808 1e+20" == " ".join(
        llama_jinja.tojson(value) for value in (2**63 - 1, -(2**63), 10**20)
    )


def test_sort_keys_is_refused() -> None:
    """llama.cpp does not sort, so a template that asks for it was never used there."""
    with pytest.raises(NotSupported, match="cannot sort keys"):
        render("{{ v | tojson(sort_keys=true) }}", v={})


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, ""), ({"a": 1}, ""), ({}, ""), ([1, "b", None, [2.5]], "1b2.5"), (True, "True"), (1.0, "1.0"),
     (0.1234567, "0.123457"), (1e20, "100000000000000000000.0"), (1e-9, "0.0"), (7, "7")],
)  # fmt: skip
def test_printing_is_that_of_the_engine(value: Any, expected: str) -> None:
    """Null and objects print as nothing, lists as their items, floats fixed-point."""
    assert expected == render("{{ v }}", v=value)


def test_undefined_prints_as_nothing() -> None:
    """A missing input leaves no trace."""
    assert "[]" == render("[{{ missing }}]")


@pytest.mark.parametrize("operator", ["+", "~"])
def test_joining_null_to_text_gives_the_text(operator: str) -> None:
    """Both operators, on both sides; numbers become text."""
    text = "{{ 'a' + n }}|{{ n + 'a' }}|{{ 'a' + 1 }}|{{ 1.5 + 'a' }}".replace("+", operator)
    assert "a|a|a1|1.5a" == render(text, n=None)


def test_numbers_still_add() -> None:
    """`+` between numbers or lists is arithmetic."""
    assert "3 12" == render("{{ 1 + 2 }} {{ [1] + [2] }}")


def test_chains_of_tilde_join_in_order() -> None:
    """Nested in calls and conditions as well."""
    assert "a-1-b" == render("{{ ('a' ~ '-' ~ 1 ~ none ~ '-' ~ 'b') if true else '' }}")


def test_a_decision_template_with_all_its_features() -> None:
    """Namespaces, loops, inline ifs, replace and length as the converters' templates use them."""
    template = SystemOneTemplate(
        "{% set ns = namespace(many=false) %}\n"
        "{% for q in questions %}{% if q.options | length > 2 %}{% set ns.many = true %}{% endif %}{% endfor %}\n"
        "{{ '<|im_start|>' }}{{ state if state is string else state | tojson }}\n"
        "{% for o in options %}\n"
        "{{ o.label }}: {{ o.key | replace('_', ' ') }}{{ ': ' + o.description if o.description is not none }}\n"
        "{% endfor %}\n"
        "{{ 'many' if ns.many else 'few' }}\n"
    )
    rendered = template.render(
        {
            "state": {"b": 1, "a": 2.5},
            "questions": [{"options": [1, 2, 3]}],
            "options": [
                {"key": "get_out", "label": "A", "description": None},
                {"key": "b", "label": "B", "description": "<x>"},
            ],
        }
    )
    assert '<|im_start|>{"b": 1, "a": 2.5}\nA: get out\nB: b: <x>\nmany' == rendered


def test_errors_name_the_template() -> None:
    """Broken text is the file's fault; a refusal is the template's."""
    with pytest.raises(BadModelFile, match="the model's decision template is not a template"):
        SystemOneTemplate("{% for %}")
    with pytest.raises(NotSupported, match="the model's decision template refuses this conversation: no images"):
        render("{{ raise_exception('no images') }}")


def test_variables_tell_what_a_template_reads() -> None:
    """A joint template reads `questions`, one with images reads `images`."""
    assert {"questions", "images"} == SystemOneTemplate(
        "{{ questions }}{% for i in images %}{{ i }}{% endfor %}"
    ).variables

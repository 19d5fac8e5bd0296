"""Each way of showing a JSON value is exactly the one that its models were trained with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localdecide.families import render

VALUE = {"b": [1, 2.0, None, True], "a": {"é": "<x>", "e": {}}}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
TEXT_AS_IS = [
    render.compact, render.spaced, render.sorted_compact, render.sorted_spaced, render.indented, render.indented_ascii
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (render.compact, '{"b":[1,2.0,null,true],"a":{"é":"<x>","e":{}}}'),
        (render.spaced, '{"b": [1, 2.0, null, true], "a": {"é": "<x>", "e": {}}}'),
        (render.sorted_compact, '{"a":{"e":{},"é":"<x>"},"b":[1,2.0,null,true]}'),
        (render.sorted_spaced, '{"a": {"e": {}, "é": "<x>"}, "b": [1, 2.0, null, true]}'),
        (render.nimble, '{"b": [1, 2.0, null, true], "a": {"é": "\\u003cx\\u003e", "e": {}}}'),
        (render.json_text, '{"b": [1, 2.0, null, true], "a": {"é": "<x>", "e": {}}}'),
        (render.kev, "b:\n  - 1\n  - 2.0\n  - \n  - True\na:\n  é: <x>\n  e:\n"),
        (render.clm, "b:\n  - 1\n  - 2.0\n  - \n  - true\n\na:\n  é: <x>\n  e:\n"),
    ],
)
def test_an_object_as_written_out_by_hand(rule: Any, expected: str) -> None:
    """Separators, order, escapes, and the layout of labelled lines."""
    assert expected == rule(VALUE)


def test_indented_is_two_spaces_deep() -> None:
    """Letters beyond ASCII stay, except for xor."""
    assert '{\n  "a": [\n    "é"\n  ]\n}' == render.indented({"a": ["é"]})
    assert '{\n  "a": [\n    "\\u00e9"\n  ]\n}' == render.indented_ascii({"a": ["é"]})


def test_null_is_nothing_or_null() -> None:
    """Nothing where the prompt drops it, `null` where JSON is shown."""
    assert ["", "null", "null", "", ""] == [
        rule(None) for rule in (render.compact, render.spaced, render.sorted_compact, render.kev, render.clm)
    ]


@pytest.mark.parametrize("rule", [*TEXT_AS_IS, render.kev, render.clm])
@given(text=st.text())
def test_text_is_shown_as_it_is(rule: Any, text: str) -> None:
    """No quotes, no escapes, no trimming."""
    assert text == rule(text)


@pytest.mark.parametrize("rule", [*TEXT_AS_IS, render.json_text, render.json_text_compact, render.nimble])
@given(value=JSON.filter(lambda value: value is not None and not isinstance(value, str)))
def test_json_reads_back(rule: Any, value: Any) -> None:
    """Whatever the layout, the text is JSON for the very same value."""
    assert value == json.loads(rule(value))


@given(value=JSON)
def test_nimble_never_shows_an_angle_bracket(value: Any) -> None:
    """So no markup of the model's can be forged, and the text still reads back."""
    text = render.nimble(value)
    assert not set("<>") & set(text)
    assert value == json.loads(text)


@given(value=JSON)
def test_sorted_rules_ignore_the_order_of_members(value: Any) -> None:
    """An object and the same object written backwards look alike."""
    assert render.sorted_compact(value) == render.sorted_compact(_backwards(value))
    assert render.sorted_spaced(value) == render.sorted_spaced(_backwards(value))


def _backwards(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _backwards(member) for key, member in reversed(value.items())}
    return [_backwards(item) for item in value] if isinstance(value, list) else value


def test_kev_lists_hold_nested_values_behind_the_dash() -> None:
    """The first line of what is nested follows the dash; the rest stays two spaces deeper."""
    value = [{"a": 1, "b": [2, 3]}, ["x", ["y"]], "z"]
    assert "- a: 1\n  b:\n    - 2\n    - 3\n- - x\n  - - y\n- z" == render.kev(value)


def test_kev_prints_numbers_as_python_does() -> None:
    """Floats keep their point and all their digits, unlike a template's six."""
    assert "1.0 1e+20 3.14159265 False" == " ".join(map(render.kev, (1.0, 1e20, 3.14159265, False)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|fim_suffix|>", "<¦fim_suffix¦>"),
        ("a<|im_end|><|box_end|>b", "a<¦im_end¦><¦box_end¦>b"),
        ("<||> <|a b|> <|a-b|> <think>", "<||> <|a b|> <|a-b|> <think>"),
        ("<|<|x|>|>", "<|<¦x¦>|>"),
    ],
)
def test_kev_escapes_what_looks_like_a_delimiter(text: str, expected: str) -> None:
    """Only names of letters, digits and underscores between the bars."""
    assert expected == render.kev_escape(text)


@given(text=st.text("<|>ab_ "))
def test_kev_escape_leaves_no_delimiter(text: str) -> None:
    """Nor does it when applied twice."""
    escaped = render.kev_escape(text)
    assert escaped == render.kev_escape(escaped)


def test_clm_nests_below_dashes_and_keys() -> None:
    """Paragraphs outside, lines inside."""
    assert "a: 1\n\nb:\n  c: x\n  d:\n    - 1\n\ne:" == render.clm({"a": 1, "b": {"c": "x", "d": [1]}, "e": ""}).strip()
    assert "- x\n-\n  a: 1\n  b: 2" == render.clm(["x", {"a": 1, "b": 2}])

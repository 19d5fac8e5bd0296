"""mmBERT's words over another tokenizer: where they are cut and what is stripped."""

from __future__ import annotations

import pytest
from word_vocabulary import WordVocabulary, model

from localdecide.families.mmbert import MmbertVocabulary, vocabulary_of
from localdecide.families.text import Guard


class Whole(WordVocabulary):
    """Every call is one token, so that calls can be read back."""

    def tokenize(self, text):
        return [self._id(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a bc", ["▁a", "▁bc"]),
        (" a", ["▁a"]),
        ("a  b ", ["▁a", "▁", "▁b", "▁"]),
        ("a\nb\n\n c", ["▁a", "\n", "▁b", "\n\n", "▁c"]),
        ("▁x", ["▁x"]),
        ("日本 語", ["▁日本", "▁語"]),
    ],
)
def test_words(text, words):
    """A stretch begins with U+2581, each begins a word, line breaks stand alone."""
    vocabulary = MmbertVocabulary(Whole(()))
    assert [vocabulary.piece(token) for token in vocabulary.tokenize(text)] == words


def test_spaces_left_of_a_mask_are_stripped():
    """The mask takes the spaces before it, as mmBERT's tokenizer does; other special tokens do not."""
    vocabulary = MmbertVocabulary(Whole(("<mask>", "<eos>")))
    tokens = Guard(vocabulary).encode("a  <mask> b <eos>")
    assert [vocabulary.piece(token) for token in tokens] == ["▁a", "<mask>", "▁b", "▁", "<eos>"]


def test_only_files_that_say_so_are_read_so():
    """The wrapper is for files whose tokenizer the store had to load as another."""
    inner = Whole(())
    assert vocabulary_of(model(inner)) is inner
    marked = model(inner, {"localdecide.tokenizer.pre": "mmbert"})
    assert isinstance(vocabulary_of(marked), MmbertVocabulary)
    assert vocabulary_of(marked) is vocabulary_of(marked)

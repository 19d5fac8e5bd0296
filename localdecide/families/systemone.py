"""Any other model that a Modelfile describes: PROMPT, LABELS, TEMPERATURE, ATTENTION and HEAD, no code.

PROMPT is a Jinja template with the inputs of decision templates (see `asked`). LABELS gives the words
that are read, one for each option in its order; a noul's are those of true and false.
"""

from __future__ import annotations

from localdecide.core.questions import Noul, Question, Score
from localdecide.families.base import Model
from localdecide.families.codes import Codes, first_codes, head_codes, refuse_over
from localdecide.families.head_file import has_readout
from localdecide.families.label_family import LabelFamily
from localdecide.families.labels import DIGITS
from localdecide.families.temperatures import KINDS

NAME = "systemone"
JOINT = False

SIDES = ("yes", "no")


def codes(model: Model, key: str, question: Question) -> Codes:
    """LABELS; else the head's codes; else letters for a choice, digits for a score, yes and no for a noul."""
    count = len(question.keys)
    said = model.spec.labels.get(question.kind)
    if said is None:
        if has_readout(model):
            return head_codes(model, key, question)
        if not isinstance(question, Noul | Score):
            return first_codes(model, key, count)
        said = SIDES if isinstance(question, Noul) else DIGITS
    refuse_over(len(said), count, key)
    # Which token a word is, is looked up where it follows the prompt.
    return Codes(tuple(said[:count]), ((0,),) * count)


family = LabelFamily(
    name=NAME,
    takes_null=True,
    codes=codes,
    true_first=True,
    at_prompt=True,
    takes_labels=True,
    alphabet="LABELS of the Modelfile, else A to Z and AA to ZZ; yes and no; 0 to 9",
    readouts=dict.fromkeys(KINDS, "labels"),
)
plan, read, describe = family.plan, family.read, family.describe

"""The pointer head (kev): the decide token's query against the key of the token that closes each option.

logit_k = (Wk h_k + bk) . (Wq h_decide + bq) / sqrt(head width). Rows are taken after the output norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from localdecide.core.errors import NumericalError
from localdecide.families.heads.arithmetic import Linear, Tensors, checked, finite


@dataclass(frozen=True, slots=True)
class PointerHead:
    query: Linear
    key: Linear

    @classmethod
    def load(cls, tensors: Tensors) -> PointerHead:
        """From `cls.output.{weight,bias}`: query rows, then as many key rows."""
        both = Linear.load(tensors, "cls.output")
        if both.bias is None or len(both.weight) % 2 or len(both.bias) != len(both.weight):
            raise NumericalError("numerical error: the pointer head's rows are not a query and a key of one size")
        half = len(both.weight) // 2
        return cls(Linear(both.weight[:half], both.bias[:half]), Linear(both.weight[half:], both.bias[half:]))

    @property
    def width(self) -> int:
        return self.query.width

    def logits(self, rows: Any, options: int) -> tuple[float, ...]:
        """rows [options + 1, n_embd]: where each option ends, then the decide token. One logit an option."""
        hidden = checked(rows, self.width, options + 1)
        products = self.key(hidden[:-1]) @ self.query(hidden[-1])
        return finite(products / np.float32(np.sqrt(len(self.query.weight))))

"""The runner's queue: order, cancelling, and short work between the parts of long work."""

from __future__ import annotations

from typing import Any

from localdecide.runner.queue import Job, WorkQueue


def message(number: int, state: Any = "", questions: int = 1) -> dict[str, Any]:
    asked = [[f"q{index}", {"type": "noul"}] for index in range(questions)]
    return {"op": "decide", "id": number, "decision": {"state": state, "questions": asked}}


def test_first_in_first_out_and_cancelled_work_is_dropped() -> None:
    """Waiting jobs leave in order; a cancelled one never starts; a running one is told."""
    queue = WorkQueue()
    for number in (1, 2, 3):
        queue.put(message(number))
    queue.cancel(2)
    first, second = queue.take(), queue.take()
    queue.cancel(3)
    queue.cancel(99)

    assert (1, 3, 0) == (first.id, second.id, len(queue))
    assert (False, True) == (first.cancelled.is_set(), second.cancelled.is_set())


def test_only_much_shorter_work_goes_in_between() -> None:
    """The oldest job of at most a quarter of the running one's length is taken, the rest waits its turn."""
    queue = WorkQueue()
    for number, state in enumerate(["x" * 600, "y" * 300, "z" * 100, ["w"]]):
        queue.put(message(number, state))
    long = queue.take()

    assert [2, 3, None] == [job and job.id for job in (queue.take_shorter(long) for _ in range(3))]
    assert queue.take().id == 1


def test_many_questions_are_no_short_work() -> None:
    """What a request asks takes time like what it asks about."""
    queue = WorkQueue()
    queue.put(message(1, "x" * 600))
    queue.put(message(2, "y", questions=50))
    queue.put(message(3, "y", questions=2))
    long = queue.take()

    assert [3, None] == [job and job.id for job in (queue.take_shorter(long) for _ in range(2))]


def test_a_score_neither_interrupts_nor_is_interrupted() -> None:
    """It may need another kind of context than the one that a decision in the middle of its state holds."""
    queue = WorkQueue()
    queue.put(message(1, "x" * 400))
    queue.put({"op": "score", "id": 2, "request": {"prompts": []}})
    queue.put(message(3, "y"))
    long = queue.take()

    assert [3, None] == [job and job.id for job in (queue.take_shorter(long) for _ in range(2))]
    queue.put(message(4, ""))
    score = queue.take()
    assert (2, None) == (score.id, queue.take_shorter(score))


def test_nested_work_can_be_cancelled_too() -> None:
    """Both the long job and the one inside it are running; done work is forgotten."""
    queue = WorkQueue()
    queue.put(message(1, "x" * 100))
    queue.put(message(2, "y"))
    long = queue.take()
    short = queue.take_shorter(long)
    assert isinstance(short, Job)
    queue.done(short)
    queue.cancel(2)
    queue.cancel(1)

    assert (True, False) == (long.cancelled.is_set(), short.cancelled.is_set())

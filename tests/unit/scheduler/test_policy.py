"""The scheduler's rules, on a table of events. Time is a number; nothing runs."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from localdecide.core.errors import BadModelFile, Busy, DoesNotFit
from localdecide.scheduler.policy import next_wake, step
from localdecide.scheduler.state import (
    Arrive,
    Close,
    Gone,
    Grant,
    Leave,
    Limits,
    Load,
    Loaded,
    LoadFailed,
    Probe,
    Refuse,
    State,
    Stop,
    Tick,
    Ticket,
    Unload,
)

GIB = 2**30


class Table:
    """Feeds events one by one; ticket ids count up, time stands until told."""

    def __init__(self, budget=8 * GIB, **limits):
        self.limits = Limits(**limits)
        self.state = State(budget=budget)
        self.now = 0.0
        self.newest = 0

    def feed(self, event):
        self.state, actions = step(self.state, event, self.limits)
        return list(actions)

    def ask(self, model, need=GIB, keep=None, default=300.0, version="", budget=None):
        self.newest += 1
        return self.feed(Arrive(Ticket(self.newest, model, version, need, keep, default), self.now, budget))

    def leave(self, ticket):
        return self.feed(Leave(ticket, self.now))

    def loaded(self, model, size=None):
        return self.feed(Loaded(model, self.state.slots[model].serial, self.now, size))

    def gone(self, model):
        return self.feed(Gone(model, self.state.slots[model].serial, self.now))

    def stop(self, model):
        return self.feed(Stop(model, self.newest, self.now))

    def tick(self, seconds):
        self.now += seconds
        return self.feed(Tick(self.now))

    def resident(self, *models, **ask):
        """Loads each in turn, one second apart, and leaves it idle."""
        for model in models:
            self.ask(model, **ask)
            self.loaded(model)
            self.leave(self.newest)
            self.now += 1

    def phases(self):
        return {name: slot.phase for name, slot in self.state.slots.items()}


def kinds(actions):
    return [(type(action).__name__, getattr(action, "model", None)) for action in actions]


def test_one_load_however_many_ask():
    """Three requests for a model cause one load; all three are granted when it is there."""
    table = Table()
    assert table.ask("a") == [Load("a", 1, 1)]
    assert table.ask("a") + table.ask("a") == []
    assert table.loaded("a") == [Grant(1, "a"), Grant(2, "a"), Grant(3, "a")]


def test_a_load_goes_on_when_its_client_has_left():
    """No action follows the leaving; later the model is ready, idle and serves the next."""
    table = Table()
    table.ask("a")
    assert table.leave(1) == []
    assert table.loaded("a") == []
    assert table.ask("a") == [Grant(2, "a")]


def test_a_client_that_leaves_the_queue_causes_no_load():
    """Its ticket is gone before there is room, and the room is then not used."""
    table = Table(models=1)
    table.ask("a")
    table.loaded("a")
    table.ask("b")
    table.leave(2)
    assert table.leave(1) == []
    assert table.phases() == {"a": "ready"}


def test_the_least_recently_used_idle_model_goes():
    """Of three idle models the one whose last request ended first is unloaded, then the new one loads."""
    table = Table(models=3)
    table.resident("a", "b", "c")
    table.ask("a")
    table.leave(table.newest)
    assert table.ask("d") == [Unload("b", 2)]
    assert table.gone("b") == [Load("d", 4, 5)]


def test_a_model_kept_for_ever_goes_last():
    """An older pinned model stays while an unpinned one can go; with no other choice it goes too."""
    table = Table(models=2)
    table.resident("pinned", keep=math.inf)
    table.resident("plain")
    assert kinds(table.ask("c")) == [("Unload", "plain")]
    table.gone("plain")
    table.loaded("c")
    assert kinds(table.ask("d")) == [("Unload", "pinned")]


@pytest.mark.parametrize("phase", ["loading", "in use"])
def test_a_model_that_loads_or_is_in_use_is_never_evicted(phase):
    """The other request waits until it is idle."""
    table = Table(models=1)
    table.ask("a")
    if phase == "in use":
        table.loaded("a")
    assert table.ask("b") == []
    if phase == "loading":
        assert table.loaded("a") == [Grant(1, "a")]
    assert table.leave(1) == [Unload("a", 1)]


def test_memory_decides_how_many_fit():
    """Models of 3 GiB in 8: two stay, the third pushes the older out; what the runner says it uses counts."""
    table = Table()
    table.resident("a", "b", need=3 * GIB)
    assert kinds(table.ask("c", need=3 * GIB)) == [("Unload", "a")]
    table.gone("a")
    assert table.loaded("c", size=6 * GIB) == [Grant(3, "c")]
    assert kinds(table.ask("d", need=2 * GIB)) == [("Unload", "b")]


def test_as_few_as_needed_go():
    """A small model that would fit anyway stays when a big one has made room."""
    table = Table()
    table.resident("big", need=5 * GIB)
    table.resident("small", need=1 * GIB)
    assert kinds(table.ask("c", need=4 * GIB)) == [("Unload", "big")]


def test_what_cannot_fit_even_alone_is_refused_with_both_numbers():
    """DoesNotFit, and nothing is unloaded for it."""
    table = Table()
    table.resident("a")
    (refusal,) = table.ask("huge", need=9 * GIB)
    assert type(refusal.error) is DoesNotFit
    assert refusal.error.details == {"needed": 9 * GIB, "available": 8 * GIB}
    assert ("9,216 MiB" in refusal.error.message, "8,192 MiB" in refusal.error.message) == (True, True)
    assert table.phases() == {"a": "ready"}


def test_memory_that_shrank_refuses_who_waits():
    """A ticket that fitted when it came is refused when the machine has less, not left to wait for ever."""
    table = Table(models=1)
    table.ask("a", need=GIB)
    table.loaded("a")
    table.ask("b", need=4 * GIB)
    actions = table.ask("a", need=GIB, budget=2 * GIB)
    assert [type(action) for action in actions] == [Grant, Refuse]
    assert actions[1].ticket == 2


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, None, 300.0),
        (60.0, None, 60.0),
        (math.inf, None, math.inf),
        (None, 60.0, 60.0),
        (math.inf, 60.0, 60.0),
        (60.0, math.inf, math.inf),
    ],
)
def test_keep_alive_is_what_was_last_said(first, second, expected):
    """A plain request changes nothing, so it never shortens a pin; an explicit value replaces."""
    table = Table()
    table.ask("a", keep=first)
    table.loaded("a")
    table.leave(1)
    table.ask("a", keep=second)
    table.leave(2)
    assert table.state.slots["a"].expires == expected


def test_an_idle_model_goes_when_its_time_is_up():
    """The time starts when the last request ends, and only then."""
    table = Table()
    table.ask("a", keep=10.0)
    table.loaded("a")
    assert (table.tick(60), next_wake(table.state)) == ([], None)
    table.leave(1)
    assert next_wake(table.state) == 70.0
    assert table.tick(9) == []
    assert table.tick(1) == [Unload("a", 1)]


def test_keep_alive_zero_unloads_after_the_request():
    """Not before another request that is in it has ended too."""
    table = Table()
    table.ask("a")
    table.loaded("a")
    table.ask("a", keep=0.0)
    assert table.leave(2) == []
    assert table.leave(1) == [Unload("a", 1)]


def test_keep_alive_zero_of_a_client_that_left_wastes_no_load():
    """The load goes on and the model stays for the default time."""
    table = Table()
    table.ask("a", keep=0.0)
    table.leave(1)
    assert (table.loaded("a"), table.state.slots["a"].keep) == ([], 300.0)


def test_a_stop_waits_for_requests_and_serves_no_younger_ones():
    """Those in it and those that waited are served; one that comes later gets a fresh runner."""
    table = Table(in_flight=1)
    table.ask("a")
    table.loaded("a")
    table.ask("a")
    assert table.stop("a") == [Probe("a", 1)]
    assert table.ask("a") == []
    assert table.leave(1) == [Grant(2, "a")]
    assert table.leave(2) == [Unload("a", 1)]
    assert table.gone("a") == [Load("a", 2, 3)]


def test_a_stop_of_an_idle_model_unloads_it_at_once():
    """And of one that loads for nobody; a second stop does nothing more."""
    table = Table()
    table.resident("a")
    table.ask("b")
    table.leave(table.newest)
    assert table.stop("a") == [Unload("a", 1)]
    assert table.stop("a") == []
    assert table.stop("b") == [Unload("b", 2)]


def test_a_changed_model_is_loaded_anew():
    """The old runner ends its requests and goes, then the new version loads."""
    table = Table()
    table.ask("a", version="1")
    table.loaded("a")
    assert table.ask("a", version="2") == []
    assert table.leave(1) == [Unload("a", 1)]
    assert table.gone("a") == [Load("a", 2, 2)]
    assert table.state.slots["a"].version == "2"


def test_a_model_changed_twice_while_tickets_wait_loads_its_newest_form():
    """The oldest ticket does not bring an old version back."""
    table = Table(models=1)
    table.ask("other")
    table.loaded("other")
    table.ask("a", version="1")
    table.ask("a", version="2")
    table.leave(1)
    assert table.gone("other") == [Load("a", 2, 3)]


def test_the_queue_is_bounded_for_all_models_and_for_loaded_ones():
    """Waiting for a busy loaded model counts as waiting; beyond the bound comes Busy with a time to wait."""
    table = Table(queue=2, in_flight=1)
    table.ask("a")
    table.loaded("a")
    assert table.ask("a") == []
    table.ask("b")
    before = table.state
    (refusal,) = table.ask("a")
    assert (refusal.ticket, type(refusal.error), refusal.error.retry_after >= 1) == (4, Busy, True)
    assert table.state == before


def test_a_full_queue_does_not_stop_who_need_not_wait():
    """A request for an idle model is granted though others wait for another."""
    table = Table(queue=1, in_flight=1)
    table.resident("idle")
    table.ask("a")
    table.loaded("a")
    table.ask("a")
    assert table.ask("idle") == [Grant(4, "idle")]


def test_younger_requests_overtake_so_often_and_no_more():
    """While b waits for room, a goes on for `overtake` requests; then a falls idle and b has its turn."""
    table = Table(models=1, in_flight=1, overtake=3)
    table.ask("a")
    table.loaded("a")
    table.ask("b")
    for _ in range(6):
        table.ask("a")
    granted = []
    for ticket in (1, 3, 4, 5):
        granted += table.leave(ticket)
    assert granted == [Grant(3, "a"), Grant(4, "a"), Grant(5, "a"), Unload("a", 1)]
    assert table.gone("a") == [Load("b", 2, 2)]
    assert table.loaded("b") == [Grant(2, "b")]
    assert table.leave(2) == [Unload("b", 2)]


def test_only_the_runner_in_the_way_is_starved():
    """With room for two, requests for the more recently used model go on beyond the bound."""
    table = Table(models=2, in_flight=2, overtake=1)
    for model in ("a", "b"):
        table.ask(model)
        table.loaded(model)
        table.now += 1
    table.ask("c")
    assert table.ask("b") == [Grant(4, "b")]
    assert table.ask("a") == []
    table.leave(2)
    assert table.ask("b") == [Grant(6, "b")]
    assert table.leave(1) == [Unload("a", 1)]


def test_a_failed_load_fails_all_who_wait_for_it():
    """Requests for other models are untouched; the next request for this one tries again."""
    table = Table(models=1)
    table.ask("a")
    table.ask("b")
    table.ask("a")
    error = BadModelFile("not a GGUF")
    actions = table.feed(LoadFailed("a", 1, 0.0, error))
    assert actions == [Refuse(1, error), Refuse(3, error), Load("b", 2, 2)]


def test_a_runner_that_died_is_replaced_for_those_who_wait():
    """Tickets that had it are forgotten, those that wait cause a fresh load; late news of the old one is ignored."""
    table = Table(in_flight=1)
    table.ask("a")
    table.loaded("a")
    table.ask("a")
    assert table.gone("a") == [Load("a", 2, 2)]
    assert table.feed(Gone("a", 1, 0.0)) + table.leave(1) == []
    assert table.loaded("a") == [Grant(2, "a")]


def test_closing_refuses_new_requests_and_lets_the_others_finish():
    """Then, at the end of grace, those that still wait are refused too."""
    table = Table(in_flight=1)
    table.ask("a")
    table.loaded("a")
    table.ask("a")
    table.ask("a")
    assert table.feed(Close(0.0)) == []
    (refusal,) = table.ask("a")
    assert (refusal.ticket, type(refusal.error)) == (4, Busy)
    assert table.leave(1) == [Grant(2, "a")]
    assert [action.ticket for action in table.feed(Close(0.0, waiting=True))] == [3]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("models", [1, 2])
def test_random_requests_over_three_models_all_finish(seed, models):
    """50 requests in a random world: all are served, no rule is broken on the way, and swaps stay rare."""
    chance = random.Random(seed)
    table = Table(models=models, in_flight=2)
    running, loading, unloading, served, loads = [], [], [], set(), 0
    asked = 0

    def take(actions):
        nonlocal loads
        for action in actions:
            match action:
                case Grant(ticket, model):
                    assert table.state.slots[model].phase == "ready" or ticket in served
                    running.append(ticket)
                case Load(model, serial, _):
                    loads += 1
                    loading.append((model, serial))
                case Unload(model, serial):
                    assert not table.state.slots[model].users
                    unloading.append((model, serial))
                case Refuse():
                    raise AssertionError(action)

    for _ in range(5000):
        if len(served) == 50:
            break
        assert len(table.state.slots) <= models
        choices = [name for name, some in (("end", running), ("load", loading), ("gone", unloading)) if some]
        choices += ["ask"] * (asked < 50)
        table.now += chance.random()
        match chance.choice(choices):
            case "ask":
                asked += 1
                take(table.ask(chance.choice("abc"), default=chance.choice([0.5, 300.0])))
            case "end":
                ticket = running.pop(chance.randrange(len(running)))
                served.add(ticket)
                take(table.leave(ticket))
            case "load":
                model, serial = loading.pop()
                take(table.feed(Loaded(model, serial, table.now)))
            case "gone":
                model, serial = unloading.pop()
                take(table.feed(Gone(model, serial, table.now)))
    assert len(served) == 50
    assert loads <= 30


def test_swaps_stay_rare_when_all_ask_at_once():
    """50 requests over three models that wait together, room for one: about one load a batch, not one a request."""
    table = Table(models=1)
    chance = random.Random(1)
    loads, running = 0, []
    actions = []
    for _ in range(50):
        actions += table.ask(chance.choice("abc"))
    for _ in range(500):
        if not actions:
            if not running:
                break
            actions = table.leave(running.pop(0))
            continue
        match actions.pop(0):
            case Grant(ticket, _):
                running.append(ticket)
            case Load(model, _, _):
                loads += 1
                actions += table.loaded(model)
            case Unload(model, _):
                actions += table.gone(model)
    assert (table.state.waiting, running, loads <= 5) == ((), [], True)


def test_a_step_changes_nothing_it_was_given():
    """The old state stays as it was: the policy is a function."""
    table = Table()
    table.resident("a")
    before, copy = table.state, replace(table.state, slots=dict(table.state.slots))
    table.ask("b")
    table.stop("a")
    assert before == copy

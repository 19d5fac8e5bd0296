"""Which models are resident: (state, event) -> (state, actions), with no clock, no process and no lock.

The rules
    One queue, first come first served. A runner holds a few requests at a time, the others wait here.
    The oldest ticket whose model is not resident is the head; only the head may cause a load.
    To make room, idle runners go: least recently used first, those that are kept for ever last.
    A runner that loads or is in use is never taken away.
    While the head waits, younger tickets of resident models may overtake it, but only
    `Limits.overtake` times; then the runners in the head's way get no new work, fall idle and go.
"""

from __future__ import annotations

import math
from dataclasses import replace

from localdecide.core.errors import Busy, DoesNotFit, LocaldecideError
from localdecide.scheduler.state import (
    Action,
    Arrive,
    Close,
    Event,
    Gone,
    Grant,
    Leave,
    Limits,
    Load,
    Loaded,
    LoadFailed,
    Probe,
    Refuse,
    Slot,
    State,
    Stop,
    Tick,
    Ticket,
    Unload,
)


def step(state: State, event: Event, limits: Limits) -> tuple[State, tuple[Action, ...]]:
    """The state after `event` and what must be done about it, in order."""
    turn = _Turn(state, limits)
    match event:
        case Arrive(ticket, now, budget):
            if state.closing:
                return state, (Refuse(ticket.id, closing()),)
            turn.arrive(ticket, budget)
            turn.settle(now)
            if len(turn.waiting) > limits.queue and ticket in turn.waiting:
                return state, (Refuse(ticket.id, full(limits.queue)),)
            return turn.done()
        case Leave(ticket_id, now):
            turn.leave(ticket_id, now)
        case Loaded(model, serial, now, size):
            if (slot := turn.find(model, serial)) and slot.phase == "loading":
                turn.put(replace(slot, phase="ready", used=now, bytes=slot.bytes if size is None else size))
        case LoadFailed(model, serial, _, error):
            if (slot := turn.find(model, serial)) and slot.phase == "loading":
                turn.fail(slot, error)
        case Gone(model, serial, _):
            if turn.find(model, serial):
                del turn.slots[model]
        case Stop(model, newest, _):
            turn.stop(model, newest)
        case Close(_, waiting):
            turn.closing = True
            if waiting:
                for ticket in tuple(turn.waiting):
                    turn.refuse(ticket, closing())
        case Tick():
            pass
    turn.settle(event.now)
    return turn.done()


def next_wake(state: State) -> float | None:
    """When the next idle runner's time is up, or None."""
    times = [slot.expires for slot in state.slots.values() if slot.idle and not math.isinf(slot.expires)]
    return min(times, default=None)


def full(bound: int) -> Busy:
    # A second for every 64 that wait: a runner answers some tens of requests a second.
    return Busy(
        f"server busy: {bound} requests are waiting already (LOCALDECIDE_MAX_QUEUE); please try again",
        {"retry_after": 1 + bound // 64},
    )


def closing() -> Busy:
    return Busy("the daemon is shutting down", {"retry_after": 5})


class _Turn:
    """One step in the making: a copy of the state that may be changed, and the actions so far."""

    def __init__(self, state: State, limits: Limits) -> None:
        self.state = state
        self.limits = limits
        self.slots = dict(state.slots)
        self.waiting = list(state.waiting)
        self.budget = state.budget
        self.serial = state.serial
        self.head_id = state.head
        self.overtaken = state.overtaken
        self.closing = state.closing
        self.actions: list[Action] = []

    def done(self) -> tuple[State, tuple[Action, ...]]:
        state = State(
            slots=self.slots,
            waiting=tuple(self.waiting),
            budget=self.budget,
            serial=self.serial,
            head=self.head_id,
            overtaken=self.overtaken,
            closing=self.closing,
        )
        return state, tuple(self.actions)

    # What events do.

    def arrive(self, ticket: Ticket, budget: int | None) -> None:
        if budget is not None:
            self.budget = budget
        slot = self.slots.get(ticket.model)
        if slot and slot.version != ticket.version:
            self.put(replace(slot, last_ticket=min(slot.last_ticket, ticket.id - 1)))
        self.waiting.append(ticket)

    def leave(self, ticket_id: int, now: float) -> None:
        self.waiting = [ticket for ticket in self.waiting if ticket.id != ticket_id]
        for slot in tuple(self.slots.values()):
            if ticket_id in slot.users:
                self.put(replace(slot, users=slot.users - {ticket_id}, used=now))

    def stop(self, model: str, newest: int) -> None:
        slot = self.slots.get(model)
        if slot is None or slot.phase == "unloading":
            return
        slot = replace(slot, last_ticket=min(slot.last_ticket, newest))
        self.put(slot)
        if slot.phase == "loading" and not any(self.serves(slot, ticket) for ticket in self.waiting):
            self.unload(slot)
        elif not slot.idle:
            self.actions.append(Probe(model, slot.serial))

    def fail(self, slot: Slot, error: LocaldecideError) -> None:
        del self.slots[slot.model]
        for ticket in tuple(self.waiting):
            if self.serves(slot, ticket):
                self.refuse(ticket, error)

    # What follows from any event.

    def settle(self, now: float) -> None:
        self.grant(now)
        for slot in tuple(self.slots.values()):
            if slot.idle and (slot.expires <= now or slot.going):
                self.unload(slot)
        self.admit()

    def grant(self, now: float) -> None:
        head = self.head()
        for ticket in tuple(self.waiting):
            slot = self.slots.get(ticket.model)
            if slot is None or slot.phase != "ready" or not self.serves(slot, ticket):
                continue
            if len(slot.users) >= self.limits.in_flight:
                continue
            if head is not None and ticket.id > head.id:
                if self.overtaken >= self.limits.overtake and slot in self.victims(head):
                    continue
                self.overtaken += 1
            self.waiting.remove(ticket)
            keep = slot.keep if ticket.keep is None else ticket.keep
            self.put(replace(slot, users=slot.users | {ticket.id}, used=now, keep=keep))
            self.actions.append(Grant(ticket.id, ticket.model))

    def admit(self) -> None:
        while (head := self.head()) is not None:
            if head.need > self.budget:
                self.refuse(head, too_large(head, self.budget))
            elif head.model in self.slots:
                return  # an earlier runner of the same model has yet to go
            elif self.fits(head, list(self.slots.values())):
                self.load(head)
            else:
                self.make_room(head)
                return

    def make_room(self, head: Ticket) -> None:
        victims = self.victims(head)
        left = [slot for slot in self.staying() if slot not in victims]
        if all(slot.idle for slot in victims) and self.fits(head, left):
            for slot in victims:
                self.unload(slot)

    def load(self, ticket: Ticket) -> None:
        self.serial += 1
        # A model that was created anew while tickets waited is loaded as the newest of them saw it.
        ticket = max((other for other in self.waiting if other.model == ticket.model), key=lambda other: other.id)
        # 0 means "unload after my request"; it says nothing about a model whose client has left.
        keep = ticket.keep or ticket.default_keep
        self.put(Slot(ticket.model, ticket.version, self.serial, ticket.need, keep))
        self.actions.append(Load(ticket.model, self.serial, ticket.id))

    def unload(self, slot: Slot) -> None:
        self.put(replace(slot, phase="unloading"))
        self.actions.append(Unload(slot.model, slot.serial))

    def refuse(self, ticket: Ticket, error: LocaldecideError) -> None:
        self.waiting.remove(ticket)
        self.actions.append(Refuse(ticket.id, error))

    # What is asked of the state.

    def head(self) -> Ticket | None:
        """The oldest ticket that no present runner will serve."""
        head = next((ticket for ticket in self.waiting if not self.served(ticket)), None)
        if (head.id if head else None) != self.head_id:
            self.head_id, self.overtaken = (head.id if head else None), 0
        return head

    def served(self, ticket: Ticket) -> bool:
        slot = self.slots.get(ticket.model)
        return slot is not None and slot.phase != "unloading" and self.serves(slot, ticket)

    @staticmethod
    def serves(slot: Slot, ticket: Ticket) -> bool:
        return ticket.model == slot.model and ticket.id <= slot.last_ticket

    def staying(self) -> list[Slot]:
        return [slot for slot in self.slots.values() if slot.phase != "unloading"]

    def victims(self, head: Ticket) -> list[Slot]:
        """The runners in the head's way, in the order they go, as few as make room if that can be."""
        left = self.staying()
        ready = [slot for slot in left if slot.phase == "ready"]
        victims: list[Slot] = []
        for slot in sorted(ready, key=lambda slot: (not slot.idle, math.isinf(slot.keep), slot.used)):
            if self.fits(head, left):
                break
            left.remove(slot)
            victims.append(slot)
        return victims

    def fits(self, ticket: Ticket, beside: list[Slot]) -> bool:
        free = self.budget - sum(slot.bytes for slot in beside)
        return ticket.need <= free and (self.limits.models == 0 or len(beside) < self.limits.models)

    def find(self, model: str, serial: int) -> Slot | None:
        slot = self.slots.get(model)
        return slot if slot and slot.serial == serial else None

    def put(self, slot: Slot) -> None:
        self.slots[slot.model] = slot


def too_large(ticket: Ticket, budget: int) -> DoesNotFit:
    return DoesNotFit(
        f"model '{ticket.model}' needs about {mebibytes(ticket.need)} of memory; "
        f"{mebibytes(budget)} can be used here (LOCALDECIDE_MEMORY sets it, PARAMETER num_ctx lowers the need)",
        {"needed": ticket.need, "available": budget},
    )


def mebibytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"

"""Approvals that runs ask for, and people's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wakeful.clock import Microseconds
from wakeful.errors import ClaimLost, LinkRefused, PayloadTampered
from wakeful.model import ApprovalState, Step, digest
from wakeful.stores.alarm import Alarm
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import Audit, ByPerson, OfRun, stands_for
from wakeful.stores.tampered import WHAT_TO_DO, Tampered
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.asking import tell_answered
from wakeful.stores.verbs.held_admissions import decide_run
from wakeful.stores.verbs.links import take_link
from wakeful.stores.verbs.people import open_alarms
from wakeful.stores.verbs.refusal import lost
from wakeful.stores.verbs.votes import YES, Terms, Voted, VoteRefused, vote
from wakeful.stores.verbs.waits import step_row, wake


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval: a question to a person."""

    id: str
    question: str
    asked_of: str | None = None
    schema: str | None = None  # JSON schema of the answer
    due_at: Microseconds | None = None


@dataclass(slots=True)
class AskPerson(OfRun[None]):
    """Open an approval, with the step that waits for the answer. `again`: why the previous answer was rejected."""

    app: str
    step: Step
    approval: Approval
    again: str | None = None
    alarm: Alarm | None = None  # notifies people; resolved when the approval is answered or expires

    def alarming(self) -> bool:
        return self.alarm is not None


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of an answer. `first`: it was the first one and counts."""

    id: str
    run: str
    first: bool
    state: ApprovalState
    answered_by: str | None
    refused: VoteRefused | None = None  # why the vote does not count
    votes: int = 0  # how many agree by now
    needed: int = 1


@dataclass(slots=True)
class AnswerApproval(ByPerson[Answered | None]):
    """Answer an approval with JSON. The first answer counts; for a later one, the result says who answered. None if there is no such
    approval.

    An approval of an effect or a run is answered by votes: the first no ends it, and it stays open until enough people said yes.
    """

    id: str
    answer: str
    run: str | None = None  # the run that begins, or not, by this answer
    digest: str | None = None  # of what the person saw
    arguments: str | None = None  # edited by the person: JSON, by parameter
    link: str | None = None  # the digest of the link that it comes by: the link is used up, or LinkRefused
    app: str | None = None  # of the run that begins: no policy is applied meanwhile
    woken: list[tuple[str, str]] = field(default_factory=list)

    gate = stands_for("app")

    def lock_keys(self, lanes: Lanes) -> None:
        if self.run is not None:
            lanes.named.add(self.run)

    def audit(self, result: Answered | None) -> Audit | None:
        return None if result is None or not result.first else Audit("answer", None, self.id, self.note)


VOTED_ON = frozenset({"effect", "run"})


def ask_people(now: int | None, requests: Sequence[AskPerson]) -> Transaction[list[ClaimLost | None]]:
    """Open each approval together with its waiting step. Refused if the claim is lost."""
    results: list[ClaimLost | None] = []
    for request in requests:
        claim, step, asked = request.claim, request.step, request.approval
        owned = yield "token_of_run", [(claim.seq,)]
        if not owned or owned[0][1] != claim.token or owned[0][2] != "running":
            results.append(lost(claim))
            continue
        if request.again is None:
            yield "register_step", [step_row(claim, step)]
        else:
            yield "ask_step_again", [(claim.seq, step.key, step.result)]
        row = (now, asked.id, claim.seq, claim.token, step.key, request.app, claim.agent)
        yield "open_approval", [(*row, asked.question, asked.asked_of, asked.schema, asked.due_at)]
        answers: Sequence[Row] = ()
        if request.again is None:
            found = yield "answer_of_approval", [(asked.id, claim.seq)]
            answers = [row for row in found if row[0] and not isinstance(row[0], Tampered)]
            for (answer,) in answers:
                yield "answer_step", [(now, claim.seq, step.key, "done", answer, None)]
        else:
            yield "reopen_approval", [(asked.id, request.again, asked.due_at)]
        if not answers and request.alarm is not None:
            yield from open_alarms(now, [request.alarm])
        results.append(None)
    return results


def answer_approvals(
    now: int | None, requests: Sequence[AnswerApproval]
) -> Transaction[list[Answered | PayloadTampered | LinkRefused | None]]:
    results: list[Answered | PayloadTampered | LinkRefused | None] = []
    for request in requests:
        refused = None if request.link is None else (yield from take_link(now, request.link, request.id))
        if refused is not None:
            results.append(refused)
            continue
        found = yield "find_approval", [(request.id,)]
        if not found:
            results.append(None)
            continue
        identifier, app, agent, seq, key, _, _, answered_by, _, run, kind = found[0]
        voted: Voted | VoteRefused | None = None
        if identifier != digest(run, key):
            # The id is derived from the run and the step. Here the row was changed to point at another step, which would get the answer.
            message = f"approval {identifier} was tampered with: it points at a step of run {run} that did not ask for it. {WHAT_TO_DO}"
            results.append(PayloadTampered(message))
            continue
        answer, by = request.answer, request.by.name
        if kind == "run":  # all that is asked about the run: the last yes must see the others
            yield "lock_approvals", [(seq,)]
        if kind in VOTED_ON:  # locked first: a worker that checked edited arguments may open it at this moment
            terms = Terms(*(yield "approval_terms", [(now, request.id)])[0])
            if terms.state == "open":
                told = (request.by, answer, request.digest, request.arguments, request.note)
                voted = yield from vote(now, terms, *told)
                if isinstance(voted, VoteRefused):
                    results.append(Answered(identifier, run, False, terms.state, None, voted, needed=terms.needed))
                    continue
                if kind == "run" and voted.answer == YES and (yield from _policy_moved(terms)):
                    voted = replace(voted, answer=None)  # the vote counts once the run was judged anew
                if voted.answer is None:
                    if request.link is not None:
                        yield "use_link", [(now, request.link)]
                    yield "insert_remedy", [(now, terms.run_seq, "answer", by, request.note, answer, None)]
                    results.append(Answered(identifier, run, True, "open", by, None, voted.votes, terms.needed))
                    continue
                answer, by = voted.answer, voted.by
        answered = yield "answer_approval", [(now, request.id, answer, by, request.note)]
        if not answered:
            now_is = (yield "find_approval", [(request.id,)])[0]
            results.append(
                Answered(identifier, run, first=False, state=now_is[5], answered_by=now_is[7] or answered_by)
            )
            continue
        if request.link is not None:
            yield "use_link", [(now, request.link)]
        seq, key = answered[0]
        if kind == "run":
            request.woken = yield from decide_run(now, seq, answer, by)
        else:
            yield "answer_step", [(now, seq, key, "done", answer, None)]
            request.woken = yield from wake(now, seq, f"answered by {by}")
        said = request.answer if request.arguments is not None else answer
        yield "insert_remedy", [(now, seq, "answer", request.by.name, request.note, said, None)]
        yield from tell_answered(now, app, agent, identifier, by, answer)
        votes = voted.votes if isinstance(voted, Voted) else 0
        results.append(Answered(identifier, run, True, "answered", by, None, votes))
    return results


def _policy_moved(terms: Terms) -> Transaction[bool]:
    """Whether the run was judged by another policy than the one in force: it stays held until a process of its app judges it anew."""
    in_force = yield "policy_in_force", [(terms.app,)]
    return terms.policy != (in_force[0][1] if in_force else None)

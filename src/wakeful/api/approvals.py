"""Questions of runs to people, and their answers."""

from __future__ import annotations

from typing import get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Reader, Store
from wakeful.errors import Persistent
from wakeful.http.change import read_change
from wakeful.http.guarded import refuse_other_apps
from wakeful.http.parameters import bad_cursor, is_plain, read_limit, read_parameters, read_state
from wakeful.http.problem import Problem
from wakeful.http.reply import JsonResponse, found
from wakeful.http.security import ApiSettings
from wakeful.model import ApprovalState
from wakeful.operations.answering import Question, answer_question, which_stands
from wakeful.operations.shape import misfits

APPROVAL_STATES: tuple[str, ...] = get_args(ApprovalState)


def approval_routes(reader: Reader, store: Store, settings: ApiSettings) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, ("state", "limit", "after"))
        limit, state, after = read_limit(given), read_state(given, APPROVAL_STATES), given.get("after")
        try:
            return JsonResponse(await reader.approvals(state=state, limit=limit, after=after))
        except ValueError:
            if after is None:
                raise
            raise bad_cursor() from None

    async def find(request: Request) -> Question | None:
        identifier = request.path_params["id"]
        return await reader.approval(identifier) if is_plain(identifier) else None

    async def one(request: Request) -> Response:
        return found(await find(request), "question")

    async def answer(request: Request) -> Response:
        change = await read_change(request, settings, ("answer", "note"))
        note, given = change.fields.text("note"), change.fields.given
        if "answer" not in given:
            raise change.fields.refusal("answer", "is missing: it is what is answered, as JSON")
        question = await find(request)
        if question is None:
            return found(None, "question")
        await refuse_other_apps(settings, [question["app"]])
        if question["state"] != "open":
            raise too_late(question)
        wrong = misfits(given["answer"], question["schema"])
        if wrong:
            raise misfit("; ".join(wrong))
        try:
            answered = await answer_question(store, question["id"], given["answer"], by=change.by, note=note)
        except Persistent as error:
            raise misfit(str(error)) from None
        if answered is None or not answered.first:
            raise too_late(await find(request) or question)
        return JsonResponse({"id": answered.id, "run": answered.run, "answer": given["answer"]})

    return [
        Route("/v1/approvals", listing, name="approvals"),
        Route("/v1/approvals/{id}", one, name="approval"),
        Route("/v1/approvals/{id}/answer", answer, methods=["POST"], name="answer_approval"),
    ]


def too_late(question: Question) -> Problem:
    title = "Another answer stands, or nobody waits for one"
    return Problem(409, which_stands(question), kind="already-answered", title=title)


def misfit(words: str) -> Problem:
    title = "The answer does not fit the question"
    return Problem(422, words, kind="answer-does-not-fit", title=title, field="answer")

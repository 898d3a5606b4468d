"""The part of the OpenAPI document about refused requests: all have the same shape, problem+json."""

from __future__ import annotations

from wakeful.errors import IdempotencyConflict, StoreUnavailable
from wakeful.http.parameters import bad_parameter
from wakeful.http.problem import MEDIA_TYPE, Problem, problem_of
from wakeful.http.schema import Json, answer, reference

WORDS = {
    "400": "The request is invalid: field names the part, index the event of a batch",
    "401": "The token is missing or wrong",
    "403": "This server has no token, and changes or requests from other machines need one; or the request comes from a foreign web page",
    "404": "Nothing has that name",
    "409": "The current state does not allow this, it is declared in code, or it was already answered differently",
    "408": "The body was not complete in time",
    "413": "The body exceeds the limit; it was not read completely",
    "415": "This Content-Type is not one for events, or not JSON for a change",
    "421": "The Host header names another server",
    "422": "This Idempotency-Key was used for another request, the source or type of an event is reserved, or the data, the state or the answer does not fit",
    "429": "Too many requests: send it again after the time in Retry-After",
    "503": "The store is unavailable. The request may have been stored; sending it again is safe",
}
EXAMPLES = (
    bad_parameter('limit is "501": give a number from 1 to 500', "limit"),
    Problem(
        401,
        "send the token as: Authorization: Bearer TOKEN",
        kind="unauthorized",
        title="This token is not the right one",
        field="Authorization",
    ),
    Problem(
        403,
        "the request did not come from this machine, and there is no token: set WAKEFUL_TOKEN (`wakeful token` prints one), "
        "restart the server, and send Authorization: Bearer TOKEN",
        kind="token-needed",
        title="This server has no token, and is open to this machine only",
    ),
    Problem(404, "there is no run of that name", kind="not-found", title="There is nothing of that name"),
    Problem(
        409,
        "run 22290ae6d7fc693079e167a06b is done: nothing is left to cancel",
        kind="over",
        title="This run cannot be cancelled",
    ),
    Problem(408, "the body was not complete within 60 seconds: send it again", kind="body-too-slow"),
    Problem(
        413,
        "the body exceeds the limit of 1,048,576 bytes: send less, or store the large part elsewhere and send its address",
        kind="body-too-large",
        title="The body is too large",
    ),
    Problem(
        415,
        "a change must be JSON: send Content-Type: application/json, also with an empty body",
        kind="unsupported-content-type",
        title="Changes are sent as JSON",
        field="Content-Type",
    ),
    Problem(
        421,
        "the Host header names another server: use the address that this server is bound to, or allow the name "
        "(allowed_hosts, --allow-host)",
        kind="unknown-host",
        title="This server does not answer to that name",
        field="Host",
    ),
    problem_of(IdempotencyConflict()),
    Problem(
        429,
        "too many wrong tokens from this address: wait for the time in Retry-After. The right token is accepted at any time",
        kind="too-many-tries",
        title="Too many wrong tokens",
    ),
    problem_of(StoreUnavailable()),
)


def problem_responses() -> Json:
    """The ways in which a request is refused, by status."""
    examples = {str(one.status): one.to_json() for one in EXAMPLES}
    answers = {
        status: answer(text, reference("Problem"), MEDIA_TYPE, examples[status]) for status, text in WORDS.items()
    }
    for status in ("429", "503"):
        answers[status]["headers"] = {"Retry-After": {"schema": {"type": "string"}, "description": "Seconds"}}
    return answers

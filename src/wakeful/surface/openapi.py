"""The part of the OpenAPI document that is generated from resources: paths with tags, keys with types, and examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import TypeAdapter

from wakeful.http.change import NOTE_LIMIT
from wakeful.http.schema import Json, answer, listing, object_of, operator, problems, reference
from wakeful.operations.redo import MANY
from wakeful.resources.declare import Bulk, Page, Resource, Verb
from wakeful.resources.fields import IN_PLACE
from wakeful.resources.given import Given, parameters_of, returned_by
from wakeful.surface.acting import member_of
from wakeful.surface.examples import example_of
from wakeful.surface.offers import Offer, offers_of, path_of

TEXT: Json = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}
NOTE: Json = {**TEXT, "description": "Why"}
PLAN: Json = {"type": "boolean", "default": False, "description": "Only return what would be done"}
YES: Json = {"type": "boolean", "default": False, "description": f"Confirm more than {MANY:,} at once"}
RATE: Json = {
    "type": ["string", "number", "null"],
    "description": "Rate limit, such as 20/s, or max",
    "examples": ["20/s"],
}
REFERENCE = "#/components/schemas/{model}"


def resource_paths(resources: Iterable[Resource]) -> Json:
    """Every path. `with_examples` adds the examples of answers."""
    paths: dict[str, Json] = {}
    for resource in resources:
        for offer in offers_of(resource):
            method, path = path_of(resource, offer)
            paths.setdefault(path, {})[method.lower()] = operation_of(resource, offer)
            if offer.bulk is not None and offer.verb is not None:
                method, path = path_of(resource, offer, many=True)
                paths.setdefault(path, {})[method.lower()] = bulk_operation(resource, offer, offer.verb, offer.bulk)
    return paths


def resource_schemas(resources: Iterable[Resource]) -> Json:
    """A schema for each view, by class name."""
    views: list[type] = []
    found: Json = {}
    resources = list(resources)
    for resource in resources:
        for view in views_of(resource):
            if resource.in_place:
                found[view.__name__] = whole_schema(view)
            else:
                views.append(view)
    found |= view_schemas(views)  # a view that another noun also returns uses the part names defined there
    for resource in resources:
        for view in (resource.view, returned_by(resource.show.find) if resource.show is not None else None):
            key = found.get(getattr(view, "__name__", ""), {}).get("properties", {}).get(resource.key, {})
            if key.get("type") == "string":
                key.setdefault("examples", [resource.example])
    return found


def view_schemas(views: Iterable[type]) -> Json:
    """A schema for each view and for each of its parts that has a name in the document."""
    serialization: Literal["serialization"] = "serialization"
    by_name: dict[str, TypeAdapter[Any]] = {view.__name__: TypeAdapter(view) for view in views}
    asked = [(name, serialization, adapter) for name, adapter in by_name.items()]
    _, made = TypeAdapter.json_schemas(asked, ref_template=REFERENCE)
    parts = made.get("$defs", {})
    found = {name: {"required": [], **tidy(placed(schema, parts))} for name, schema in parts.items()}
    used = set(by_name)
    while more := {one for name in used for one in references_of(found[name])} - used:
        used |= more
    return {name: schema for name, schema in found.items() if name in used}


def references_of(schema: Any) -> Iterator[str]:
    """The names of the schemas that a schema refers to."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        for inner in schema.values():
            yield from references_of(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from references_of(inner)


def views_of(resource: Resource) -> list[Any]:
    """All views that a resource returns."""
    found: list[Any] = [resource.view]
    if resource.show is not None:
        found.append(returned_by(resource.show.find))
    if resource.listing is not None and resource.listing.more is not None:
        found.append(resource.listing.more)
    found += [returned_by(one.read) for one in resource.readings]
    for verb in resource.verbs:
        found.append(returned_by(verb.run))
        if verb.plan is not None:
            found.append(returned_by(verb.plan))
        if verb.bulk is not None:
            found.append(verb.bulk.view)
    return [one for one in found if isinstance(one, type)]


# operations


def operation_of(resource: Resource, offer: Offer) -> Json:
    key = [] if not offer.of_one else [key_parameter(resource)]
    name = {"list": f"list_{resource.plural}", "show": f"get_{resource.noun}"}.get(offer.kind)
    if offer.reading is not None and offer.reading.operation is not None:
        name = offer.reading.operation
    described: Json = {
        "operationId": (name or verb_name(resource, offer)).replace(" ", "_"),
        "summary": sentence(offer.summary),
        "tags": [resource.plural],
    }
    if offer.verb is not None:
        return described | verb_parts(offer, offer.verb, key)
    parameters = [*key, *(query_parameter(one) for one in (*offer.which, *offer.takes))]
    statuses = ["401", "421", "503"] + (["400"] if offer.which or offer.takes or not offer.of_one else [])
    statuses += ["404"] if offer.of_one or offer.kind == "reading" else []
    statuses += ["409"] if offer.which else []
    return described | {
        "parameters": parameters,
        "responses": {"200": read_answer(resource, offer), **problems(*sorted(statuses))},
    }


def verb_name(resource: Resource, offer: Offer) -> str:
    """The operationId. A verb with a path of its own, such as /v1/pause, has its bare name."""
    _, path = path_of(resource, offer)
    return offer.name if path == f"/v1/{offer.name}" else f"{offer.name}_{resource.noun}"


def read_answer(resource: Resource, offer: Offer) -> Json:
    if offer.kind == "list" and resource.listing is not None:
        schema = listing(member_of(resource), reference(resource.view.__name__))
        paged = get_origin(returned_by(resource.listing.read)) is Page
        if paged:
            schema["properties"]["next"] = {"type": ["string", "null"], "description": "Pass it as after"}
            schema["required"].append("next")
        if resource.listing.more is not None:
            more = (whole_schema if resource.in_place else schema_of)(resource.listing.more)
            schema["properties"] |= more["properties"]
            schema["required"] += more.get("required", [])
        names = resource.listing.member or resource.names
        return answer(f"A page of {names}" if paged else f"The {names}", schema)
    read = offer.reading.read if offer.reading is not None else resource.show.find if resource.show else None
    if read is None:
        raise AssertionError(offer)
    return answer("Found" if offer.reading is None else offer.reading.found, answered(returned_by(read)))


def verb_parts(offer: Offer, verb: Verb, key: list[Json]) -> Json:
    fields = {one.http: field_schema(one) for one in offer.fields}
    if verb.plan is not None:
        fields["plan"] = {**PLAN, "description": sentence(verb.plan_help)}
    if verb.paced:
        fields |= {"rate": RATE, "yes": {**YES, "description": "Confirm more than 1,000 at once"}}
    if verb.note:
        fields["note"] = NOTE
    needed = [one.http for one in offer.fields if one.required]
    views = [returned_by(verb.run), *([returned_by(verb.plan)] if verb.plan is not None else [])]
    schemas = [answered(one) for one in dict.fromkeys(views)]
    done = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    statuses = {"400", "401", "403", "409", "413", "421", "503", *verb.statuses, *(["404"] if offer.of_one else [])}
    return {
        "security": [{"token": []}],
        "parameters": [*key, *(query_parameter(one) for one in offer.which), operator()],
        "requestBody": body_schema(fields, needed, verb.example or {}),
        "responses": {"200": answer("Done", done), **problems(*sorted(statuses))},
    }


def bulk_operation(resource: Resource, offer: Offer, verb: Verb, bulk: Bulk) -> Json:
    outside = {one.http: field_schema(one) for one in offer.choice if one.param.outside}
    fields = {one.inside: chosen_schema(one, alone=not bulk.others) for one in (bulk, *bulk.others)}
    fields |= {**outside, "plan": PLAN, "rate": RATE, "yes": YES}
    if verb.note:
        fields["note"] = NOTE
    statuses = {"400", "401", "403", "404", "409", "413", "421", "503", *verb.statuses}
    return {
        "operationId": bulk.operation or f"{verb.name}_{resource.plural}".replace(" ", "_"),
        "summary": bulk.summary or f"{sentence(verb.summary)}: many at once, one batch per request",
        "tags": [resource.plural],
        "security": [{"token": []}],
        "parameters": [operator()],
        "requestBody": body_schema(fields, [], {bulk.inside: filter_example(bulk)}),
        "responses": {"200": answer("Done", answered(bulk.view)), **problems(*sorted(statuses))},
    }


def chosen_schema(bulk: Bulk, *, alone: bool) -> Json:
    """The body member that selects the items. If there are several kinds, exactly one of them is given."""
    inside = [one for one in parameters_of(bulk.plan) if not one.param.outside]
    schema = object_of({one.http: field_schema(one) for one in inside}, *(one.http for one in inside if one.required))
    kind = {} if alone else {"type": ["object", "null"]}
    return {**schema, **kind, "additionalProperties": False, "description": "Filter that selects the items"}


def filter_example(bulk: Bulk) -> Json:
    """A filter with the first of the parameters that select items, and the required ones."""
    inside = [one for one in parameters_of(bulk.plan) if not one.param.outside]
    return {
        one.http: example_of(field_schema(one), {}, one.name)
        for one in inside
        if one.required or one.name == bulk.some[0]
    }


def body_schema(fields: Json, needed: list[str], example: Mapping[str, Any]) -> Json:
    """The body of a verb. Its example has the required fields, those of `example`, and a note."""
    schema = {**object_of(fields, *needed), "additionalProperties": False}
    shown = {name: example_of(fields[name], {}, name) for name in needed} | dict(example)
    if "note" in fields:
        shown.setdefault("note", example_of(fields["note"], {}, "note"))
    return {"required": bool(needed), "content": {"application/json": {"schema": schema, "example": shown}}}


def key_parameter(resource: Resource) -> Json:
    return {
        "name": resource.key,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
        "example": resource.example,
    }


def query_parameter(one: Given) -> Json:
    schema = field_schema(one)
    description = schema.pop("description")
    if isinstance(schema.get("type"), list):
        schema["type"] = next(kind for kind in schema["type"] if kind != "null")
    for bound in ("minLength", "maxLength"):
        schema.pop(bound, None)
    return {"name": one.http, "in": "query", "required": one.required, "description": description, "schema": schema}


def field_schema(one: Given) -> Json:
    """A parameter as a member of a body."""
    schema: Json = {"description": sentence(one.param.about or one.param.help)}
    match one.kind:
        case "flag":
            schema |= {"type": "boolean", "default": bool(one.default)}
        case "number":
            bound = {} if one.param.most is None else {"maximum": one.param.most}
            default = {"default": one.default} if isinstance(one.default, int) else {}
            schema |= {"type": "integer", "minimum": one.param.least, **bound, **default}
        case "choice":
            schema |= {"type": "string", "enum": sorted(one.choices)}
        case "text":
            kind = "string" if one.required else ["string", "null"]
            schema |= {"type": kind, "minLength": 1, "maxLength": one.param.most or NOTE_LIMIT}
        case "json":
            free = {"additionalProperties": True} if one.param.shape == "object" else {}
            schema |= {} if one.param.shape is None else {"type": one.param.shape, **free}
    if one.param.nullable and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    return schema if one.param.example is None else {**schema, "examples": [one.param.example]}


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


# schemas of views


def answered(view: Any) -> Json:
    return reference(view.__name__) if isinstance(view, type) else schema_of(view)


def schema_of(view: Any) -> Json:
    """The schema of a type, inlined."""
    if get_origin(view) is list:
        return {"type": "array", "items": answered(get_args(view)[0])}
    made = TypeAdapter(view).json_schema(mode="serialization", ref_template=REFERENCE)
    found: Json = tidy(placed(made, made.pop("$defs", {})))
    return found


def whole_schema(view: Any) -> Json:
    """The schema of a view with the schemas of its parts inlined."""
    made = TypeAdapter(view).json_schema(mode="serialization", ref_template=REFERENCE)
    whole: Json = tidy(placed(made, made.pop("$defs", {}), all_of_them=True))
    return whole


def placed(schema: Any, parts: Json, *, all_of_them: bool = False) -> Any:
    """The schema with the parts that are marked `InPlace`, or all of them, instead of references to them."""
    if isinstance(schema, list):
        return [placed(one, parts, all_of_them=all_of_them) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner, own = {}, {name: value for name, value in schema.items() if name != IN_PLACE}
    if "$ref" in own and (all_of_them or schema.get(IN_PLACE)):
        inner = parts[own.pop("$ref").rpartition("/")[2]]
    return {name: placed(value, parts, all_of_them=all_of_them) for name, value in (inner | own).items()}


def tidy(schema: Any) -> Any:
    """A schema without titles, with "this or null" as a list of types, enumerations in order, and an example."""
    if isinstance(schema, list):
        return [tidy(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: {one: tidy(inner) for one, inner in value.items()} if name == "properties" else tidy(value)
        for name, value in schema.items()
        if name != "title" or not isinstance(value, str)
    }
    if isinstance(made.get("enum"), list):
        made["enum"] = sorted(made["enum"])
    choices = made.get("anyOf")
    if isinstance(choices, list) and len(choices) == 2 and {"type": "null"} in choices:
        (other,) = [one for one in choices if one != {"type": "null"}]
        if isinstance(other.get("type"), str):
            del made["anyOf"]
            if "const" in other:  # null does not match a constant
                other = {"enum": [other["const"]], **{name: one for name, one in other.items() if name != "const"}}
            if "enum" in other:
                other = {**other, "enum": [*other["enum"], None]}
            made = {**other, "type": [other["type"], "null"], **made}
    return made

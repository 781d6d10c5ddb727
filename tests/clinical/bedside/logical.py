"""The official logical models of CDS Hooks (.fsh), as a check of JSON."""

import re
import uuid
from datetime import datetime

CODES = {  # the value sets that the models are bound to
    "CDSIndicator": {"info", "warning", "critical"},
    "CDSActionType": {"create", "update", "delete"},
    "CDSSelectionBehavior": {"at-most-one", "any"},
    "CDSLinkType": {"absolute", "smart"},
}
_ELEMENT = re.compile(r"\* ([\w.]+) (\d)\.\.(\d|\*) (\S+)")
_BOUND = re.compile(
    r"\* ([\w.]+) from http://hl7.org/fhir/tools/ValueSet/(\w+) \(required\)"
)
_NAME = re.compile(r"\* ([\w.]+) \^extension\[.\]\.url = \S*json-name\"")
_TYPES = {
    "string": str, "code": str, "markdown": str, "url": str, "uuid": str, "id": str,
    "instant": str, "boolean": bool, "integer": int, "Coding": dict, "Resource": dict,
}  # fmt: skip


def read_model(path):
    """Path of each element -> (least, most, type, codes)."""
    text, elements = path.read_text("utf-8"), {}
    for name, least, most, kind in _ELEMENT.findall(text):
        elements[name] = (
            int(least),
            1 if most == "1" else 10**9,
            kind.rpartition("/")[2],
        )
    codes = {name: CODES[of] for name, of in _BOUND.findall(text)}
    return elements, codes


def snake(name):
    """The property of JSON, which of `fhirAuthorization` is in snake case."""
    head, _, last = name.rpartition(".")
    return (
        re.sub("([A-Z])", r"_\1", last).lower()
        if head == "fhirAuthorization"
        else last
    )


def faults(value, model, *, where=""):
    """What in a JSON object does not hold the model."""
    elements, codes = model
    children = {
        path: rule
        for path, rule in elements.items()
        if path.rpartition(".")[0] == where
        and not path.endswith((".key", ".value"))
    }
    names = {snake(path): path for path in children}
    found = [
        f"{where}.{key}: unknown"
        for key in value
        if key not in names and key != "extension"
    ]
    for key, path in names.items():
        least, most, kind = children[path]
        given = value.get(key)
        many = (
            most > 1 and kind != "Base"
        )  # an object with any keys is Base 0..*
        listed = (
            given
            if many and isinstance(given, list)
            else []
            if given is None
            else [given]
        )
        if many and given is not None and not isinstance(given, list):
            found.append(f"{path}: expected a list")
        if least and given is None:
            found.append(f"{path}: missing")
        for each in listed:
            found += _faults_of(each, kind, path, model, codes.get(path))
    return found


def _faults_of(each, kind, path, model, allowed):
    if kind == "CDSHooksElement":
        return (
            faults(each, model, where=path)
            if isinstance(each, dict)
            else [f"{path}: no object"]
        )
    wanted = _TYPES.get(kind)
    if wanted and (
        not isinstance(each, wanted)
        or (wanted is int and isinstance(each, bool))
    ):
        return [f"{path}: {each!r} is no {kind}"]
    if allowed and each not in allowed:
        return [f"{path}: {each!r} is no code"]
    if kind == "uuid":
        try:
            uuid.UUID(each.removeprefix("urn:uuid:"))
        except ValueError:
            return [f"{path}: no UUID"]
    if kind == "instant" and datetime.fromisoformat(each).tzinfo is None:
        return [f"{path}: no time zone"]
    return []


_KINDS = {None, "all", "any", "at-most-one"}


def _all(items, holds):
    return all(holds(item) for item in items)


def response_invariants(response):
    """Names of the invariants that a response breaks."""
    broken = set()
    for card in response["cards"]:
        suggestions = card.get("suggestions", [])
        recommended = [s for s in suggestions if s.get("isRecommended")]
        if (
            card.get("selectionBehavior") == "at-most-one"
            and len(recommended) > 1
        ):
            broken.add("cds-resp-1")
        actions = [a for s in suggestions for a in s.get("actions", [])]
        deletes = [a for a in actions if a["type"] == "delete"]
        if not _all(
            deletes, lambda a: "resourceId" in a and "resource" not in a
        ):
            broken.add("cds-resp-2")
        others = [
            link for link in card.get("links", []) if link["type"] != "smart"
        ]
        if not _all(others, lambda link: "appContext" not in link):
            broken.add("cds-resp-3")
        if not _all(
            card.get("overrideReasons", []),
            lambda reason: reason.get("display"),
        ):
            broken.add("cds-resp-4")
        if not _all(actions, lambda a: a.get("description")):
            broken.add("cds-resp-5")
        if suggestions and "selectionBehavior" not in card:
            broken.add("cds-resp-6")
        if not _all(
            suggestions, lambda s: s.get("actionSelectionBehavior") in _KINDS
        ):
            broken.add("cds-resp-7")
        if len(card["summary"]) >= 140:
            broken.add("summary")
    return broken


def request_invariants(request):
    """Names of the invariants that a request breaks."""
    given = request.get("fhirAuthorization")
    broken = {"cds-r-1"} if given and not request.get("fhirServer") else set()
    if (
        given
        and "patient/" in given.get("scope", "")
        and not given.get("patient")
    ):
        broken.add("cds-r-2")
    return broken

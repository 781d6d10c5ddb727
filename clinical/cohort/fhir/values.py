"""Values inside FHIR resources, by the names of properties on the way to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Resource = Mapping[str, Any]
# Contained resources, and other subjects and encounters of resources: their ids are those of no
# patient and of no encounter.
_NOT_READ = re.compile(
    r"^#|\b(?:RelatedPerson|Group|Device|Location|EpisodeOfCare)/[^/]*(?:/_history|$)"
)


def values(parent: object, *names: str) -> list[Any]:
    """All values at the end of a path of names, such as "type", "coding", "code".

    Lists are opened on the way. What is no object, and what has no such property, has no values.
    """
    # Most resources lack most properties.
    if names and isinstance(parent, dict) and names[0] not in parent:
        return []
    parents = [parent]
    for name in names:
        children = []
        for value in parents:
            if not isinstance(value, dict):
                continue
            child = value.get(name)
            if isinstance(child, list):
                children += [inner for inner in child if inner is not None]
            elif child is not None:
                children.append(child)
        if not children:
            return children
        parents = children
    return parents


def texts(parent: object, *names: str) -> list[str]:
    """The values of a path that are texts and not blank, or true or false."""
    words = []
    for value in values(parent, *names):
        if isinstance(value, bool):
            words.append(str(value).lower())
        elif isinstance(value, str) and value.strip():
            words.append(value)
    return words


def ids(parent: object, *names: str) -> list[str]:
    """The ids in the references at a path, but for those to a resource that is not read."""
    return [
        address_id(reference)
        for reference in texts(parent, *names, "reference")
        if not _NOT_READ.search(reference)
    ]


def first(*candidates: list[str]) -> str | None:
    """The first text of the first list that has one."""
    for candidate in candidates:
        if candidate:
            return candidate[0]
    return None


def address_id(address: str) -> str:
    """The id in a reference: relative, absolute, of a version, or `urn:uuid:`; `#id` as it is."""
    address = address.strip()
    if address.startswith("#"):
        return address
    return address.split("/_history")[0].replace(":", "/").rpartition("/")[2]

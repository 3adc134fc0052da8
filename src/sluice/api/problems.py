"""One sentence per problem of a request: `<field>: <problem>`, with what was expected and what was found. Secrets are never echoed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_SHOWN: Final = 60
_SECRET: Final = frozenset({"secret_access_key", "access_key_id"})
_KINDS: Final[Mapping[type, str]] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}

Problem = Mapping[str, Any]


def describe(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Answer a sentence for each of pydantic's error entries."""
    return tuple(f"{_field(problem)}: {_sentence(problem)}" for problem in problems)


def _field(problem: Problem) -> str:
    place = [str(part) for part in problem["loc"][1:] if part != "[key]"]
    return ".".join(place) or str(problem["loc"][0] if problem["loc"] else "body")


def _sentence(problem: Problem) -> str:
    known = _SENTENCES.get(problem["type"])
    return known(problem) if known else str(problem["msg"]).removeprefix("Value error, ")


def _found(problem: Problem) -> str:
    value = problem.get("input")
    if str(problem["loc"][-1]) in _SECRET:
        return "another value"
    shown = repr(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else _kind(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "something else")


def _expected_kind(kind: str) -> Callable[[Problem], str]:
    return lambda problem: f"expected {kind}, found {_kind(problem.get('input'))}"


def _expected_bound(words: str, name: str) -> Callable[[Problem], str]:
    return lambda problem: f"expected {words} {problem['ctx'][name]}, found {_found(problem)}"


def _expected_length(words: str, name: str, unit: str) -> Callable[[Problem], str]:
    def sentence(problem: Problem) -> str:
        value = problem.get("input")
        found = len(value) if isinstance(value, str | list | dict) else "none"
        return f"expected {words} {problem['ctx'][name]} {unit}, found {found}"

    return sentence


_SENTENCES: Final[Mapping[str, Callable[[Problem], str]]] = {
    "missing": lambda _problem: "field required",
    "extra_forbidden": lambda _problem: "unknown field",
    "int_type": _expected_kind("an integer"),
    "int_from_float": _expected_kind("an integer"),
    "int_parsing": lambda problem: f"expected an integer, found {_found(problem)}",
    "int_parsing_size": lambda problem: f"expected an integer of a readable size, found {_found(problem)}",
    "string_type": _expected_kind("a string"),
    "bool_type": _expected_kind("a boolean"),
    "list_type": _expected_kind("an array"),
    "dict_type": _expected_kind("an object"),
    "model_type": _expected_kind("an object"),
    "model_attributes_type": _expected_kind("an object"),
    "literal_error": lambda problem: f"expected {problem['ctx']['expected']}, found {_found(problem)}",
    "string_pattern_mismatch": lambda problem: f"expected to match {problem['ctx']['pattern']}, found {_found(problem)}",
    "greater_than_equal": _expected_bound("at least", "ge"),
    "less_than_equal": _expected_bound("at most", "le"),
    "string_too_short": _expected_length("at least", "min_length", "characters"),
    "string_too_long": _expected_length("at most", "max_length", "characters"),
    "too_short": _expected_length("at least", "min_length", "items"),
    "too_long": _expected_length("at most", "max_length", "items"),
}

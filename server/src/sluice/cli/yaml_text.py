"""YAML that a person wrote, read without letting it grow: what its aliases stand for is bounded."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from yaml import Node

_MOST_CHARACTERS: Final = 8_000_000


def read_yaml(text: str | bytes) -> tuple[Any, "Node | None"]:
    """Return the value and its node, which knows the lines. Raise `ValueError` with the reason, `UnicodeError` too."""
    import yaml  # noqa: PLC0415  (commands load what they read with when they run)

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _count(node, {})
        return yaml.safe_load(text), node
    except yaml.YAMLError as fault:
        raise ValueError(" ".join(str(fault).split())) from fault
    except RecursionError as fault:
        raise ValueError("its values are nested too deep") from fault


def _count(node: "Node", counted: dict[int, int | None]) -> int:
    """Return the length of a node with all its aliases written out. Raise `ValueError` if that is too much."""
    if id(node) in counted:
        known = counted[id(node)]
        if known is None:
            raise ValueError(f"line {node.start_mark.line + 1}: a value contains itself")
        return known
    counted[id(node)] = None
    parts = node.value if isinstance(node.value, list) else []
    count = 1 if parts else 1 + len(node.value)
    for part in parts:
        count += sum(_count(one, counted) for one in (part if isinstance(part, tuple) else (part,)))
        if count > _MOST_CHARACTERS:
            line = node.start_mark.line + 1
            raise ValueError(f"line {line}: with its aliases written out, more than {_MOST_CHARACTERS} characters")
    counted[id(node)] = count
    return count

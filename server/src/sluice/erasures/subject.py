"""Whose files and names are erased, and what of a row belongs to that person. Pure: the SQL is in `repository`."""

import hashlib
import hmac
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, Self

from sluice.files.record import metadata_text

# The text that replaces a name. The trigger of the audit log lets an entry be changed to nothing else.
ERASED: Final = "erased"
_TOKEN: Final = "utk_"  # noqa: S105  (the beginning of a token's id)
_MACHINES: Final = ("key_", _TOKEN)
_SHORTEST_TERM: Final = 3  # a shorter value of metadata does not identify a person
_PLAIN_EXTENSION: Final = re.compile(r"[A-Za-z0-9]{1,10}")

# The fields of events with the name of the sender or of the file, and the values that replace them; and those with the
# name of another person who acted on the file.
BLANK_EVENT: Final[Mapping[str, Any]] = MappingProxyType(
    {"original_filename": ERASED, "uploaded_by": ERASED, "end_user": None, "metadata": {}}
)
EVENT_ACTORS: Final = ("downloaded_by",)
_WORDS_OF_JOBS: Final = ("format", "subject", "blanked")  # words of the service, which may be a person's name

SubjectKind = Literal["uploaded_by", "end_user", "metadata"]


@dataclass(frozen=True, slots=True)
class ErasureSubject:
    """A person, as one of three: an uploader, the end user that upload tokens name, or what the metadata of files say.

    `uploaded_by` may be the id of an API key or an upload token, too. `metadata` are names with their values as text,
    all of which a file has.
    """

    uploaded_by: str | None = None
    end_user: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """Return the subject that a job keeps."""
        return cls(kept.get("uploaded_by"), kept.get("end_user"), tuple(kept.get("metadata", {}).items()))

    def to_json(self) -> dict[str, Any]:
        """Return the subject as a job keeps it."""
        match self.kind:
            case "metadata":
                return {"metadata": dict(self.metadata)}
            case kind:
                return {kind: getattr(self, kind)}

    @property
    def kind(self) -> SubjectKind:
        """Which of the three it is."""
        if self.uploaded_by is not None:
            return "uploaded_by"
        return "end_user" if self.end_user is not None else "metadata"

    def digest(self, salt: bytes) -> str:
        """Return the value that replaces the name in the receipt: only those who know the name can compute it."""
        stated = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hmac.digest(salt, stated.encode(), hashlib.sha256).hex()

    @property
    def is_machine(self) -> bool:
        """Whether it is an API key or an upload token, whose id is no name."""
        return self.uploaded_by is not None and self.uploaded_by.startswith(_MACHINES)

    def terms(self, names: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the texts that name the person: what was asked for, and names that were found with it."""
        values = (value for _, value in self.metadata if len(value) >= _SHORTEST_TERM)
        own = (self.uploaded_by, self.end_user, *values, *names)
        return tuple(dict.fromkeys(term for term in own if term and not term.startswith(_MACHINES)))

    def sent(self, actor_id: str | None, actor_name: str | None) -> bool:
        """Return whether an upload of this actor is the person's. An upload token has its end user as its name."""
        if self.uploaded_by is not None:
            return actor_id == self.uploaded_by
        return self.end_user is not None and (actor_id or "").startswith(_TOKEN) and actor_name == self.end_user

    def is_in(self, metadata: object) -> bool:
        """Return whether this metadata of a file or a token is the person's."""
        if not self.metadata or not isinstance(metadata, Mapping):
            return False
        return all(metadata_text(metadata.get(name)) == value for name, value in self.metadata)

    def owns_token(self, token_id: str, end_user: str | None, metadata: object) -> bool:
        """Return whether an upload token is the person's."""
        if self.uploaded_by is not None:
            return token_id == self.uploaded_by
        return (self.end_user is not None and end_user == self.end_user) or self.is_in(metadata)

    def concerns(self, data: Mapping[str, Any], token_ids: Collection[str] = ()) -> bool:
        """Return whether an event with these data tells of an upload of the person, or of one of its upload tokens."""
        if self.uploaded_by is not None and data.get("uploaded_by") == self.uploaded_by:
            return True
        if self.end_user is not None and data.get("end_user") == self.end_user:
            return True
        if data.get("uploaded_by") in token_ids or data.get("token_id") in token_ids:
            return True
        return self.is_in(data.get("metadata"))

    def searched_for(self, wanted: Mapping[str, Any]) -> bool:
        """Return whether the filter of a job asks for files of the person."""
        is_uploader = self.uploaded_by is not None and wanted.get("uploaded_by") == self.uploaded_by
        return is_uploader or self.is_in(wanted.get("metadata"))


def mentions(text: str | None, terms: Collection[str]) -> bool:
    """Return whether a text has one of the terms as words of its own, in upper or lower case."""
    if not text:
        return False
    folded = text.casefold()
    return any(_has_word(folded, term.casefold()) for term in terms)


def _has_word(text: str, word: str) -> bool:
    begin = text.find(word)
    while begin >= 0:
        end = begin + len(word)
        if not (text[begin - 1 : begin].isalnum() or text[end : end + 1].isalnum()):
            return True
        begin = text.find(word, begin + 1)
    return False


def without_terms(value: Any, terms: Collection[str]) -> Any:
    """Return a JSON value with each text that mentions a term blanked."""
    if isinstance(value, Mapping):
        return {name: without_terms(inner, terms) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_terms(inner, terms) for inner in value]
    return ERASED if isinstance(value, str) and mentions(value, terms) else value


def blank_event(data: Mapping[str, Any], subject: ErasureSubject, *, is_theirs: bool) -> dict[str, Any]:
    """Return the data of an event without names: those of an upload that is the person's, and what the person did."""
    blank: dict[str, Any] = dict(BLANK_EVENT) if is_theirs else {}
    if subject.uploaded_by is not None:
        blank |= {name: ERASED for name in EVENT_ACTORS if data.get(name) == subject.uploaded_by}
    return {name: blank.get(name, value) for name, value in data.items()}


def blank_params(
    params: Mapping[str, Any], terms: Collection[str], subject: ErasureSubject, *, is_actor: bool
) -> dict[str, Any]:
    """Return what a job was asked for without names: `is_actor` says whether the person asked for it."""
    kept = {name: params[name] for name in _WORDS_OF_JOBS if name in params}
    blank: dict[str, Any] = without_terms(params, terms) | kept
    wanted = params.get("filter")
    if wanted is not None and (is_actor or subject.searched_for(wanted)):
        searched: dict[str, Any] = {"filename": ERASED, "metadata": dict.fromkeys(wanted.get("metadata", ()), ERASED)}
        blank["filter"] |= {name: value for name, value in searched.items() if name in wanted}
    return blank


def blank_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a decision without texts that its sender chose: a replay still judges by the rest."""
    kept = dict(facts) | {"filename": ERASED}
    if not _PLAIN_EXTENSION.fullmatch(str(kept.get("extension", ""))):
        kept["extension"] = ""
    if kept.get("examined"):
        examined = dict(kept["examined"]) | {"detail": ""}
        if examined.get("report"):
            report = dict(examined["report"]) | {"detail": "", "blank_detail": ""}
            measures = report.get("measures") or {}
            report["measures"] = {name: value for name, value in measures.items() if not isinstance(value, str)}
            examined["report"] = report
        kept["examined"] = examined
    if kept.get("scanned"):
        kept["scanned"] = dict(kept["scanned"]) | {"detail": "", "member": ""}
    if kept.get("external"):
        kept["external"] = [dict(one) | {"sentence": "", "code": None, "details": {}} for one in kept["external"]]
    return kept

"""Kinds of documents through a locked worker: what it reads, learns and finds alike, and what a worker that lies gets."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from sluice_inspect.document_kinds import TRAIT_STEPS, DocumentKind, Features, Term, key_of
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.kinds import ExampleText, Likeness, compare, learn, parse_kind, parse_likeness, read_example
from sluice_inspect.sandbox.launch import DEFAULT_JOBS
from sluice_inspect.sandbox.protocol import Completed, Crashed, NoWorker, OverLimit, RunResult
from sluice_inspect.sandbox.text import NoText, TextUnavailable
from tests.sandbox.conftest import Seal

INVOICE = (
    "Invoice number: {0}\nDate of invoice: 1.{0}.2026\nCustomer: Kundera {0}\nDescription\tQuantity\tPrice\tAmount\n"
    "Consulting {1}\t1\t1,20{0}.00\t{0}.00\nSubtotal: 300.00\nVAT: 19 % 57.00\nTotal amount payable: 357.00\n"
    "Payment within thirty days to our bank account. {1}\n"
)
THINGS = ("wood and nails", "apples", "travel to Vienna", "two lamps")
LETTER = "Dear Ms Alvarez, we have walked along the shore all summer, and the children are learning to sail. " * 3
SALT = "ctx_1"
TRAITS = tuple(f"{name}.0" for name in TRAIT_STEPS)


@pytest.fixture
async def workers() -> AsyncIterator[ZygoteSandbox]:
    sandbox = ZygoteSandbox(level="strict", workers=1, wait_seconds=60.0, jobs=DEFAULT_JOBS)
    await sandbox.start(every_format=False)
    yield sandbox
    await sandbox.aclose()


def _invoices() -> list[bytes]:
    return [INVOICE.format(number, thing).encode() for number, thing in enumerate(THINGS, start=1)]


async def _kind_of(workers: ZygoteSandbox, seal: Seal, files: Sequence[bytes]) -> DocumentKind:
    examples = []
    for file in files:
        text = await read_example(workers, seal(file), filename="a.txt", tenant_id="tnt_1")
        assert isinstance(text, ExampleText)
        examples.append(Features({key_of(word, SALT): count for word, count in text.words.items()}, text.traits))
    return await learn(workers, examples, tenant_id="tnt_1")


async def test_locked_worker_tells_a_kind_of_document_from_others(workers: ZygoteSandbox, seal: Seal) -> None:
    *examples, other = _invoices()
    kind = await _kind_of(workers, seal, examples)
    assert kind.state == "ready"
    words = {key_of(word, SALT): word for word in ("invoice", "vat", "kundera", "vienna", "thirty")}
    assert {words.get(term.key) for term in kind.terms} >= {"invoice", "vat"}
    assert "vienna" not in {words.get(term.key) for term in kind.terms}, "only one example has it"
    same = await compare(workers, seal(other), kind, SALT, filename="a.txt", tenant_id="tnt_1")
    letter = await compare(workers, seal(LETTER.encode()), kind, SALT, filename="a.txt", tenant_id="tnt_1")
    assert isinstance(same, Likeness)
    assert isinstance(letter, Likeness)
    assert letter.score / 10_000 < 0.5 * kind.base < same.score / 10_000
    assert not letter.shared
    picture = await compare(workers, seal(b"GIF89a"), kind, SALT, filename="a.gif", tenant_id="tnt_1")
    assert isinstance(picture, NoText)


async def test_examples_that_teach_nothing_are_told(workers: ZygoteSandbox, seal: Seal) -> None:
    invoices = _invoices()
    different = [LETTER.encode(), invoices[0], " ".join(f"sinew{letter}s" for letter in "abcdefghijklm").encode()]
    for files, state in (
        (invoices[:2], "few"),
        ([invoices[0], invoices[0] + b".", invoices[0] + b" again"], "alike"),
        (different, "different"),
    ):
        assert (await _kind_of(workers, seal, files)).state == state


async def test_long_and_odd_texts_are_read_in_time(workers: ZygoteSandbox, seal: Seal) -> None:
    one_line = await read_example(workers, seal(b"a" * 8_000_000), filename="a.txt", tenant_id="tnt_1")
    assert isinstance(one_line, ExampleText)
    assert not one_line.words
    many = " ".join(
        f"{letter}{other}{third}x" for letter in "abcdefghijklmnop" for other in "абвгдежзик" for third in "äöüßéèñ"
    )
    found = await read_example(workers, seal(many.encode()), filename="a.txt", tenant_id="tnt_1")
    assert isinstance(found, ExampleText)
    mixed = "請求書番号 ①②③ x1y2 mail@example.com https://example.com/secret ½ हिन्दी العربية the und"
    odd = await read_example(workers, seal(mixed.encode()), filename="a.txt", tenant_id="tnt_1")
    assert isinstance(odd, ExampleText)
    assert set(odd.words) == {"請求", "求書", "書番", "番号", "हिन्दी", "العربية"}


class _Worker:
    """A sandbox whose only worker returns this result."""

    def __init__(self, result: RunResult) -> None:
        self._result = result

    async def run(self, *_arguments: object, **_options: object) -> RunResult:
        return self._result


KIND = DocumentKind("ready", 3, 0.5, (Term(1, 0.5, 3, "invoice"), Term(2, 0.5, 2, "total")), {"words.1": 0.1})
FOUND: dict[str, object] = {"score": 10, "words": 2, "shared": [0], "lacking": [1]}
LEARNT: dict[str, object] = {"state": "ready", "base": 0.5, "terms": [[1, 0.5]], "traits": {"words.1": 0.1}}
EXAMPLES = [Features({1: 2, 2: 1}, ()), Features({1: 1}, ())]


def test_worker_that_lies_of_a_file_is_not_believed() -> None:
    assert parse_likeness(FOUND, KIND) == Likeness(10, 2, (0,), (1,))
    lies: tuple[dict[str, object], ...] = (
        {"score": 10_001},
        {"score": True},
        {"shared": [2]},
        {"shared": ["invoice"]},
        {"lacking": [-1]},
        {"words": -1},
        {"text": "the whole text"},
    )
    for change in lies:
        assert parse_likeness(FOUND | change, KIND) is None, change


def test_worker_cannot_bring_words_into_a_kind() -> None:
    learnt = parse_kind(LEARNT, EXAMPLES)
    assert learnt is not None
    assert learnt.terms == (Term(1, 0.5, 2),)
    for change in (
        {"terms": [[2, 0.5]]},  # of one example
        {"terms": [[3, 0.5]]},
        {"terms": [[1, 2.0]]},
        {"terms": [["invoice", 0.5]]},
        {"traits": {"secret": 0.1}},
        {"base": float("nan")},
        {"state": "sure"},
    ):
        assert parse_kind({**LEARNT, **change}, EXAMPLES) is None, change


async def test_failures_of_workers(seal: Seal) -> None:
    for result, why in ((Crashed("died", 1.0), "damaged"), (OverLimit("cpu", 1.0), "too_complex")):
        worker = _Worker(result)
        assert await read_example(worker, seal(b"a"), filename="a", tenant_id="t") == NoText(why)  # type: ignore[arg-type]
    lying = _Worker(Completed({"words": [["x y", 1]], "traits": list(TRAITS)}, 1.0))
    assert await read_example(lying, seal(b"a"), filename="a", tenant_id="t") == NoText("damaged")  # type: ignore[arg-type]
    outages: tuple[RunResult, ...] = (NoWorker("none"), Completed({}, 1.0))
    for outage in outages:
        with pytest.raises(TextUnavailable):
            await learn(_Worker(outage), EXAMPLES, tenant_id="t")  # type: ignore[arg-type]


def test_words_of_half_of_the_examples_are_shown() -> None:
    assert KIND.words == ("invoice", "total")
    assert replace(KIND, examples=6).words == ("invoice",)
    assert DocumentKind.from_json(KIND.to_json()) == KIND

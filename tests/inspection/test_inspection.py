import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sluice.formats import check
from sluice.formats.check import check_file
from sluice.formats.extensions import FOREIGN
from sluice.formats.kind import Kind
from sluice.formats.registry import KINDS, kind_of
from sluice.formats.verdict import Finding, Limits, Outcome, Report
from tests.formats.images import board, encoded, plain
from tests.formats.judging import CORPUS, needs_corpus

PNG = encoded(board(), "PNG")
JPEG = encoded(board(), "JPEG")
PAGE = b"<!DOCTYPE html>\n<html><title>502 Bad Gateway</title></html>\n"
EXTENSIONS = sorted(extension for kind in KINDS for extension in kind.extensions)
BINARY = sorted(min(kind.extensions) for kind in KINDS if not kind.is_text)
NEVER_PAGES = [extension for extension in BINARY if "text" not in FOREIGN.get(extension, ())]
"""Office opens web pages under the names of its old formats; all other programs open none under theirs."""
SAMPLES = {kind.name: kind.sample() for kind in KINDS}


def judged(data: bytes, name: str | None) -> Report:
    return check_file(io.BytesIO(data), filename=name)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_sample_is_good_under_all_of_its_names(kind: Kind) -> None:
    for extension in kind.extensions:
        report = judged(kind.sample(), f"sample.{extension.upper()}")
        assert (report.outcome, report.finding, report.format) == (Outcome.OK, None, kind.name)
        assert report.detail == ""


def test_a_report_tells_what_was_measured() -> None:
    report = judged(PNG, "a.png")
    assert report.content_type == "image/png"
    assert report.measures["width"] == 64
    assert report.ms > 0
    assert Report.from_json(report.to_json()) == report


@pytest.mark.parametrize(("fill", "data"), [("empty", b""), ("zeros", bytes(200_000)), ("ones", b"\xff" * 200_000)])
def test_a_file_of_nothing_is_blank_and_no_file_of_its_format(fill: str, data: bytes) -> None:
    report = judged(data, "a.pdf")
    assert (report.fill, report.outcome, report.integrity) == (fill, Outcome.BLANK, Outcome.CORRUPT)
    assert report.blank
    assert report.detail


@pytest.mark.parametrize("name", ["a.unknown", "a", None, "a.css"])
def test_a_file_of_nothing_with_a_name_that_promises_nothing_is_only_blank(name: str | None) -> None:
    report = judged(bytes(10), name)
    assert (report.outcome, report.integrity) == (Outcome.BLANK, Outcome.OK)


def test_one_other_byte_at_the_end_is_no_fill() -> None:
    assert judged(bytes(3_000_000) + b"x", "a.bin").fill is None


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.asvs("5.2.2")
def test_another_format_under_a_known_name_is_a_mismatch(extension: str) -> None:
    other = JPEG if extension in {"png", "apng"} else PNG
    report = judged(other, f"a.{extension}")
    assert report.finding is Finding.TYPE_MISMATCH
    assert report.format in {"png", "jpeg"}
    assert report.integrity is Outcome.OK
    assert f"named .{extension}, but the content is" in report.detail


@pytest.mark.parametrize("extension", [*NEVER_PAGES, "txt", "csv", "json", "mp4", "7z"])
def test_a_web_page_under_the_name_of_another_format_is_a_mismatch(extension: str) -> None:
    report = judged(PAGE, f"a.{extension}")
    assert (report.finding, report.content_type) == (Finding.TYPE_MISMATCH, "text/html")


@pytest.mark.parametrize("extension", BINARY)
def test_a_web_page_in_front_of_the_file_is_found(extension: str) -> None:
    kind = kind_of(extension)
    assert kind is not None
    report = judged(PAGE + kind.sample(), f"a.{extension}")
    assert report.finding or report.integrity is Outcome.CORRUPT


@pytest.mark.parametrize("name", ["a.html", "a.unknown", "a.md", "a"])
def test_a_web_page_is_fine_where_a_page_may_be(name: str) -> None:
    assert judged(PAGE, name).finding is None


@pytest.mark.parametrize("extension", ["mp4", "tiff", "7z", "mp3"])
def test_a_known_format_under_the_name_of_one_that_is_not_covered_is_a_mismatch(extension: str) -> None:
    if kind_of(extension) is None:
        assert extension in FOREIGN
    assert judged(PNG, f"a.{extension}").finding is Finding.TYPE_MISMATCH


@pytest.mark.parametrize("name", ["a.unknown", "a", None])
def test_a_name_that_promises_nothing_is_never_broken(name: str | None) -> None:
    report = judged(PNG, name)
    assert (report.finding, report.format, report.content_type) == (None, "png", "image/png")


def test_a_known_format_is_checked_even_under_an_unknown_name() -> None:
    assert judged(PNG[:-40], "a.unknown").outcome is Outcome.CORRUPT


@pytest.mark.parametrize("extension", BINARY)
def test_a_damaged_start_is_corrupt(extension: str) -> None:
    kind = kind_of(extension)
    assert kind is not None
    report = judged(b"\x8f\x03\x01\xd1" * 2000, f"a.{extension}")
    assert report.outcome is Outcome.CORRUPT
    assert report.format is None


@pytest.mark.parametrize(
    ("data", "content_type"), [(b"\x1f\x8b\x08\0" + bytes(range(1, 30)), "application/gzip"), (b"words\n" * 9, "text/plain")]
)
def test_other_known_content_under_a_picture_name_is_a_mismatch(data: bytes, content_type: str) -> None:
    report = judged(data, "a.png")
    assert (report.finding, report.content_type) == (Finding.TYPE_MISMATCH, content_type)


def test_binary_content_under_a_text_name_is_a_mismatch() -> None:
    report = judged(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\x3e\0" + bytes(80), "a.csv")
    assert report.finding is Finding.TYPE_MISMATCH


def test_noise_under_a_text_name_is_corrupt() -> None:
    assert judged(bytes(range(1, 256)) * 20, "a.txt").outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    "text", [b"GIF89a is a picture format.\n", b"%PDF-1.4 begins a document.\n", b"BM, PK and RIFF are magic.\n"]
)
def test_a_text_about_a_format_is_a_text(text: bytes) -> None:
    report = judged(text, "a.txt")
    assert (report.outcome, report.finding, report.format) == (Outcome.OK, None, "text")


@pytest.mark.parametrize(("data", "name"), [(b" \r\n", "a.json"), (b"\xef\xbb\xbf", "a.xml"), (b"\n\n", "a.csv")])
def test_white_space_is_blank_in_every_text_format(data: bytes, name: str) -> None:
    assert judged(data, name).outcome is Outcome.BLANK


def test_a_mismatch_is_still_asked_whether_it_is_blank() -> None:
    report = judged(encoded(plain(), "PNG"), "a.pdf")
    assert report.finding is Finding.TYPE_MISMATCH
    assert report.blank


def test_a_file_can_be_given_by_path_descriptor_or_object(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    with path.open("rb") as file:
        file.seek(7)
        reports = [
            check_file(path),
            check_file(str(path)),
            check_file(file, filename="b.png"),
            check_file(file.fileno(), filename="c.png"),
        ]
        assert file.tell() == 7
    assert {report.format for report in reports} == {"png"}
    assert check_file(io.BytesIO(PNG)).format == "png"


def test_what_cannot_be_read_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check_file(tmp_path / "missing.png")


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def check(self, *_: object) -> dict[str, int]:
        raise self.error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (MemoryError(), Outcome.TOO_COMPLEX),
        (RecursionError(), Outcome.TOO_COMPLEX),
        (ValueError("a library's own fault"), Outcome.UNSUPPORTED),
    ],
)
def test_a_failing_reader_says_nothing_against_the_file(
    monkeypatch: pytest.MonkeyPatch, error: Exception, outcome: Outcome
) -> None:
    png = kind_of("png")
    assert png is not None
    broken = Kind(png.name, png.content_type, png.extensions, png.recognises, Failing(error).check, png.sample)
    monkeypatch.setattr(check, "kind_of", lambda _extension: broken)
    assert judged(PNG, "a.png").outcome is outcome


def test_a_failing_blank_rule_calls_nothing_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    png = kind_of("png")
    assert png is not None
    broken = Kind(png.name, png.content_type, png.extensions, png.recognises, png.check, png.sample, Failing(ValueError()).check)  # type: ignore[arg-type]  # it answers nothing
    monkeypatch.setattr(check, "kind_of", lambda _extension: broken)
    assert judged(encoded(plain(), "PNG"), "a.png").outcome is Outcome.OK


@pytest.mark.parametrize("extension", EXTENSIONS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=3000))
def test_any_bytes_under_any_name_get_a_report(extension: str, data: bytes) -> None:
    assert isinstance(judged(data, f"a.{extension}"), Report)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """Answer a kind and its sample with stretches cut out, put in and overwritten."""
    name = draw(st.sampled_from(sorted(SAMPLES)))
    data = bytearray(SAMPLES[name])
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 60)))
        data[start:end] = draw(st.binary(max_size=60))
    return name, bytes(data)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(damaged(), st.booleans())
@example(("png", PNG[:33]), True)
def test_any_damage_to_any_sample_gets_a_report_that_survives_the_way_out(case: tuple[str, bytes], named: bool) -> None:  # noqa: FBT001  (drawn)
    name, data = case
    extension = min(next(kind for kind in KINDS if kind.name == name).extensions)
    report = check_file(io.BytesIO(data), filename=f"a.{extension}" if named else None, limits=Limits(soft_seconds=2))
    assert Report.from_json(report.to_json()) == report


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_no_sample_cut_short_makes_the_checker_fail(name: str) -> None:
    data = SAMPLES[name]
    extension = min(next(kind for kind in KINDS if kind.name == name).extensions)
    for kept in range(0, len(data), max(1, len(data) // 40)):
        report = judged(data[:kept], f"a.{extension}")
        assert report.outcome is not Outcome.UNSUPPORTED, report.detail


IN_A_JAIL = """
import os, struct, sys, zlib
from sluice.formats.check import check_file, preload
from sluice.formats.registry import KINDS
preload()
fds = {kind: os.memfd_create(kind.name) for kind in KINDS}
fds["damaged"] = os.memfd_create("damaged")
os.write(fds["damaged"], bytes(range(256)) * 99)
for kind in KINDS:
    os.write(fds[kind], kind.sample())
fds["grain"] = os.memfd_create("grain")
grain = bytes(200 + (place * place % 7) * 2 for place in range(640 * 480))
os.write(fds["grain"], b"\\x89PNG\\r\\n\\x1a\\n" + b"".join(
    struct.pack(">L", len(data)) + name + data + struct.pack(">L", zlib.crc32(name + data))
    for name, data in (
        (b"IHDR", struct.pack(">LLBBBBB", 640, 480, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"".join(bytes(1) + grain[row * 640 : row * 640 + 640] for row in range(480)))),
        (b"IEND", b""),
    )
))
modules = set(sys.modules)
def deny(event, arguments):
    if event in {"open", "import", "os.listdir", "os.scandir", "subprocess.Popen", "socket.connect", "ctypes.dlopen"}:
        raise PermissionError(f"{event} {arguments}")
sys.addaudithook(deny)
for kind in KINDS:
    for extension in kind.extensions:
        report = check_file(fds[kind], filename="a." + extension)
        assert (report.outcome, report.format) == ("ok", kind.name), report
        assert check_file(fds["damaged"], filename="a." + extension).outcome != "unsupported", extension
assert check_file(fds["grain"], filename="a.png").outcome == "ok"
assert set(sys.modules) == modules, set(sys.modules) - modules
print("all judged")
"""


def test_after_preloading_no_check_opens_or_imports_anything() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_JAIL], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": "src"}
    )
    assert done.stdout == "all judged\n", done.stderr


ATTACKS = CORPUS.parent / "attacks"


@needs_corpus
@pytest.mark.parametrize("family", ["image", "image-bomb", "xml", "polyglot"])
def test_every_attack_gets_a_report_in_bounded_time(family: str) -> None:
    for path in (ATTACKS / family).rglob("*.*"):
        report = check_file(path)
        assert report.ms < 20_000, path.name
        assert "reader failed" not in report.detail, (path.name, report.detail)


@needs_corpus
@pytest.mark.parametrize("name", ["lottapixel.jpg", "uber.gif", "decompression_bomb_extents.gif"])
@pytest.mark.asvs("5.2.6")
def test_picture_bombs_are_refused_for_their_size(name: str) -> None:
    (path,) = (path for path in ATTACKS.rglob(f"*-{name}"))
    assert check_file(path).finding is Finding.IMAGE_TOO_LARGE


@needs_corpus
def test_scripts_in_pictures_are_polyglots() -> None:
    for path in ATTACKS.rglob("*POC_phpinfo-metadata.*"):
        assert check_file(path).finding is Finding.POLYGLOT, path.name

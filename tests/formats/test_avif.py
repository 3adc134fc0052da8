import pytest
from PIL import AvifImagePlugin, Image

from sluice.formats.images import av1
from sluice.formats.images.heif_sample import sample_avif
from sluice.formats.kinds.avif import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.heifs import item_file
from tests.formats.images import animated, board, encoded, plain
from tests.formats.judging import corpus, judge, needs_corpus

GOOD = encoded(board(128, 16).convert("RGB"), "AVIF")


def frames(count: int) -> list[Image.Image]:
    return [board(64, 4 + number).convert("RGB") for number in range(count)]


def test_a_good_picture_passes() -> None:
    judged = judge(KIND, GOOD)
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


def test_the_sample_passes_and_has_content() -> None:
    judged = judge(KIND, sample_avif())
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_every_mode_passes(mode: str) -> None:
    assert judge(KIND, encoded(board().convert(mode), "AVIF")).outcome is Outcome.OK


def test_an_animation_passes_and_its_frames_are_counted() -> None:
    film = animated(frames(5), "AVIF")
    assert judge(KIND, film).outcome is Outcome.OK
    assert judge(KIND, film, Limits(max_frames=4)).finding is Finding.IMAGE_TOO_LARGE


def test_an_empty_picture_is_blank() -> None:
    assert judge(KIND, encoded(plain().convert("RGB"), "AVIF")).blank


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.95, 0.999])
def test_a_truncated_picture_is_corrupt(kept: float) -> None:
    assert judge(KIND, GOOD[: int(len(GOOD) * kept)]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("seed", range(8))
def test_changed_bytes_of_the_pixels_are_found_though_one_decoder_takes_them(seed: int) -> None:
    picture = encoded(Image.effect_noise((256, 256), 60).convert("RGB"), "AVIF", quality=80)
    start = picture.index(b"mdat") + 100 + seed * 37
    damaged = bytearray(picture)
    for place in range(start, len(picture) - 8, 500):
        damaged[place] ^= 0x55
    assert judge(KIND, bytes(damaged)).outcome is Outcome.CORRUPT


def test_a_film_that_names_no_picture_of_its_own_passes() -> None:
    film = animated(frames(5), "AVIF")
    assert film.count(b"pitm") == 1
    assert judge(KIND, film.replace(b"pitm", b"free")).passes


def test_a_zeroed_frame_of_an_animation_is_corrupt() -> None:
    film = animated(frames(5), "AVIF")
    assert judge(KIND, film[:-120] + bytes(100) + film[-20:]).outcome is Outcome.CORRUPT


def test_too_many_pixels_are_refused_before_they_are_decoded() -> None:
    huge = item_file(b"av01", b"x", brand=b"avif", size=(30_000, 30_000))
    assert judge(KIND, huge).finding is Finding.IMAGE_TOO_LARGE


def test_what_the_decoder_lacks_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Failed to decode image: Not implemented")

    monkeypatch.setattr("sluice.formats.kinds.avif.decode", fail)
    assert judge(KIND, GOOD).outcome is Outcome.UNSUPPORTED


def test_without_the_second_decoder_a_good_picture_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(av1, "INSTALLED", False)
    assert judge(KIND, GOOD).outcome is Outcome.OK
    assert judge(KIND, GOOD[:-30]).outcome is Outcome.CORRUPT


def test_the_decoder_is_kept_to_one_thread() -> None:
    assert AvifImagePlugin.DEFAULT_MAX_THREADS == 1


@needs_corpus
def test_the_intact_files_of_the_corpus_pass() -> None:
    assert [path.name for path in corpus("avif", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []


@needs_corpus
def test_files_that_no_reader_shows_do_not_pass() -> None:
    shown = {"no-pixi", "poc_b"}  # both decode in every reader
    paths = [path for path in corpus("avif", "corrupt") if not any(name in path.name for name in shown)]
    assert [path.name for path in paths if judge(KIND, path.read_bytes()).passes] == []

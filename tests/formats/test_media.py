import io

import pytest

from sluice.formats.check import check_file
from sluice.formats.media import media
from sluice.formats.registry import kind_of
from sluice.formats.verdict import Finding, Limits, Outcome, Report
from tests.formats.images import board, encoded
from tests.formats.judging import Judged, corpus, judge
from tests.formats.media_files import SOUND, VIDEO, Wave, black, box, id3, music, noise, scene, silence, sound, tone, video

KINDS = (*SOUND, *VIDEO)
LOUD = {kind: sound(kind, music(1.5)) for kind in SOUND} | {kind: video(kind, scene(12), music(1.2)) for kind in VIDEO}
PLAIN = {"wav", "aiff"}
KNOWN_CUT = {"1c0ff998f8_xing.mp3"}
"""Labelled as good, but cut inside its last frame, as uploads are that were interrupted."""


def of(kind: str, data: bytes, limits: Limits | None = None) -> Judged:
    found = kind_of(kind)
    assert found is not None
    return judge(found, data, limits)


def named(data: bytes, extension: str) -> Report:
    return check_file(io.BytesIO(data), filename=f"upload.{extension}")


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_encoder_wrote_is_good_and_not_blank(kind: str) -> None:
    report = named(LOUD[kind], kind)
    assert (report.format, report.outcome, report.finding) == (kind, Outcome.OK, None), report.detail


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.3, 0.5, 0.95])
def test_a_file_that_ends_too_early_is_corrupt(kind: str, share: float) -> None:
    assert named(LOUD[kind][: int(len(LOUD[kind]) * share)], kind).integrity is Outcome.CORRUPT


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in PLAIN])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_a_hole_in_the_media_is_found(kind: str, share: float) -> None:
    data = bytearray(LOUD[kind])
    start = int(len(data) * share)
    data[start : start + 4096] = bytes(min(4096, len(data) - start))
    assert named(bytes(data), kind).integrity is Outcome.CORRUPT


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_in_front_is_refused(kind: str) -> None:
    assert named(b"<!DOCTYPE html><title>502</title>" + LOUD[kind], kind).finding is Finding.TYPE_MISMATCH


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_under_its_name_is_a_mismatch(kind: str) -> None:
    assert named(encoded(board(), "PNG"), kind).finding is Finding.TYPE_MISMATCH


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", ["txt", "pdf", "png", "zip"])
def test_it_is_a_mismatch_under_other_names(kind: str, other: str) -> None:
    report = named(LOUD[kind], other)
    assert (report.format, report.finding) == (kind if kind != "m4a" else "m4a", Finding.TYPE_MISMATCH)


@pytest.mark.parametrize("kind", SOUND)
@pytest.mark.parametrize("wave", [silence(1), noise(1, -72)], ids=["nothing", "faint noise"])
def test_silence_is_blank(kind: str, wave: Wave) -> None:
    assert named(sound(kind, wave), kind).blank_detail == "no sound is louder than -60 dBFS"


@pytest.mark.parametrize("kind", SOUND)
def test_a_late_beep_is_content(kind: str) -> None:
    wave = silence(4)
    wave[-24_000:-12_000] = tone(0.25)
    assert not named(sound(kind, wave), kind).blank


@pytest.mark.parametrize("kind", VIDEO)
def test_black_silence_is_blank(kind: str) -> None:
    report = named(video(kind, black(), silence(0.5)), kind)
    assert report.blank_detail == "no picture shows anything and no sound is louder than -60 dBFS"


@pytest.mark.parametrize("kind", VIDEO)
def test_a_black_video_that_is_heard_is_content(kind: str) -> None:
    assert not named(video(kind, black(), tone(0.5, -40)), kind).blank


@pytest.mark.parametrize("kind", VIDEO)
def test_a_silent_video_that_is_seen_is_content(kind: str) -> None:
    assert not named(video(kind, [*black(20), *scene(1)], silence(0.5)), kind).blank


@pytest.mark.parametrize(("words", "blank"), [((b"Hello", b" "), False), ((b" ", b"\r\n"), True)])
def test_subtitles_are_content_if_they_say_anything(words: tuple[bytes, ...], blank: bool) -> None:  # noqa: FBT001  (a parameter of the test)
    assert named(video("mkv", black(), words=words), "mkv").blank is blank


def test_a_cover_on_silence_is_no_content() -> None:
    cover = b"APIC" + (b"\0\0\0\0" + b"\0\0" + b"\0image/png\0\3\0" + encoded(board(), "PNG"))
    cover = cover[:4] + (len(cover) - 10).to_bytes(4, "big") + cover[8:]
    size = bytes(len(cover) >> shift & 0x7F for shift in (21, 14, 7, 0))
    tagged = b"ID3\3\0\0" + size + cover + sound("mp3", silence(1))
    assert named(tagged, "mp3").blank
    assert not named(tagged + tone_frames(), "mp3").blank


def tone_frames() -> bytes:
    return sound("mp3", tone(0.5))


@pytest.mark.parametrize("kind", ["mp3", "mkv", "mp4", "flac"])
def test_when_the_time_is_over_the_container_decides(kind: str) -> None:
    rushed = Limits(soft_seconds=-1)
    empty = sound(kind, silence(1)) if kind in SOUND else video(kind, black())
    judged = of(kind, empty, rushed)
    assert (judged.outcome, judged.blank) == (Outcome.OK, None)
    assert of(kind, LOUD[kind][: len(LOUD[kind]) // 2], rushed).outcome is Outcome.CORRUPT


def test_what_was_left_out_is_measured() -> None:
    report = check_file(io.BytesIO(LOUD["mkv"]), filename="a.mkv", limits=Limits(soft_seconds=-1))
    assert report.measures["partially_checked"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_library_the_container_is_still_judged(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "INSTALLED", False)
    assert of(kind, LOUD[kind]).outcome is Outcome.UNSUPPORTED
    assert "PyAV is not installed" in of(kind, LOUD[kind]).detail


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "flac"])
def test_without_the_library_a_cut_file_is_still_corrupt(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "INSTALLED", False)
    assert of(kind, LOUD[kind][: len(LOUD[kind]) // 2]).outcome is Outcome.CORRUPT


def test_a_codec_that_nobody_knows_is_unsupported_and_not_blank() -> None:
    judged = of("avi", video("avi", scene()).replace(b"FMP4", b"XYZ0"))
    assert (judged.outcome, judged.blank) == (Outcome.UNSUPPORTED, None)
    assert "unknown codec" in judged.detail


def test_an_avi_whose_writer_could_not_go_back_is_judged_by_what_is_there() -> None:
    data = bytearray(video("avi", scene()))
    media_list = data.index(b"movi") - 4
    for at in (4, media_list):
        data[at : at + 4] = b"\xff" * 4
    judged = of("avi", bytes(data))
    assert (judged.outcome, judged.blank) == (Outcome.OK, None)


def test_a_picture_beyond_4k_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "_PIXELS_MOST", 100 * 100)
    judged = of("mp4", video("mp4", black()))
    assert (judged.outcome, judged.blank) == (Outcome.UNSUPPORTED, None)
    assert "160 x 120 pixels" in judged.detail
    beside_sound = of("mkv", video("mkv", black(), silence(0.5)))
    assert (beside_sound.outcome, beside_sound.blank) == (Outcome.OK, None)


def test_packets_that_do_not_decode_are_corrupt_and_counted() -> None:
    data = bytearray(video("avi", scene(20)))
    place = 0
    for _ in range(6):
        place = data.index(b"00dc", place + 1)
    for _ in range(3):
        place = data.index(b"00dc", place + 1)
        data[place + 8 : place + 8 + 200] = b"\xff" * 200
    judged = of("avi", bytes(data))
    assert judged.outcome is Outcome.CORRUPT
    assert "packets of the video are damaged, the first about second" in judged.detail


@pytest.mark.parametrize("archive", ["zip", "html"])
@pytest.mark.parametrize("kind", ["wav", "mp4", "mp3", "webm"])
def test_a_second_format_behind_it_is_found(kind: str, archive: str) -> None:
    file = io.BytesIO()
    if archive == "zip":
        import zipfile  # noqa: PLC0415  (of this case alone)

        with zipfile.ZipFile(file, "w") as zipped:
            zipped.writestr("a.txt", "words")
    else:
        file.write(b"<html><script>alert(1)</script></html>")
    assert named(LOUD[kind] + file.getvalue(), kind).finding is Finding.POLYGLOT


def test_a_page_in_a_tag_is_no_second_format() -> None:
    tagged = id3(200)[:10] + b"<html><script>".ljust(200) + LOUD["mp3"]
    assert named(tagged, "mp3").finding is None


@pytest.mark.parametrize(
    ("kind", "extension"),
    [("mp4", "mov"), ("mov", "mp4"), ("mov", "m4v"), ("mp4", "3gp"), ("m4a", "mp4"), ("webm", "mkv"), ("opus", "ogg")],
)
def test_names_of_its_kin_are_no_mismatch(kind: str, extension: str) -> None:
    report = named(LOUD[kind], extension)
    assert (report.format, report.finding) == (kind, None)


@pytest.mark.parametrize(("kind", "extension"), [("mp4", "m4a"), ("mkv", "webm"), ("ogg", "opus"), ("mp3", "aac"), ("m4a", "mp3")])
def test_names_that_promise_more_are(kind: str, extension: str) -> None:
    assert named(LOUD[kind], extension).finding is Finding.TYPE_MISMATCH


def test_a_picture_of_the_same_family_of_boxes_is_none_of_them() -> None:
    picture = box(b"ftyp", b"heic\0\0\0\0mif1heic") + box(b"meta", bytes(40))
    assert named(picture, "mp4").format not in KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_no_good_file_of_the_corpus_is_refused(kind: str) -> None:
    refused = [
        path.name for path in corpus(kind, "valid", "not_blank") if named(path.read_bytes(), kind).integrity is Outcome.CORRUPT
    ]
    assert set(refused) <= KNOWN_CUT


@pytest.mark.parametrize("kind", KINDS)
def test_the_blank_files_of_the_corpus_are_found_and_no_others(kind: str) -> None:
    assert all(named(path.read_bytes(), kind).blank for path in corpus(kind, "blank"))
    assert not any(named(path.read_bytes(), kind).blank for path in corpus(kind, "not_blank"))


def test_a_flac_without_a_count_of_samples_is_not_held_to_the_sum_in_its_header() -> None:
    flac = bytearray(sound("flac", tone(0.3)))
    flac[26] ^= 0xFF
    assert check_file(io.BytesIO(bytes(flac)), filename="a.flac").outcome is Outcome.CORRUPT
    flac[21] &= 0xF0
    flac[22:26] = bytes(4)
    assert check_file(io.BytesIO(bytes(flac)), filename="a.flac").outcome is Outcome.OK

"""Audio and video: integrity, blankness and names."""

import io
from functools import cache

import pytest

from sluice_inspect.inspection import inspect_file
from sluice_inspect.media import playback
from sluice_inspect.registry import format_of
from sluice_inspect.report import Finding, Limits, Outcome, Report
from tests.inspection.formats.examining import Examined, corpus_files, examine_bytes
from tests.inspection.formats.image_samples import chess_board, encoded
from tests.inspection.formats.media_samples import (
    SOUND,
    VIDEO,
    Wave,
    black,
    box,
    id3,
    music,
    noise,
    scene,
    silence,
    sound,
    tone,
    video,
)
from tests.rows import each_row

FORMAT_NAMES = (*SOUND, *VIDEO)
UNCOMPRESSED = {"wav", "aiff"}
KNOWN_TRUNCATED = {"1c0ff998f8_xing.mp3"}
"""Labelled as valid, but truncated inside its last frame, like an interrupted upload."""


@cache
def sample(format_name: str) -> bytes:
    if format_name in SOUND:
        return sound(format_name, music(1.5))
    return video(format_name, scene(12), music(1.2))


def examine(format_name: str, data: bytes, limits: Limits | None = None) -> Examined:
    format_ = format_of(format_name)
    assert format_ is not None
    return examine_bytes(format_, data, limits)


def report_of(data: bytes, extension: str) -> Report:
    return inspect_file(io.BytesIO(data), filename=f"upload.{extension}")


@each_row("format_name", FORMAT_NAMES)
def test_encoder_output_is_ok_and_not_blank(format_name: str) -> None:
    report = report_of(sample(format_name), format_name)
    assert (report.format, report.outcome, report.finding) == (format_name, Outcome.OK, None), report.detail


@each_row("format_name", FORMAT_NAMES)
@each_row("share", [0.3, 0.5, 0.95])
def test_truncated_file_is_corrupt(format_name: str, share: float) -> None:
    assert (
        report_of(sample(format_name)[: int(len(sample(format_name)) * share)], format_name).integrity
        is Outcome.CORRUPT
    )


@each_row("format_name", [format_name for format_name in FORMAT_NAMES if format_name not in UNCOMPRESSED])
@each_row("share", [0.3, 0.5, 0.7])
def test_zeroed_media_data_is_corrupt(format_name: str, share: float) -> None:
    data = bytearray(sample(format_name))
    start = int(len(data) * share)
    data[start : start + 4096] = bytes(min(4096, len(data) - start))
    assert report_of(bytes(data), format_name).integrity is Outcome.CORRUPT


@each_row("tail", [64, 400])
def test_zeros_in_place_of_the_end_of_an_index_are_corrupt(tail: int) -> None:
    data = video("avi", scene(40))
    assert report_of(data, "avi").integrity is Outcome.OK
    assert report_of(data[:-tail] + bytes(tail), "avi").integrity is Outcome.CORRUPT


@each_row("format_name", ["avi", "aac"])
@each_row("share", [0.5, 0.75, 0.9])
def test_zeros_in_place_of_the_end_are_corrupt(format_name: str, share: float) -> None:
    data = sample(format_name)
    kept = int(len(data) * share)
    assert report_of(data[:kept] + bytes(len(data) - kept), format_name).integrity is Outcome.CORRUPT


@each_row("format_name", FORMAT_NAMES)
def test_web_page_before_the_media_is_a_mismatch(format_name: str) -> None:
    assert (
        report_of(b"<!DOCTYPE html><title>502</title>" + sample(format_name), format_name).finding
        is Finding.TYPE_MISMATCH
    )


@each_row("format_name", FORMAT_NAMES)
def test_picture_under_a_media_extension_is_a_mismatch(format_name: str) -> None:
    assert report_of(encoded(chess_board(), "PNG"), format_name).finding is Finding.TYPE_MISMATCH


@each_row("format_name", FORMAT_NAMES)
@each_row("other", ["txt", "pdf", "png", "zip"])
def test_media_under_another_extension_is_a_mismatch(format_name: str, other: str) -> None:
    report = report_of(sample(format_name), other)
    assert (report.format, report.finding) == (format_name, Finding.TYPE_MISMATCH)


@each_row("format_name", SOUND)
@each_row("wave", lambda: [silence(1), noise(1, -72)], ids=["digital silence", "faint noise"])
def test_silence_is_blank(format_name: str, wave: Wave) -> None:
    assert report_of(sound(format_name, wave), format_name).blank_detail == "no sound is louder than -60 dBFS"


@each_row("format_name", SOUND)
def test_late_tone_is_not_blank(format_name: str) -> None:
    wave = silence(4)
    wave[-24_000:-12_000] = tone(0.25)
    assert not report_of(sound(format_name, wave), format_name).blank


@each_row("format_name", VIDEO)
def test_black_silent_video_is_blank(format_name: str) -> None:
    report = report_of(video(format_name, black(), silence(0.5)), format_name)
    assert report.blank_detail == "no picture shows anything and no sound is louder than -60 dBFS"


@each_row("format_name", VIDEO)
def test_black_video_with_sound_is_not_blank(format_name: str) -> None:
    assert not report_of(video(format_name, black(), tone(0.5, -40)), format_name).blank


@each_row("format_name", VIDEO)
def test_silent_video_with_a_visible_picture_is_not_blank(format_name: str) -> None:
    assert not report_of(video(format_name, [*black(20), *scene(1)], silence(0.5)), format_name).blank


@each_row(("words", "blank"), [((b"Hello", b" "), False), ((b" ", b"\r\n"), True)])
def test_subtitles_are_content_unless_they_are_empty(
    words: tuple[bytes, ...],
    blank: bool,  # noqa: FBT001  (a parameter of the test)
) -> None:
    assert report_of(video("mkv", black(), words=words), "mkv").blank is blank


def test_cover_picture_of_silent_audio_is_not_content() -> None:
    cover = b"APIC" + (b"\0\0\0\0" + b"\0\0" + b"\0image/png\0\3\0" + encoded(chess_board(), "PNG"))
    cover = cover[:4] + (len(cover) - 10).to_bytes(4, "big") + cover[8:]
    size = bytes(len(cover) >> shift & 0x7F for shift in (21, 14, 7, 0))
    tagged = b"ID3\3\0\0" + size + cover + sound("mp3", silence(1))
    assert report_of(tagged, "mp3").blank
    assert not report_of(tagged + tone_frames(), "mp3").blank


def tone_frames() -> bytes:
    return sound("mp3", tone(0.5))


@each_row("format_name", ["mp3", "mkv", "mp4", "flac"])
def test_only_the_container_is_checked_past_the_time_limit(format_name: str) -> None:
    rushed = Limits(soft_seconds=-1)
    empty = sound(format_name, silence(1)) if format_name in SOUND else video(format_name, black())
    result = examine(format_name, empty, rushed)
    assert (result.outcome, result.blank) == (Outcome.OK, None)
    assert examine(format_name, sample(format_name)[: len(sample(format_name)) // 2], rushed).outcome is Outcome.CORRUPT


def test_partial_check_is_measured() -> None:
    report = inspect_file(io.BytesIO(sample("mkv")), filename="a.mkv", limits=Limits(soft_seconds=-1))
    assert report.measures["partially_checked"] is True


@each_row("format_name", FORMAT_NAMES)
def test_media_is_unsupported_without_the_library(format_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playback, "INSTALLED", False)
    assert examine(format_name, sample(format_name)).outcome is Outcome.UNSUPPORTED
    assert "PyAV is not installed" in examine(format_name, sample(format_name)).detail


@each_row("format_name", [format_name for format_name in FORMAT_NAMES if format_name != "flac"])
def test_truncated_file_is_corrupt_without_the_library(format_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playback, "INSTALLED", False)
    assert examine(format_name, sample(format_name)[: len(sample(format_name)) // 2]).outcome is Outcome.CORRUPT


def test_unknown_codec_is_unsupported_and_not_blank() -> None:
    result = examine("avi", video("avi", scene()).replace(b"FMP4", b"XYZ0"))
    assert (result.outcome, result.blank) == (Outcome.UNSUPPORTED, None)
    assert "unknown codec" in result.detail


def test_avi_with_unset_sizes_is_ok() -> None:
    data = bytearray(video("avi", scene()))
    media_list = data.index(b"movi") - 4
    for at in (4, media_list):
        data[at : at + 4] = b"\xff" * 4
    result = examine("avi", bytes(data))
    assert (result.outcome, result.blank) == (Outcome.OK, None)


def test_video_beyond_the_pixel_limit_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playback, "_MAX_PIXELS", 100 * 100)
    result = examine("mp4", video("mp4", black()))
    assert (result.outcome, result.blank) == (Outcome.UNSUPPORTED, None)
    assert "160 x 120 pixels" in result.detail
    beside_sound = examine("mkv", video("mkv", black(), silence(0.5)))
    assert (beside_sound.outcome, beside_sound.blank) == (Outcome.OK, None)


def test_undecodable_packets_are_corrupt_and_counted() -> None:
    data = bytearray(video("avi", scene(20)))
    place = 0
    for _ in range(6):
        place = data.index(b"00dc", place + 1)
    for _ in range(3):
        place = data.index(b"00dc", place + 1)
        data[place + 8 : place + 8 + 200] = b"\xff" * 200
    result = examine("avi", bytes(data))
    assert result.outcome is Outcome.CORRUPT
    assert "packets of the video are damaged, the first about second" in result.detail


@each_row("archive", ["zip", "html"])
@each_row("format_name", ["wav", "mp4", "mp3", "webm"])
def test_second_format_after_the_media_is_a_polyglot(format_name: str, archive: str) -> None:
    file = io.BytesIO()
    if archive == "zip":
        import zipfile  # noqa: PLC0415  (only this case needs it)

        with zipfile.ZipFile(file, "w") as zipped:
            zipped.writestr("a.txt", "words")
    else:
        file.write(b"<html><script>alert(1)</script></html>")
    assert report_of(sample(format_name) + file.getvalue(), format_name).finding is Finding.POLYGLOT


def test_page_in_a_tag_is_not_a_polyglot() -> None:
    tagged = id3(200)[:10] + b"<html><script>".ljust(200) + sample("mp3")
    assert report_of(tagged, "mp3").finding is None


@each_row(
    ("format_name", "extension"),
    [("mp4", "mov"), ("mov", "mp4"), ("mov", "m4v"), ("mp4", "3gp"), ("m4a", "mp4"), ("webm", "mkv"), ("opus", "ogg")],
)
def test_extensions_of_related_formats_are_no_mismatch(format_name: str, extension: str) -> None:
    report = report_of(sample(format_name), extension)
    assert (report.format, report.finding) == (format_name, None)


@each_row(
    ("format_name", "extension"), [("mp4", "m4a"), ("mkv", "webm"), ("ogg", "opus"), ("mp3", "aac"), ("m4a", "mp3")]
)
def test_extensions_of_other_media_formats_are_a_mismatch(format_name: str, extension: str) -> None:
    assert report_of(sample(format_name), extension).finding is Finding.TYPE_MISMATCH


def test_heic_picture_is_not_recognised_as_media() -> None:
    picture = box(b"ftyp", b"heic\0\0\0\0mif1heic") + box(b"meta", bytes(40))
    assert report_of(picture, "mp4").format not in FORMAT_NAMES


@each_row("format_name", FORMAT_NAMES)
def test_no_valid_corpus_file_is_corrupt(format_name: str) -> None:
    refused = [
        path.name
        for path in corpus_files(format_name, "valid", "not_blank")
        if report_of(path.read_bytes(), format_name).integrity is Outcome.CORRUPT
    ]
    assert set(refused) <= KNOWN_TRUNCATED


@each_row("format_name", FORMAT_NAMES)
def test_only_blank_corpus_files_are_blank(format_name: str) -> None:
    assert all(report_of(path.read_bytes(), format_name).blank for path in corpus_files(format_name, "blank"))
    assert not any(report_of(path.read_bytes(), format_name).blank for path in corpus_files(format_name, "not_blank"))


def test_flac_checksum_is_ignored_without_a_sample_count() -> None:
    flac = bytearray(sound("flac", tone(0.3)))
    flac[26] ^= 0xFF
    assert inspect_file(io.BytesIO(bytes(flac)), filename="a.flac").outcome is Outcome.CORRUPT
    flac[21] &= 0xF0
    flac[22:26] = bytes(4)
    assert inspect_file(io.BytesIO(bytes(flac)), filename="a.flac").outcome is Outcome.OK


@each_row(("version", "arguments"), [("18.1.0", {"metadata_errors": "replace"}), ("19.0.2", {})])
def test_container_options_fit_the_installed_pyav(version: str, arguments: dict[str, str]) -> None:
    assert playback._metadata_options(version) == arguments

"""Audio and video: integrity, blankness and names."""

import io
import random
import re
from functools import cache
from itertools import pairwise
from typing import Any

import av
import numpy as np
import pytest

from sluice_inspect.inspection import inspect_file
from sluice_inspect.media import playback
from sluice_inspect.registry import format_of
from sluice_inspect.report import Finding, Limits, Outcome, Report
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.heif_samples import box
from tests.inspection.formats.image_samples import chess_board, encoded
from tests.inspection.formats.media_samples import SOUND, VIDEO, black, music, noise, scene, silence, sound, tone, video
from tests.inspection.formats.zip_samples import archive
from tests.rows import each_row

FORMAT_NAMES = (*SOUND, *VIDEO)
each_name = each_row("name", FORMAT_NAMES)
COMPRESSED = [name for name in FORMAT_NAMES if name not in {"wav", "aiff"}]
HTML = b"<html><script>alert(1)</script></html>"


@cache
def sample(name: str) -> bytes:
    return sound(name, music(1.5)) if name in SOUND else video(name, scene(12), music(1.2))


def cut(name: str, share: float) -> bytes:
    return sample(name)[: int(len(sample(name)) * share)]


def examine(name: str, data: bytes, limits: Limits | None = None) -> Examined:
    format_ = format_of(name)
    assert format_ is not None
    return examine_bytes(format_, data, limits)


def report_of(data: bytes, extension: str, limits: Limits | None = None) -> Report:
    return inspect_file(io.BytesIO(data), filename=f"upload.{extension}", limits=limits or Limits())


@each_name
def test_encoder_output_is_ok_and_not_blank(name: str) -> None:
    report = report_of(sample(name), name)
    assert (report.format, report.outcome, report.finding) == (name, Outcome.OK, None), report.detail


@each_name
@each_row("share", [0.3, 0.5, 0.95])
def test_truncated_file_is_corrupt(name: str, share: float) -> None:
    assert report_of(cut(name, share), name).integrity is Outcome.CORRUPT


@each_row("name", COMPRESSED)
@each_row("share", [0.3, 0.5, 0.7])
def test_zeroed_media_data_is_corrupt(name: str, share: float) -> None:
    data, start = sample(name), len(cut(name, share))
    zeroed = data[:start] + bytes(min(4096, len(data) - start)) + data[start + 4096 :]
    assert report_of(zeroed, name).integrity is Outcome.CORRUPT


@each_row("tail", [64, 400])
def test_zeros_in_place_of_the_end_of_an_index_are_corrupt(tail: int) -> None:
    data = video("avi", scene(40))
    assert report_of(data, "avi").integrity is Outcome.OK
    assert report_of(data[:-tail] + bytes(tail), "avi").integrity is Outcome.CORRUPT


@each_row("name", ["avi", "aac", "mp3"])
@each_row("share", [0.5, 0.75, 0.85])
def test_zeros_in_place_of_the_end_are_corrupt(name: str, share: float) -> None:
    assert report_of(cut(name, share).ljust(len(sample(name)), b"\0"), name).integrity is Outcome.CORRUPT


@each_row("name", ["aac", "mp3"])
@each_row("share", [0.5, 0.75, 0.85])
def test_ones_or_noise_in_place_of_the_end_of_frames_are_corrupt(name: str, share: float) -> None:
    kept, size = cut(name, share), len(sample(name))
    for tail in (b"\xff" * size, random.Random(share).randbytes(size)):
        assert report_of(kept + tail[len(kept) :], name).integrity is Outcome.CORRUPT


@each_row("name", ["aac", "mp3"])
def test_padding_text_or_a_tag_behind_the_last_frame_is_no_damage(name: str) -> None:
    noise_bytes = random.Random(1).randbytes(4096)
    tag = b"TAG" + bytes(125)
    for tail in (bytes(4096), b"\xff" * 4096, b"a line of text\n" * 99, tag, noise_bytes + tag, noise_bytes[:600]):
        assert report_of(sample(name) + tail, name).outcome is Outcome.OK, tail[:16]


def test_frames_of_another_rate_behind_the_last_one_are_no_damage() -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="mp2") as container:
        container.add_stream("mp2", rate=32000, layout="mono")
        frame: Any = av.AudioFrame.from_ndarray(np.zeros((1, 32000), np.int16), format="s16", layout="mono")
        frame.sample_rate = 32000
        stream: Any = container.streams[0]
        container.mux([*stream.encode(frame), *stream.encode(None)])
    assert report_of(sample("mp3") + file.getvalue(), "mp3").outcome is Outcome.OK


@each_name
def test_other_content_under_a_media_extension_and_the_reverse_are_a_mismatch(name: str) -> None:
    page = b"<!DOCTYPE html><title>502</title>" + sample(name)
    for other in (page, encoded(chess_board(), "PNG")):
        assert report_of(other, name).finding is Finding.TYPE_MISMATCH
    for extension in ("txt", "pdf", "png", "zip"):
        report = report_of(sample(name), extension)
        assert (report.format, report.finding) == (name, Finding.TYPE_MISMATCH)


@each_row("name", SOUND)
@each_row("wave", lambda: [silence(1), noise(1, -72)], ids=["digital silence", "faint noise"])
def test_silence_is_blank(name: str, wave: Any) -> None:
    assert report_of(sound(name, wave), name).blank_detail == "no sound is louder than -60 dBFS"


@each_row("name", SOUND)
def test_late_tone_is_not_blank(name: str) -> None:
    wave = silence(4)
    wave[-24_000:-12_000] = tone(0.25)
    assert not report_of(sound(name, wave), name).blank


@each_row("name", VIDEO)
def test_video_is_blank_when_it_is_black_and_silent(name: str) -> None:
    report = report_of(video(name, black(), silence(0.5)), name)
    assert report.blank_detail == "no picture shows anything and no sound is louder than -60 dBFS"
    assert not report_of(video(name, black(), tone(0.5, -40)), name).blank
    assert not report_of(video(name, [*black(20), *scene(1)], silence(0.5)), name).blank


@each_row(("words", "blank"), [((b"Hello", b" "), False), ((b" ", b"\r\n"), True)])
def test_subtitles_are_content_unless_they_are_empty(words: tuple[bytes, ...], *, blank: bool) -> None:
    assert report_of(video("mkv", black(), words=words), "mkv").blank is blank


def test_cover_picture_of_silent_audio_is_not_content() -> None:
    cover = b"APIC" + (b"\0\0\0\0" + b"\0\0" + b"\0image/png\0\3\0" + encoded(chess_board(), "PNG"))
    cover = cover[:4] + (len(cover) - 10).to_bytes(4, "big") + cover[8:]
    size = bytes(len(cover) >> shift & 0x7F for shift in (21, 14, 7, 0))
    tagged = b"ID3\3\0\0" + size + cover + sound("mp3", silence(1))
    assert report_of(tagged, "mp3").blank
    assert not report_of(tagged + sound("mp3", tone(0.5)), "mp3").blank


@each_row("name", ["mp3", "mkv", "mp4", "flac"])
def test_only_the_container_is_checked_past_the_time_limit(name: str) -> None:
    rushed = Limits(soft_seconds=-1)
    result = examine(name, sound(name, silence(1)) if name in SOUND else video(name, black()), rushed)
    assert (result.outcome, result.blank) == (Outcome.OK, None)
    assert examine(name, cut(name, 0.5), rushed).outcome is Outcome.CORRUPT


def test_partial_check_is_measured() -> None:
    assert report_of(sample("mkv"), "mkv", Limits(soft_seconds=-1)).measures["partially_checked"] is True


@each_name
def test_only_truncation_is_noticed_without_the_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playback, "INSTALLED", False)
    result = examine(name, sample(name))
    assert result.outcome is Outcome.UNSUPPORTED
    assert "PyAV is not installed" in result.detail
    assert name == "flac" or examine(name, cut(name, 0.5)).outcome is Outcome.CORRUPT


def test_unknown_codec_is_unsupported_and_not_blank() -> None:
    result = examine("avi", video("avi", scene()).replace(b"FMP4", b"XYZ0"))
    assert (result.outcome, result.blank) == (Outcome.UNSUPPORTED, None)
    assert "unknown codec" in result.detail


def test_avi_with_unset_sizes_is_ok() -> None:
    data = bytearray(video("avi", scene()))
    for at in (4, data.index(b"movi") - 4):
        data[at : at + 4] = b"\xff" * 4
    result = examine("avi", bytes(data))
    assert (result.outcome, result.blank) == (Outcome.OK, None)


def test_avi_without_one_of_its_lists_is_corrupt() -> None:
    data = video("avi", scene())
    assert "does not describe its streams" in examine("avi", data.replace(b"hdrl", b"abcd", 1)).detail
    assert "holds no media" in examine("avi", data.replace(b"movi", b"abcd", 1)).detail
    assert examine("avi", data.replace(b"LIST", bytes(4), 1)).outcome is Outcome.CORRUPT
    assert examine("avi", data + b"abcd\4\0\0\0word").outcome is Outcome.OK  # behind the last part


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
    for number in range(9):
        place = data.index(b"00dc", place + 1)
        if number >= 6:
            data[place + 8 : place + 8 + 200] = b"\xff" * 200
    result = examine("avi", bytes(data))
    assert result.outcome is Outcome.CORRUPT
    assert "packets of the video are damaged, the first about second" in result.detail


@each_row("second", [archive(("a.txt", b"words")), HTML])
@each_row("name", ["wav", "mp4", "mp3", "webm"])
def test_second_format_after_the_media_is_a_polyglot(name: str, second: bytes) -> None:
    assert report_of(sample(name) + second, name).finding is Finding.POLYGLOT


def test_page_in_a_tag_is_not_a_polyglot() -> None:
    tagged = b"ID3\x04\0\0\0\0\x01\x48" + b"<html><script>".ljust(200) + sample("mp3")
    assert report_of(tagged, "mp3").finding is None


@each_row(
    ("name", "extension"),
    [("mp4", "mov"), ("mov", "mp4"), ("mov", "m4v"), ("mp4", "3gp"), ("m4a", "mp4"), ("webm", "mkv"), ("opus", "ogg")],
)
def test_extensions_of_related_formats_are_no_mismatch(name: str, extension: str) -> None:
    report = report_of(sample(name), extension)
    assert (report.format, report.finding) == (name, None)


@each_row(("name", "extension"), [("mp4", "m4a"), ("mkv", "webm"), ("ogg", "opus"), ("mp3", "aac"), ("m4a", "mp3")])
def test_extensions_of_other_media_formats_are_a_mismatch(name: str, extension: str) -> None:
    assert report_of(sample(name), extension).finding is Finding.TYPE_MISMATCH


def test_heic_picture_is_not_recognised_as_media() -> None:
    picture = box(b"ftyp", b"heic\0\0\0\0mif1heic") + box(b"meta", bytes(40))
    assert report_of(picture, "mp4").format not in FORMAT_NAMES


def test_flac_checksum_is_ignored_without_a_sample_count() -> None:
    flac = bytearray(sound("flac", tone(0.3)))
    flac[26] ^= 0xFF
    assert report_of(bytes(flac), "flac").outcome is Outcome.CORRUPT
    flac[21] &= 0xF0
    flac[22:26] = bytes(4)
    assert report_of(bytes(flac), "flac").outcome is Outcome.OK


@each_row(("version", "arguments"), [("18.1.0", {"metadata_errors": "replace"}), ("19.0.2", {})])
def test_container_options_fit_the_installed_pyav(version: str, arguments: dict[str, str]) -> None:
    assert playback._metadata_options(version) == arguments


@pytest.fixture
def decoded_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode little of each file, as of a large one."""
    monkeypatch.setattr(playback, "_DECODED_WHOLE_BYTES", 0)
    monkeypatch.setattr(playback, "_DECODED_WHOLE_WORK", 0)
    monkeypatch.setattr(playback, "_STRETCHES_WORK", 40_000_000)


@pytest.mark.usefixtures("decoded_in_stretches")
@each_row("name", sorted({*FORMAT_NAMES} - {"wav", "aiff", "flac"}))
def test_large_recording_is_decoded_in_part(name: str) -> None:
    report = report_of(sound(name, music(20)) if name in SOUND else video(name, scene(60)), name)
    assert (report.outcome, report.measures["partially_checked"]) == (Outcome.OK, True)
    decoded = report.measures["audio_frames" if name in SOUND else "video_frames"]
    assert isinstance(decoded, int)
    assert 0 < decoded < (300 if name in SOUND else 50)


@pytest.mark.usefixtures("decoded_in_stretches")
def test_what_is_decoded_of_a_large_recording_does_not_grow_with_it() -> None:
    short, long = (report_of(sound("mp3", music(seconds)), "mp3").measures["audio_frames"] for seconds in (20, 80))
    assert isinstance(short, int)
    assert isinstance(long, int)
    assert 0.8 * short < long < 1.2 * short


@pytest.mark.usefixtures("decoded_in_stretches")
@each_row("first", [1, 55])
def test_damage_in_a_stretch_of_a_large_recording_is_found(first: int) -> None:
    data = bytearray(video("avi", scene(60)))
    frames = [found.start() for found in re.finditer(b"00dc", bytes(data[: data.index(b"idx1")]))]
    for at in frames[first : first + 3]:
        data[at + 8 : at + 208] = b"\xff" * 200
    assert "packets of the video are damaged" in report_of(bytes(data), "avi").detail


@pytest.mark.usefixtures("decoded_in_stretches")
def test_hole_between_the_stretches_of_a_large_recording_is_found() -> None:
    data = bytearray(video("mp4", scene(60)))
    middle = (data.index(b"mdat") + data.index(b"moov")) // 2
    data[middle : middle + 4096] = bytes(4096)
    assert report_of(bytes(data), "mp4").integrity is Outcome.CORRUPT


@pytest.mark.usefixtures("decoded_in_stretches")
def test_large_recording_is_not_blank_unless_all_of_it_was_decoded() -> None:
    assert not report_of(sound("mp3", silence(5)), "mp3").blank
    assert report_of(sound("wav", silence(5)), "wav").blank


def test_stretches_begin_at_keys_and_reach_both_ends() -> None:
    work, keys = [10] * 1000, list(range(0, 1000, 5))
    decoded = playback.plan_stretches(work, keys, budget=1200)
    begins = [at for at in range(1000) if decoded[at] and not (at and decoded[at - 1])]
    assert len(begins) == 12
    assert {at % 5 for at in begins} == {0}
    assert decoded[0] == decoded[-1] == 1
    assert 1200 <= 10 * sum(decoded) <= 1800
    assert max(b - a for a, b in pairwise(begins)) < 110


def test_stretch_reaches_the_end_from_a_key_before_it_that_is_near() -> None:
    assert playback.plan_stretches([10] * 1000, [0, 500, 950], budget=1200).endswith(b"\0" + b"\1" * 50)
    assert playback.plan_stretches([10] * 1000, [0], budget=1200) == b"\1" * 120 + bytes(880)


def test_what_is_little_work_is_decoded_whole() -> None:
    assert playback.plan_stretches([10] * 100, [0], budget=1000) == b"\1" * 100
    assert playback.plan_stretches([], [], budget=1000) == b""

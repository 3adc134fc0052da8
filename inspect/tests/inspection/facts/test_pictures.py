"""Size, frames and pages of pictures, duration, tracks and codecs of recordings, also where they are damaged."""

import io

from av import codecs_available
from PIL import Image

from sluice_inspect import inspect_file
from sluice_inspect.catalogue import AUDIO_CODECS, VIDEO_CODECS
from sluice_inspect.facts.media import _codec
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.facts import facts_of, flags_of
from tests.inspection.formats.image_samples import animated, chess_board, encoded, png_header
from tests.inspection.formats.media_samples import music, scene, sound, video
from tests.rows import each_row

PLUGINS = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "webp": "WEBP", "bmp": "BMP", "tiff": "TIFF", "avif": "AVIF",
           "jp2": "JPEG2000"}  # fmt: skip
BOARD = chess_board(64).resize((96, 64))
STILL = {"width": 96, "height": 64, "pixels": 6144, "frames": 1, "animated": False}


@each_row("extension", PLUGINS)
def test_picture_has_size_and_one_frame(extension: str) -> None:
    facts = facts_of(encoded(BOARD, PLUGINS[extension]), f"a.{extension}")
    assert {name: facts[name] for name in STILL} == STILL


@each_row("extension", ["png", "gif", "webp"])
def test_animation_has_its_frames(extension: str) -> None:
    frames = [chess_board(64, square) for square in (8, 16, 32)]
    facts = facts_of(animated(frames, PLUGINS[extension]), f"a.{extension}")
    assert (facts["frames"], facts["animated"]) == (3, True)


def test_pages_of_a_tiff_are_no_animation() -> None:
    facts = facts_of(animated([chess_board(), chess_board(64, 16)], "TIFF"), "a.tiff")
    assert (facts["pages"], facts["frames"], facts["animated"]) == (2, 1, False)


@each_row("extension", ["png", "jpg", "gif", "webp", "bmp"])
def test_damaged_picture_has_the_size_of_its_header(extension: str) -> None:
    data = encoded(BOARD, PLUGINS[extension])
    report = inspect_file(io.BytesIO(data[: len(data) * 2 // 3]), filename=f"a.{extension}")
    assert report.integrity is Outcome.CORRUPT
    assert (report.facts["width"], report.facts["height"], report.facts["pixels"]) == (96, 64, 6144)


def test_size_of_a_picture_that_is_too_large_is_read_without_decoding_it() -> None:
    data = encoded(Image.new("L", (300, 200)), "PNG")
    report = inspect_file(io.BytesIO(data), filename="a.png", limits=Limits(max_pixels=1000))
    assert report.finding is Finding.IMAGE_TOO_LARGE
    assert (report.facts["width"], report.facts["height"], report.facts["pixels"]) == (300, 200, 60_000)
    bomb = inspect_file(io.BytesIO(png_header(60_000, 60_000)), filename="a.png")
    assert bomb.facts["pixels"] == 3_600_000_000


def test_pictures_have_no_flags_and_are_searched_in_full() -> None:
    assert flags_of(encoded(BOARD, "PNG"), "a.png") == set()
    assert facts_of(encoded(BOARD, "PNG"), "a.png")["flags_complete"] is True


def test_sound_has_duration_and_codec_and_no_video() -> None:
    stated = {
        "duration_ms": 500,
        "has_audio": True,
        "has_video": False,
        "audio_codecs": ("pcm",),
        "flags_complete": True,
    }
    assert facts_of(sound("wav", music(0.5)), "a.wav") == stated


@each_row(("name", "codec"), [("mp3", "mp2"), ("flac", "flac"), ("m4a", "aac"), ("opus", "opus")])
def test_codec_of_sound_has_the_name_of_the_catalogue(name: str, codec: str) -> None:
    assert facts_of(sound(name, music(0.5)), f"a.{name}")["audio_codecs"] == (codec,)


def test_video_with_sound_has_both() -> None:
    facts = facts_of(video("webm", scene(), music(0.5)), "a.webm")
    assert (facts["has_video"], facts["has_audio"]) == (True, True)
    assert (facts["video_codecs"], facts["audio_codecs"]) == (("vp8",), ("opus",))


def test_damaged_video_has_what_its_header_states() -> None:
    data = bytearray(video("mkv", scene(10), music(1)))
    data[len(data) // 2 : len(data) // 2 + 3000] = bytes(3000)
    facts = facts_of(bytes(data), "a.mkv")
    assert facts["has_video"] is True
    assert facts["video_codecs"]


def test_every_decoder_of_ffmpeg_has_a_name_of_the_catalogue() -> None:
    for name in codecs_available:
        assert _codec(name, AUDIO_CODECS) in AUDIO_CODECS
        assert _codec(name, VIDEO_CODECS) in VIDEO_CODECS
    assert _codec("adpcm_ima_wav", AUDIO_CODECS) == "adpcm"
    assert _codec("mpeg2video", VIDEO_CODECS) == "mpeg2"
    assert _codec("libdav1d", VIDEO_CODECS) == "av1"

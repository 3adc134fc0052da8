"""Duration, tracks and codecs of recordings are facts, also where the recording is damaged."""

import pytest

from sluice_inspect.catalogue import AUDIO_CODECS, VIDEO_CODECS
from sluice_inspect.facts.media import _codec as codec_of
from tests.inspection.facts import facts_of
from tests.inspection.formats.media_samples import music, scene, sound, video
from tests.rows import each_row

av = pytest.importorskip("av")


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
    for name in av.codecs_available:
        assert codec_of(name, AUDIO_CODECS) in AUDIO_CODECS
        assert codec_of(name, VIDEO_CODECS) in VIDEO_CODECS
    assert codec_of("adpcm_ima_wav", AUDIO_CODECS) == "adpcm"
    assert codec_of("mpeg2video", VIDEO_CODECS) == "mpeg2"
    assert codec_of("libdav1d", VIDEO_CODECS) == "av1"

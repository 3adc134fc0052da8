"""Scan budgets: a file that exceeds one is incomplete, never clean, and hostile bytes never break the scan."""

import bz2
import gzip
import json
import random
import zipfile
import zlib
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sluice_inspect.threats.budget import ScanBudget
from tests.inspection.threats.containers import ar
from tests.inspection.threats.packed_files import EICAR, ar_member, scan_bytes, tarred, threat_in, zipped
from tests.rows import each_row

SMALL = ScanBudget(
    max_unpacked_bytes=3 * 2**20,
    max_ratio=100,
    ratio_floor_bytes=2**20,
    max_members=50,
    max_depth=4,
    max_held_bytes=2**18,
)
TOO_COMPRESSED = "unpacks to more than 100 times its size"
TOO_LARGE = "unpacks to more than 3145728 bytes"
TOO_LARGE_TO_HOLD = "an archive or message of more than 262144 bytes in an archive"
NOISE = random.Random(1).randbytes(2**19)


def nested(levels: int, data: bytes) -> bytes:
    for _ in range(levels):
        data = zipped({"inner.zip": data})
    return data


def ar_in_ar(levels: int) -> bytes:
    data = b"x"
    for _ in range(levels):
        data = ar(ar_member(b"inner.a", data))
    return data


@each_row(
    ("case", "data", "why"),
    lambda: [
        ("ratio", zipped({"zeros": bytes(2**22)}), TOO_COMPRESSED),
        ("ratio, gzip", gzip.compress(bytes(2**22)), TOO_COMPRESSED),
        ("ratio, bzip2", bz2.compress(bytes(2**22)), TOO_COMPRESSED),
        ("ratio, zlib", zlib.compress(bytes(2**22)), TOO_COMPRESSED),
        ("size", zipped({str(n): NOISE for n in range(7)}), TOO_LARGE),
        ("stored", zipped({str(n): NOISE for n in range(7)}, zipfile.ZIP_STORED), TOO_LARGE),
        ("members", zipped({str(n): b"x" for n in range(51)}), "more than 50 members"),
        ("streams", gzip.compress(b"x") * 51, "more than 50 members"),
        ("streams, zlib", zlib.compress(b"x") * 51, "more than 50 members"),
        ("members of ar", ar(*[ar_member(b"a", b"x")] * 51), "more than 50 members"),
        ("depth of ar", ar_in_ar(5), "nested more than 4 levels deep"),
        ("depth", nested(5, b"x"), "nested more than 4 levels deep"),
        ("too large to hold", zipped({"in.zip": zipped({"a": NOISE})}), TOO_LARGE_TO_HOLD),
        ("message too large to hold",
         gzip.compress(b"Subject: x\nContent-Transfer-Encoding: base64\n\n" + b"QUFB\n" * 2**17), TOO_LARGE_TO_HOLD),
    ],
)  # fmt: skip
def test_file_over_budget_is_incomplete_with_a_reason(case: str, data: bytes, why: str) -> None:
    result = scan_bytes(data, budget=replace(SMALL, max_ratio=10**6) if "times" not in why else SMALL)
    assert (result["threat"], result["complete"], result["why"]) == (None, False, why)


@each_row(
    ("case", "data"),
    lambda: [
        ("a large member", zipped({"film.mp4": NOISE})),
        ("a large text", gzip.compress(b"Note: a long log\n" + NOISE)),
        ("a large tar of small members", tarred({str(n): NOISE[: 2**17] for n in range(9)}, "w:gz")),
        ("a large tar of archives", tarred({str(n): zipped({"a": NOISE[: 2**17]}) for n in range(5)}, "w:gz")),
        ("a large ar of small members", gzip.compress(ar(*(ar_member(b"a", NOISE[: 2**17]) for n in range(9))))),
        ("a large archive stored in an archive", zipped({"in.zip": zipped({"a": NOISE})}, zipfile.ZIP_STORED)),
        ("a tar with much padding", tarred({"a": b"a"}) + bytes(512 * 60)),
        ("depth within the budget", nested(4, b"x")),
    ],
)
def test_large_file_within_the_budget_is_scanned_completely(case: str, data: bytes) -> None:
    result = scan_bytes(data, budget=SMALL)
    assert (result["why"], result["complete"]) == ("", True)


@each_row(
    ("case", "data"),
    lambda: [
        ("a large member", zipped({"film.mp4": NOISE + EICAR + NOISE})),
        ("a large tar", tarred({"a": NOISE, "b": EICAR}, "w:gz")),
        ("packed in a large ar", gzip.compress(ar(ar_member(b"a", NOISE), ar_member(b"b", gzip.compress(EICAR))))),
        ("packed in a large tar", tarred({"a": NOISE, "b": gzip.compress(EICAR)}, "w:gz")),
        ("a large tar.gz in a zip", zipped({"a.tar.gz": tarred({"a": NOISE, "b": zipped({"c": EICAR})}, "w:gz")})),
    ],
)
def test_threat_in_content_too_large_for_memory_is_found(case: str, data: bytes) -> None:
    assert scan_bytes(data, budget=SMALL)["threat"] == "Eicar-Test-File"


def test_dictionary_larger_than_memory_is_incomplete() -> None:
    data = bytearray(zipped({"a": b"x" * 1000}, zipfile.ZIP_LZMA))
    prefix = data.index(b"a", 30) + 1
    data[prefix + 5 : prefix + 9] = b"\xff\xff\xff\xff"
    assert "needs more memory to unpack than is allowed" in str(scan_bytes(bytes(data))["why"])


def test_overlapping_members_are_counted_each_time() -> None:
    kernel = zipped({"a": NOISE[:1000] * 400})
    directory = kernel.index(b"PK\x01\x02")
    many = kernel[:directory] + kernel[directory : directory + 47] * 200
    assert scan_bytes(many, budget=SMALL)["why"] == "more than 50 members"


_GOOD = [zipped({"a": b"hello" * 50}), tarred({"a": b"hello"}, "w:gz"), tarred({"a": b"x"}), gzip.compress(b"x" * 300)]
_GOOD.append(bz2.compress(b"x"))


@given(
    st.sampled_from(_GOOD),
    st.lists(st.tuples(st.integers(0, 2**14), st.integers(0, 255)), max_size=8),
    st.integers(0, 2**14),
)
def test_damaged_archives_never_break_the_scan(data: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    damaged = bytearray(data)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    result = scan_bytes(bytes(damaged[: max(1, cut % len(damaged))]))
    assert json.loads(json.dumps(result)) == result


@given(
    st.binary(max_size=600),
    st.sampled_from([b"PK\x03\x04", b"PK\x01\x02", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\0", b"Subject: \n"]),
)
def test_bytes_after_any_signature_never_break_the_scan(data: bytes, magic: bytes) -> None:
    assert scan_bytes(magic + data)["threat"] is None


def test_thousand_small_members_are_scanned() -> None:
    members = {f"{number}.txt": str(number).encode() for number in range(1000)}
    assert threat_in(zipped(members | {"last": EICAR})) == "Eicar-Test-File"

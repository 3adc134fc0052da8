"""What the responses of ICAP servers say of a file, as RFC 3507 and the manuals of the products describe them."""

import pytest

from sluice.scanner.icap.replies import IcapUnavailable, IcapVerdict, judge, parse_head, parse_http, parse_options
from tests.rows import each_row

CLEAN, INFECTED, INCOMPLETE = IcapVerdict.CLEAN, IcapVerdict.INFECTED, IcapVerdict.INCOMPLETE
ENCRYPTED = IcapVerdict.ENCRYPTED
BLOCKED = 'ICAP/1.0 200 OK\r\nISTag: "a"\r\n'
# Fields of the answers of each product, with the page that describes them.
KASPERSKY = (
    "X-Infection-Found: Type=0; Resolution=0; Threat=EICAR-Test-File;"  # support.kaspersky.com/scanengine/221159
)
TREND = "X-Virus-ID: TSPY_ONLINEG.MCS\r\nX-Infection-Found: Type=0; Resolution=2; Threat=TSPY_ONLINEG.MCS;"  # DDAn 6.8
OPSWAT = "X-Response-Info: Blocked\r\nX-Blocked-Reason: Infected\r\nX-Virus-ID: EICAR Test String"  # mdicap/operating
OPSWAT_ARCHIVE = "X-Virus-ID: Encrypted Archive\r\nX-Infection-Found: Type=2; Resolution=0; Threat=Encrypted Archive;"
CLEARSWIFT = (
    "X-Virus-ID: Encrypted Archive\r\nX-Infection-Found: Type=1; Resolution=0; Threat=Encrypted Archive;"  # SIG 4.8
)
C_ICAP = (  # as Debian's c-icap 0.5.10 with virus_scan sends it
    "X-Infection-Found: Type=0; Resolution=2; Threat=Eicar-Test-Signature;\r\n"
    "X-Violations-Found: 1\r\n\t-\r\n\tEicar-Test-Signature\r\n\t0\r\n\t0"
)
ESET = (  # as ESET Server Security for Linux sends it, in German: nextcloud/files_antivirus#303
    "X-Infection-Found: Type=0; Resolution=0; Threat=Eicar;\r\nX-Virus-ID: Testdatei\r\n"
    "X-Response-Info: Blocked\r\nX-Response-Description: Gel\xf6scht"
)
SKYHIGH = (  # as McAfee Web Gateway, now Skyhigh, sends it: toolarium/toolarium-icap-client#8
    "X-Media-Type: text/plain\r\nX-Virus-Name: EICAR test file\r\nX-Block-Reason: Malware found\r\nX-WWBlockResult: 80"
)
SOPHOS = "X-Virus-ID: Troj/DocDl-OYC"  # as SAVDI sends it: rspamd's lua_scanners/icap.lua
SOPHOS_HTTP = b"HTTP/1.1 403 Forbidden\r\nX-Blocked: Virus found during virus scan\r\nX-Blocked-By: Sophos Anti-Virus"
F_SECURE = (  # as Internet Gatekeeper sends it: the same
    'X-FSecure-Scan-Result: infected\r\nX-FSecure-Infection-Name: "Malware.W97M/Agent.32584203"'
)
CLAMAV = "X-Infection-Found: Type=0; Resolution=2; Threat={};"  # what c-icap sends of ClamAV's alerts
LIMIT = "a limit or a rule of the server: Heuristics.Limits.Exceeded.MaxFiles"
SYMANTEC = "X-Violations-Found: 1\r\n\tfile\r\n\tEICAR Test String\r\n\t11101\r\n\t0"  # SPE 7 developer's guide


@each_row(
    "fields, verdict, detail",
    [
        (KASPERSKY, INFECTED, "EICAR-Test-File"),
        (TREND, INFECTED, "TSPY_ONLINEG.MCS"),
        (OPSWAT, INFECTED, "EICAR Test String"),
        (C_ICAP, INFECTED, "Eicar-Test-Signature"),
        (SYMANTEC, INFECTED, "EICAR Test String"),
        (ESET, INFECTED, "Eicar"),
        (SKYHIGH, INFECTED, "EICAR test file"),
        (SOPHOS, INFECTED, "Troj/DocDl-OYC"),
        (F_SECURE, INFECTED, "Malware.W97M/Agent.32584203"),
        ("X-FSecure-Scan-Result: clean", INCOMPLETE, "the server returns other content (HTTP 403) and names no threat"),
        (
            "X-FSecure-Scan-Result: suspected",
            INCOMPLETE,
            "a limit or a rule of the server: X-FSecure-Scan-Result suspected",
        ),
        ("X-Infection-Found: Type=0; Resolution=2; Threat=\x1b[31mred\xff;", INFECTED, "?[31mred?"),
        ("X-Virus-ID: EICAR\r\nX-Virus-ID: none", INFECTED, "EICAR, none"),
        ("X-Infection-Found: something else", INFECTED, "something else"),
        ("X-Violations-Found: 1", INFECTED, "unnamed"),
        (OPSWAT_ARCHIVE, INCOMPLETE, "a limit or a rule of the server: Encrypted Archive"),
        (CLEARSWIFT, INCOMPLETE, "a limit or a rule of the server: Encrypted Archive"),
        (CLAMAV.format("Heuristics.Encrypted.Zip"), ENCRYPTED, "Heuristics.Encrypted.Zip"),
        (CLAMAV.format("Heuristics.Limits.Exceeded.MaxFiles"), INCOMPLETE, LIMIT),
        (CLAMAV.format("Heuristics.Encrypted.Zip, EICAR"), INFECTED, "Heuristics.Encrypted.Zip, EICAR"),
        ("X-Violations-Found: 0", INCOMPLETE, "the server returns other content (HTTP 403) and names no threat"),
        ("X-Virus-ID: no threats", INCOMPLETE, "the server returns other content (HTTP 403) and names no threat"),
    ],
)
def test_threat_is_named_by_the_fields_of_each_product(fields: str, verdict: IcapVerdict, detail: str) -> None:
    reply = judge(parse_head(f"{BLOCKED}{fields}".encode("latin-1")), was_whole=True, http_status=403)
    assert (reply.verdict, reply.detail, reply.tag) == (verdict, detail, "a")


def test_threat_is_also_found_in_the_http_response_within() -> None:
    status, fields = parse_http(b"HTTP/1.1 403 Forbidden\r\nX-Virus-ID: EICAR\r\n\r\n")
    for own in ("", "X-Virus-ID: none"):
        head = parse_head(f"{BLOCKED}{own}".encode())
        reply = judge(head, was_whole=True, http_status=status, http_fields=fields, is_unchanged=True)
        assert (reply.verdict, reply.detail) == (INFECTED, "EICAR")
    status, fields = parse_http(SOPHOS_HTTP)
    reply = judge(parse_head(BLOCKED.encode()), was_whole=True, http_status=status, http_fields=fields)
    assert (reply.verdict, reply.detail) == (INFECTED, "Virus found during virus scan")


@each_row(
    "status, was_whole, is_unchanged, verdict",
    [
        ("204 No Content", True, False, CLEAN),
        ("200 OK", True, True, CLEAN),
        ("201 Created", True, True, INCOMPLETE),
        ("200 OK", True, False, INCOMPLETE),
        ("204 No Content", False, False, IcapVerdict.UNSEEN),
        ("200 OK", False, True, IcapVerdict.UNSEEN),
    ],
)
def test_only_an_unchanged_file_that_was_sent_in_full_is_clean(
    status: str, *, was_whole: bool, is_unchanged: bool, verdict: IcapVerdict
) -> None:
    head = parse_head(f"ICAP/1.0 {status}".encode())
    assert judge(head, was_whole=was_whole, is_unchanged=is_unchanged).verdict is verdict


def test_threat_counts_whatever_was_sent_and_whatever_the_status() -> None:
    head = parse_head(f"ICAP/1.0 204 No Content\r\n{KASPERSKY}".encode())
    assert judge(head, was_whole=False).verdict is INFECTED


@each_row(
    "raw, why",
    [
        ("HTTP/1.1 200 OK", "not of ICAP"),
        ("ICAP/2.0 200 OK", "not of ICAP"),
        ("", "not of ICAP"),
        ("ICAP/1.0 204 OK\r\nno field", "no field"),
        ("ICAP/1.0 204 OK\r\nISTag: a\r\nISTag: b", "two fields istag"),
        ("ICAP/1.0 100 Continue", "it replies 100 Continue"),
        ("ICAP/1.0 206 Partial", "it replies 206 Partial"),
        ("ICAP/1.0 404 ICAP Service not found", "it replies 404"),
        ("ICAP/1.0 500 Server error", "it replies 500 Server error"),
        ("ICAP/1.0 503 Service overloaded", "it replies 503"),
    ],
)
def test_response_without_a_verdict_is_unavailable(raw: str, why: str) -> None:
    with pytest.raises(IcapUnavailable, match=why):
        judge(parse_head(raw.encode()), was_whole=True)


def test_options_are_read_and_wrong_numbers_left_out() -> None:
    head = parse_head(
        b"ICAP/1.0 200 OK\r\nMethods: RESPMOD, reqmod\r\nPreview: 999999\r\nMax-Connections: many\r\n"
        b'Options-TTL: 60\r\nAllow: 204\r\nISTag: "v-1"\r\nService: An antivirus'
    )
    options = parse_options(head)
    assert (options.methods, options.preview, options.connections) == (("RESPMOD", "REQMOD"), 65_536, None)
    assert (options.allows_204, options.tag, options.service) == (True, "v-1", "An antivirus")
    with pytest.raises(IcapUnavailable, match="no service at this path"):
        parse_options(parse_head(b"ICAP/1.0 404 Not found"))

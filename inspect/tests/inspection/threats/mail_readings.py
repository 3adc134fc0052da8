"""Random mails, and what Python's `email` package extracts from them: all of it must be among the parts that are scanned."""

import base64
import email
import email.policy
import random
from email.message import EmailMessage, Message

from sluice_inspect.source import MemorySource
from sluice_inspect.threats.budget import OverBudget
from sluice_inspect.threats.mail import mail_parts


def extracted(mail: bytes) -> list[bytes]:
    """Return the content of every part that is no container, as Python decodes it by either of its policies."""
    found: list[bytes] = []
    old: Message[str, str] = email.message_from_bytes(mail, policy=email.policy.compat32)
    new: Message[str, str] = email.message_from_bytes(mail, policy=email.policy.default)
    for message in (old, new):
        for part in message.walk():
            if not part.is_multipart():
                content = part.get_payload(decode=True)
                assert isinstance(content, bytes)
                found.append(content)
    return found


def missing(source: random.Random) -> str | None:
    """Return a random mail of which a part is neither scanned nor in the mail as it is, or None."""
    mail = changed(source, made(source))
    try:
        expected = extracted(mail)
    except Exception:  # noqa: BLE001  (the package has faults of its own: such a mail is no evidence)
        return None
    try:
        parts = [b"".join(part.content) for part in mail_parts(MemorySource(bytearray(mail)))]
    except OverBudget:
        return None
    unbroken = mail.translate(None, b"\r\n")  # what it fails to decode it returns as it is, without line ends
    for content in expected:
        if content not in mail and content not in unbroken and not any(content in part for part in parts):
            return f"{mail!r} holds {content!r}"
    return None


def made(source: random.Random) -> bytes:
    """Return a mail as programs write them, with parts within parts."""
    message = EmailMessage()
    message["Subject"] = "two attachments"
    message.set_content("see attachments\n" * source.randrange(3))
    for number in range(source.randrange(1, 4)):
        content = source.randbytes(source.randrange(1, 200))
        if source.random() < 0.2:
            inner = EmailMessage()
            inner.set_content("inner")
            inner.add_attachment(content, maintype="application", subtype="x-inner", filename="inner.bin")
            message.add_attachment(inner)
        else:
            kind = source.choice(["base64", "base64", "quoted-printable", "8bit"])
            name = f"{number}.bin"
            message.add_attachment(content, maintype="application", subtype="x-any", filename=name, cte=kind)
    mail = message.as_bytes()
    if source.random() < 0.3:
        mail += b"begin 644 a.bin\n" + b"#86)C\n`\nend\n"
    return mail


def changed(source: random.Random, mail: bytes) -> bytes:
    """Return a mail with a few changes that some readers forgive."""
    for _ in range(source.randrange(4)):
        line_ends = [at for at in range(len(mail)) if mail[at : at + 1] == b"\n"]
        at = source.choice(line_ends) if line_ends else 0
        match source.randrange(10):
            case 0:
                mail = mail.replace(b"\n", source.choice([b"\r\n", b"\r"]))
            case 1:
                mail = mail[:at] + source.choice([b"\r", b"\r\n", b"\n\n", b" \n"]) + mail[at + 1 :]
            case 2:
                mail = mail[:at] + source.choice([b"=", b"!", b" ", b"-", b"(x)", b"=\n"]) + mail[at:]
            case 3:
                mail = mail[: at + 1] + source.choice([b"--", b"--x", b"-- \n", b"x: y\n", b"junk\n"]) + mail[at + 1 :]
            case 4:
                mail = mail.replace(b"Encoding: base64", b"Encoding:" + source.choice(_SPELLINGS))
            case 5:
                mail = mail.replace(b"boundary=", source.choice([b"BOUNDARY =", b"x=y; boundary=", b"\n\tboundary="]))
            case 6:
                mail = mail.replace(b'boundary="', b'boundary="' + source.choice([b"a ", b"", b"--"]), 1)
            case 7:
                start = source.randrange(len(mail) + 1)
                mail = mail[:start] + mail[start + source.randrange(9) :]
            case 8:
                mail = mail[:at] + b"\n" + base64.b64encode(source.randbytes(9)) + mail[at:]
            case _:
                start = source.randrange(len(mail) + 1)
                mail = mail[:start] + bytes([source.choice(b'\r\n=-:; "()A')]) + mail[start:]
    return mail


_SPELLINGS = (b"base64", b"\tBASE64", b" base64 (it is)", b" (this is) base64", b"\n base64", b"  Base64  ")

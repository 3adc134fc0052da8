"""Names of files that run when they are opened: the extensions that mail clients block, and disguises of a name."""
# Sources, as of 2026: "File types blocked in Gmail" (support.google.com/mail/answer/6590), "Blocked attachments in
# Outlook" (support.microsoft.com, ac9af004-eb9f-45e2-9164-65b1b95b206d) and the BlockedFileTypes of Outlook on the web.
# Left out: tmp, which no program opens, and what is data or a page: pst, prf, mht, mhtml, xml.

import re
import unicodedata
from typing import Final

_GMAIL: Final = (
    "ade adp apk appx appxbundle bat cab chm cmd com cpl diagcab diagcfg diagpkg dll dmg ex ex_ exe hta img ins iso isp"
    " jar jnlp js jse lib lnk mde mjs msc msi msix msixbundle msp mst nsh pif ps1 scr sct shb sys vb vbe vbs vhd vxd"
    " wsc wsf wsh xll"
)
_OUTLOOK: Final = (
    "ade adp app application appref-ms asp aspx asx bas bat bgi cab cdxml cer chm cmd cnt com cpl crt csh der diagcab"
    " exe fxp gadget grp hlp hpj hta htc img inf ins iso isp its jar jnlp js jse ksh lnk mad maf mag mam maq mar mas"
    " mat mau mav maw mcf mda mdb mde mdt mdw mdz msc msh msh1 msh1xml msh2 msh2xml mshxml msi msp mst msu ops osd pcd"
    " pif pl plg prg printerexport ps1 ps1xml ps2 ps2xml psc1 psc2 psd1 psdm1 pssc py pyc pyo pyw pyz pyzw reg scf scr"
    " sct settingcontent-ms shb shs theme udl url vb vbe vbp vbs vhd vhdx vsmacros vsw webpnp website ws wsb wsc wsf"
    " wsh xbap xll xnk"
)
# What Windows, macOS and Linux run or follow as well, and no mail client lists.
_OTHERS: Final = (
    "appcontent-ms appinstaller command desktop library-ms mof msdt ocx psm1 rb rdp run scpt search-ms"
    " searchconnector-ms sh themepack workflow xlam xla"
)
PROGRAM_EXTENSIONS: Final = frozenset(f"{_GMAIL} {_OUTLOOK} {_OTHERS}".split())

_DRIVE: Final = re.compile(r"^[A-Za-z]:")
# Windows opens a name that ends in the identifier of a class as that class.
_CLASS_ID: Final = re.compile(r"\{[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}", re.IGNORECASE)


def is_program_name(name: str) -> bool:
    """Return whether opening a file of this name runs it or what it points to, on any system and as any system cuts it.

    Trailing dots and spaces do not count, nor does case. A name may end at a zero byte, and an alternate data stream
    (`a.txt:b.exe`, `a.exe::$DATA`) has the names on both sides of its colon. Invisible characters and those that turn
    the direction of text around are left out.
    """
    last = re.split(r"[/\\]", _DRIVE.sub("", name))[-1]
    return any(map(_has_program_extension, re.split(r"[:\0]", last)))


def _has_program_extension(name: str) -> bool:
    visible = "".join(letter for letter in name if unicodedata.category(letter) not in {"Cf", "Cc"})
    stem, dot, extension = visible.rstrip(". \u00a0").rpartition(".")
    extension = extension.strip().lower()
    return bool(dot and stem) and (extension in PROGRAM_EXTENSIONS or _CLASS_ID.fullmatch(extension) is not None)

"""Measure the rules on text: languages, labels in drawn documents, identifiers, and the time that a text takes.

    python scripts/text_rules.py [FOLDER] [--list] [--documents FOLDER]

Languages are told by pieces of Django's translations, which nothing was adjusted to. Documents with and without an
invoice number are drawn in ten languages and eight formats. Identifiers are searched in random numbers and in the sound
files of FOLDER (../shared/corpus), whose texts are read as the locked worker reads them; `--list` names what they have.

`--documents` has a folder for each language (ISO 639-1; of others, any name) with public documents. Ten phrases of each,
as pdftotext and LibreOffice read it, must be found in it, and ten of others in the same language, which it does not
have, must not; so must its language, and no identifier.
"""

import argparse
import contextlib
import gettext
import io
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Final, get_args

import django
import docx
import openpyxl
import pptx

from sluice_inspect.document_text.identifiers import count_identifiers
from sluice_inspect.document_text.languages import languages_of
from sluice_inspect.document_text.matching import _EXTENT, answer
from sluice_inspect.document_text.normal_form import compact, folded, normalised
from sluice_inspect.document_text.reading import read_text
from sluice_inspect.report import InspectionError, Limits
from sluice_inspect.source import MemoryBacked
from sluice_inspect.text_questions import Identifier, Language, Question, Words

TODAY: Final = date(2026, 11, 29)
ALL: Final[tuple[Identifier, ...]] = get_args(Identifier)
_CODES: Final = {"zh_Hans": "zh"}
_PLACEHOLDERS: Final = re.compile(r"%\(\w+\)s|%[sd]|\{\w*\}|<[^>]*>|&\w+;")
_SENTENCE_LEAST: Final = 25
_SIGNS_PER_WORD: Final = 20
_RANDOM: Final = 1_000_000
_PHRASES: Final = 10  # that are searched in each document
_WRITTEN: Final = frozenset({".doc", ".docx", ".html", ".odt", ".rtf"})
_SHOWN: Final = frozenset({".pptx", ".xlsx"})

# An invoice number, a date of issue and a sentence, as an invoice and as a letter that is none have them.
_INVOICES: Final[Mapping[str, tuple[str, str, str]]] = {
    "en": ("Invoice number", "Date of issue", "Thank you for your order. Please pay within thirty days."),
    "de": ("Rechnungsnummer", "Rechnungsdatum", "Vielen Dank für Ihre Bestellung. Bitte zahlen Sie in dreißig Tagen."),
    "fr": (
        "Numéro de facture",
        "Date d’émission",
        "Nous vous remercions de votre commande, à régler sous trente jours.",
    ),
    "es": ("Número de factura", "Fecha de emisión", "Gracias por su pedido. Le rogamos que pague en treinta días."),
    "it": ("Numero fattura", "Data di emissione", "Grazie per il Suo ordine. Si prega di pagare entro trenta giorni."),
    "nl": ("Factuurnummer", "Factuurdatum", "Dank u voor uw bestelling. Wij vragen u binnen dertig dagen te betalen."),
    "pl": ("Numer faktury", "Data wystawienia", "Dziękujemy za zamówienie. Prosimy o zapłatę w ciągu trzydziestu dni."),
    "pt": ("Número da fatura", "Data de emissão", "Obrigado pela sua encomenda. Pague no prazo de trinta dias."),
    "uk": ("Номер рахунку", "Дата видачі", "Дякуємо за ваше замовлення. Просимо сплатити протягом тридцяти днів."),
    "ja": ("請求書番号", "発行日", "ご注文ありがとうございます。三十日以内にお支払いください。"),
}
# Words like the labels that are none of them.
_OTHERS: Final = ("Reinvoice numbers", "Rechnungsnummern", "Numéros de factures", "Factuurnummers", "請求書")
_NUMBER: Final = Words(tuple(label for label, _date, _sentence in _INVOICES.values()))


def main(arguments: Sequence[str]) -> int:
    """Print the figures; return 1 if a drawn document is judged wrongly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("../shared/corpus"))
    parser.add_argument("--list", action="store_true", help="name the files with identifiers, and what went wrong")
    parser.add_argument("--documents", type=Path, help="a folder of public documents, by language")
    options = parser.parse_args(arguments)
    if options.documents is not None:
        _show_public(options.documents, names=options.list)
        return 0
    for words in (15, 40, 150):
        _show_languages(words)
    wrong = _show_documents()
    _show_random_numbers()
    if options.folder.is_dir():
        _show_folder(options.folder, names=options.list)
    return 1 if wrong else 0


def _language(text: str) -> tuple[Language, ...]:
    return languages_of(folded(normalised(text)))


def sentences_in(folder: Path, *, translated: bool = True) -> list[str]:
    """Return the sentences of the catalogues in a folder, or the English ones that they translate."""
    found: list[str] = []
    for catalogue in sorted(folder.glob("**/*.mo")):
        with catalogue.open("rb") as file:
            texts = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]  # noqa: SLF001  (it has no other list)
        for key, text in texts.items():
            sentence = text if translated else str(key[0] if isinstance(key, tuple) else key)
            plain = " ".join(_PLACEHOLDERS.sub(" ", sentence).split())
            if key and len(plain.encode()) >= _SENTENCE_LEAST and (plain != key or not translated):
                found.append(plain)
    return list(dict.fromkeys(found))


def _pieces(sentences: Sequence[str], words: int) -> Iterator[str]:
    """Yield texts of some words each; what is longer than any word, in scripts without spaces, counts as several."""
    piece, count = list[str](), 0
    for sentence in sentences:
        piece.append(sentence)
        count += sum(1 + len(word) // _SIGNS_PER_WORD for word in sentence.split())
        if count >= words:
            yield " ".join(piece)
            piece, count = [], 0


def _show_languages(words: int) -> None:
    """Print how many texts of each length are recognised, taken for another language, and unknown."""
    root = Path(django.__file__).parent
    translated: dict[str, list[str]] = {}
    for folder in sorted([*root.glob("conf/locale/*"), *root.glob("contrib/*/locale/*")]):
        if folder.is_dir():
            translated.setdefault(folder.name, []).extend(sentences_in(folder))
    for folder in (root / "conf/locale/de", *root.glob("contrib/*/locale/de")):
        translated.setdefault("en", []).extend(sentences_in(folder, translated=False))
    known, others = dict[str, Counter[str]](), Counter[str]()
    for name, sentences in translated.items():
        code = _CODES.get(name, name)
        for piece in _pieces(sentences, words):
            found = _language(piece)
            if code in get_args(Language):
                kind = "right" if found == (code,) else "wrong" if code not in found and found else "unknown"
                known.setdefault(code, Counter())[kind if found else "unknown"] += 1
            elif "_" not in name:  # a variant of a language is no other one
                others["claimed" if found else "unknown"] += 1
                others.update(f"{name} as {each}" for each in found)
    total = sum(known.values(), Counter())
    shares = {kind: f"{count / total.total():.1%}" for kind, count in total.items()}
    print(f"languages, {words} words: {total.total()} texts in {len(known)} languages, {shares}")
    print("  least:", sorted((round(c["right"] / c.total(), 3), code, c.total()) for code, c in known.items())[:6])
    claimed = [(each, count) for each, count in others.most_common(14) if " as " in each]
    print(f"  others: {others['claimed']} of {others['claimed'] + others['unknown']} claimed, {claimed}")


def _show_documents() -> int:
    """Print how many drawn documents have the label, and in how many it, date and language are found."""
    counts: Counter[str] = Counter()
    question = Question((_NUMBER,), tuple(each[1] for each in _INVOICES.values()), (), TODAY)
    for language, (label, dated, sentence) in _INVOICES.items():
        for is_invoice in (True, False):
            lines = [sentence, f"{dated}: 12.03.2026", *([f"{label}: RE-0042"] if is_invoice else _OTHERS), sentence]
            for name, content in _drawn(lines):
                with MemoryBacked(content) as source:
                    found = answer(read_text(source, name, _EXTENT, Limits()), question)
                counts["with" if is_invoice else "without"] += 1
                counts["found" if is_invoice else "found without"] += found["found"] == [0]
                counts["dates"] += found["date"] == "2026-03-12"
                counts["languages"] += found["languages"] == [language]
                counts["other languages"] += bool(found["languages"]) and language not in found["languages"]
    print("drawn documents:", dict(counts))
    return counts["with"] - counts["found"] + counts["found without"]


def _drawn(lines: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    document, file = docx.Document(), io.BytesIO()
    for line in lines:
        document.add_paragraph(line)
    document.save(file)
    yield "a.docx", file.getvalue()
    document, file = docx.Document(), io.BytesIO()
    table = document.add_table(rows=0, cols=2)
    for line in lines:
        first, _colon, second = line.partition(": ")
        cells = table.add_row().cells
        cells[0].text, cells[1].text = first, second
    document.save(file)
    yield "table.docx", file.getvalue()
    workbook, file = openpyxl.Workbook(), io.BytesIO()
    for line in lines:
        workbook.active.append(line.split(": "))
    workbook.save(file)
    yield "a.xlsx", file.getvalue()
    slides, file = pptx.Presentation(), io.BytesIO()
    slide: Any = slides.slides.add_slide(slides.slide_layouts[1])
    slide.shapes.placeholders[1].text = "\n".join(lines)
    slides.save(file)
    yield "a.pptx", file.getvalue()
    text = "\n".join(lines)
    yield "a.txt", text.encode()
    yield "a.html", ("<html><body><p>" + "<p>".join(lines) + "</body></html>").encode()
    yield "a.rtf", ("{\\rtf1 " + "".join(_escaped(each) for each in text) + "}").encode()
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.com", "b@example.com", "?"
    mail.set_content(text)
    yield "a.eml", mail.as_bytes()


def _escaped(letter: str) -> str:
    if letter == "\n":
        return "\\par\n"
    return letter if letter.isascii() else f"\\u{ord(letter)}?"


def _show_random_numbers() -> None:
    """Print the shares of random numbers of the right form that are taken for an identifier."""
    chance = random.Random(1)  # noqa: S311  (numbers of a measurement)

    def digits(count: int) -> str:
        return f"{chance.randrange(10**count):0{count}}"

    makers: Mapping[str, tuple[Identifier, Any]] = {
        "16 digits": ("payment_card", lambda: digits(16)),
        "15 digits": ("payment_card", lambda: digits(15)),
        "DE and 20 digits": ("iban", lambda: f"DE{digits(20)}"),
        "123-45-6789": ("us_ssn", lambda: f"{digits(3)}-{digits(2)}-{digits(4)}"),
        "11 digits": ("de_tax_id", lambda: digits(11)),
    }
    for name, (kind, make) in makers.items():
        taken = sum(bool(count_identifiers(make(), (kind,))) for _ in range(_RANDOM // 10))
        print(f"random {name}: {taken / (_RANDOM // 10):.3%} are taken for {kind}")


def _show_folder(folder: Path, *, names: bool) -> None:
    """Print in how many files with text identifiers are found, their languages, and how long it takes."""
    files, found, languages = Counter[str](), Counter[str](), Counter[str]()
    times: list[float] = []
    question = Question((_NUMBER,), ("date", "issued"), ALL, TODAY)
    for path in sorted(
        each for part in ("valid", "not_blank") for each in (folder / part).glob("**/*") if each.is_file()
    ):
        began = time.process_time()
        with MemoryBacked(path.read_bytes()) as source:
            try:
                text = read_text(source, path.name, _EXTENT, Limits())
            except InspectionError:
                files["no text"] += 1
                continue
        answered = answer(text, question)
        times.append((time.process_time() - began) * 1000)
        files["text" if answered["words"] else "empty"] += 1
        found.update(answered["identifiers"].keys())
        languages.update(answered["languages"] or ["not known"])
        if names and answered["identifiers"]:
            print(path, answered["identifiers"])
    times.sort()
    print(f"{folder}: {dict(files)}, identifiers in {dict(found)} files, languages {dict(languages)}")
    print(f"ms: median {times[len(times) // 2]:.1f}, 95 % {times[len(times) * 95 // 100]:.1f}, most {times[-1]:.0f}")


def _show_public(folder: Path, *, names: bool) -> None:
    """Print precision and recall of phrases and of languages in public documents, and how many have identifiers."""
    references = _references(folder)
    phrases = {path: _phrases(text, path.name) for path, text in references.items()}
    formats, found, languages = dict[str, Counter[str]](), Counter[str](), Counter[str]()
    for path, reference in references.items():
        kind = formats.setdefault(path.suffix.lower(), Counter())
        others = [each for other in references if other.parent == path.parent != other for each in phrases[other]]
        words = f" {_spaced(reference)} "
        absent = [each for each in dict.fromkeys(others) if f" {each} " not in words and each not in words]
        random.Random(path.name).shuffle(absent)  # noqa: S311  (a choice for a measurement)
        asked = (*phrases[path], *absent[:_PHRASES])
        question = Question(tuple(Words((each,)) for each in asked), (), ALL, TODAY)
        kind["files"] += 1
        try:
            with MemoryBacked(path.read_bytes()) as source:
                text = read_text(source, path.name, _EXTENT, Limits())
        except InspectionError as error:
            kind["unread"] += 1
            print("unread:", path, error)
            continue
        answered = answer(text, question)
        hits = set(answered["found"])
        here = range(len(phrases[path]))
        kind.update(asked=len(here), found=len(hits & set(here)), wrongly=len(hits - set(here)))
        found.update(answered["identifiers"].keys())
        code, told = path.parent.name, answered["languages"]
        known = code in get_args(Language)
        outcome = "unknown" if not told else "right" if known and told[0] == code else "wrong"
        languages[f"{'known' if known else 'others'} {outcome}"] += 1
        if names and (len(hits & set(here)) < len(here) or len(hits) > len(here) or outcome == "wrong"):
            missed = [asked[number] for number in here if number not in hits]
            print(path, told, "missed", missed, "wrongly", [asked[number] for number in hits - set(here)])
        if names and answered["identifiers"]:
            print(path, answered["identifiers"])
    for suffix, counts in [*sorted(formats.items()), ("all", sum(formats.values(), Counter()))]:
        recall = counts["found"] / max(1, counts["asked"])
        precision = counts["found"] / max(1, counts["found"] + counts["wrongly"])
        print(f"{suffix}: {counts['files']} files, recall {recall:.1%}, precision {precision:.2%}, {dict(counts)}")
    print(f"languages: {dict(languages)}; identifiers in {dict(found)} files")


def _references(folder: Path) -> Mapping[Path, str]:
    """Return the texts of documents as LibreOffice and pdftotext read them; the latter reads slides drawn as PDF."""
    files = sorted(path for path in folder.glob("*/*") if path.is_file())
    texts: dict[Path, str] = {}
    with tempfile.TemporaryDirectory() as name:
        made = dict[Path, Path]()
        for form, suffixes in (("txt:Text (encoded):UTF8", _WRITTEN), ("pdf", _SHOWN)):
            copies: list[str] = []
            for number, path in enumerate(each for each in files if each.suffix.lower() in suffixes):
                copy = Path(name, f"{form[:3]}{number}{path.suffix.lower()}")
                copy.write_bytes(path.read_bytes())
                made[path] = copy.with_suffix(f".{form[:3]}")
                copies.append(str(copy))
            step = 20 if suffixes is _WRITTEN else 1
            for at in range(0, len(copies), step):
                profile = f"-env:UserInstallation=file://{name}/profile"
                command = ["soffice", profile, "--headless", "--convert-to", form, "--outdir", name]
                with contextlib.suppress(subprocess.TimeoutExpired):
                    subprocess.run([*command, *copies[at : at + step]], check=False, capture_output=True, timeout=200)
        for path in files:
            known = made.get(path, path)
            if known.suffix.lower() == ".pdf" and known.is_file():
                read = subprocess.run(["pdftotext", "-l", "50", str(known), "-"], check=False, capture_output=True)
                texts[path] = read.stdout.decode(errors="replace")
            elif known.is_file():
                texts[path] = known.read_bytes().decode(errors="replace")
    return {path: text for path, text in texts.items() if len(text.split()) >= _PHRASES}


def _spaced(text: str) -> str:
    return compact(folded(normalised(text)))


def _phrases(text: str, name: str) -> Sequence[str]:
    """Return some phrases of two words, or of five signs, that stand on one line."""
    found: list[str] = []
    for line in text.splitlines():
        pairs = re.findall(r"(?<!\S)([^\W\d_]{3,} [^\W\d_]{3,})(?!\S)", line)
        signs = re.findall("[\u3041-\u30fa\u4e00-\u9fff]{5}", line)
        found += [_spaced(each) for each in (pairs[:1] or signs[:1])]
    found = list(dict.fromkeys(found))
    random.Random(name).shuffle(found)  # noqa: S311  (a choice for a measurement)
    return found[:_PHRASES]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The languages that a text is written in, by its script and its most frequent words."""
# A table of some thirty words a language is enough for a paragraph of prose. Tables, addresses and lists of goods have
# few of them: of such a text the language is not known, and no rule fails by it.

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from sluice_inspect.text_questions import Language


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_FREQUENT: Final[Mapping[Language, frozenset[str]]] = {
    "en": _words("the of and to in is that for it with as was be by on not this are from at which or an your you have "
        "has will we our their his her its been were please any all if they would shall may can"),
    "de": _words("der die das und ist nicht ein eine einen einem einer zu den von mit sich des auf für im dem auch als "
        "es an werden aus er hat dass sie nach wird bei sind noch wie über zum zur oder durch wir ihre ihr ich bitte"),
    "fr": _words("le la les et des est un une du en que qui dans pour pas au aux sur ce cette avec il elle par plus ne "
        "se sont nous vous votre notre ou mais leur être été ont sa son ses ces d l qu n c s"),
    "es": _words("el la los las de que y en un una es por con no para del se su al lo como más o pero sus le ha este "
        "esta son entre cuando muy sin sobre ser también fue nos usted hasta hay donde desde todo"),
    "it": _words("il lo la gli le di che e è un una per non in con del della dei delle nel nella al alla da dal si "
        "sono ha come più anche ma se questo questa ai i dell suo sua essere ci ed o degli l"),
    "nl": _words("de het een en van is dat op te in voor met niet zijn aan er om ook als dan maar uit bij naar worden "
        "wordt door deze dit heeft hij ze u uw wij je of kan nog over tot geen die"),
    "pl": _words("i w na z się nie do że jest to o jak po za od dla przez oraz są przy lub co tym tego jego jej ich "
        "być był była może czy ale tylko który która które pan pani ze także przed proszę"),
    "pt": _words("o a os as de que e do da em um uma para com não por no na se dos das é ao mais como mas foi à ou ser "
        "sua seu pela pelo são até isso ele ela você também já nos está aos nas"),
    "tr": _words("ve bir bu da de için ile olarak daha çok olan en gibi ya veya ne ki kadar sonra değil var her ise o "
        "tarafından olduğu ben biz siz onun göre şu ancak mi hem ama yeni ait bulunan"),
    "cs": _words("a se v na je že z do s to o i ve za pro jako po by ale k jsou byl od při nebo tak jeho který která "
        "které jsme než už ze však také podle aby bude jen jsem není této mezi co"),
    "da": _words("og i at det er en til af på for med den der de som ikke et har om han fra men var vi sig jeg kan "
        "efter ved eller være blev også deres skal hvor når denne dette"),
    "sv": _words("och i att det som en på är av för med den till inte har de om ett han men var jag sig från vi så kan "
        "när eller även efter hade under vid också sin detta skulle ska kommer alla"),
    "ro": _words("și de în la cu a pe că o nu din un este care pentru se mai sau ca prin fi au sunt după între fost "
        "lui acest această dar al ale unei unui fără cele poate prin către"),
    "ru": _words("и в не на что с по как это из у за от о для к при его все или был она он мы вы бы только также до ее "
        "их если быть этого который которые было же может ваш"),
    "uk": _words("і в не на що з по як це із у за від для та до при його або був вона він ми ви також їх якщо бути "
        "який які було же може є й але про цього під після чи ваш наш"),
}  # fmt: skip
# Letters that one of these languages alone writes often: a word with one counts as a frequent word.
_LETTERS: Final[tuple[tuple[Language, re.Pattern[str]], ...]] = (
    ("cs", re.compile("[ěřů]")),
    ("de", re.compile("ß")),
    ("es", re.compile("ñ")),
    ("pl", re.compile("[ąćęłńśźż]")),
    ("pt", re.compile("[ãõ]")),
    ("ro", re.compile("[ășț]")),
    ("ru", re.compile("[ыэё]")),
    ("tr", re.compile("[ğış]")),
    ("uk", re.compile("[іїєґ]")),
)
# The words that most texts in these languages have.
FREQUENT_WORDS: Final = frozenset().union(*_FREQUENT.values())
# Letters that are not of a language. A text with many of them is in a related one: Hungarian, Croatian, Bulgarian.
_FOREIGN: Final[Mapping[str, re.Pattern[str]]] = {
    **{
        language: re.compile(f"[^a-z{letters}]")
        for language, letters in {
            "cs": "áčďéěíňóřšťúůýž", "da": "æøåé", "de": "äöüß", "en": "é", "es": "áéíóúüñ", "fr": "àâæçéèêëîïôœùûüÿ",
            "it": "àèéìíîòóùú", "nl": "áéèëíïóöü", "pl": "ąćęłńóśźż", "pt": "áâãàçéêíóôõúü", "ro": "ăâîșțşţ",
            "sv": "åäöé", "tr": "çğıöşüâîû",
        }.items()
    },
    "ru": re.compile("[\u0452-\u04ff]"),
    "uk": re.compile("[ыэёъўјљњћђџ]"),
}  # fmt: skip
# Letters of scripts, of which each has one language here, or none that is known.
_SCRIPTS: Final[tuple[tuple[Language, re.Pattern[str]], ...]] = (
    ("ko", re.compile("[\uac00-\ud7a3]")),
    ("ja", re.compile("[\u3041-\u309f\u30a1-\u30fa]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u05d0-\u05ea]")),
    ("ar", re.compile("[\u0621-\u064a\u066e-\u06d3]")),
    ("hi", re.compile("[\u0904-\u0939]")),
)
_JAPANESE_SHARE: Final = 0.05  # of kana among the signs of a text with Chinese characters
# Letters and words of other languages in the same script: Persian, Urdu, Kurdish, Uyghur; Marathi and Nepali.
_NOT_ARABIC: Final = re.compile(
    "[\u067e\u0686\u0698\u06af\u06a9\u06cc\u06d2\u0679\u0688\u0691\u06d0\u06c6\u06c7\u06d5]"
)
_HINDI_WORDS: Final = _words("है हैं के में की का को से और पर यह नहीं ने कि भी एक हो था थे लिए कर")
_WORD: Final = re.compile(r"[^\W\d_]+")
_MARKS: Final = re.compile(r"[^\s.,;:!?()।]+")

_PART: Final = 800  # characters; each part of a text has a language
_PARTS_MOST: Final = 100
_HITS_LEAST: Final = 4  # frequent words
_DIFFERENT_LEAST: Final = 3  # among them
_LISTED_LEAST: Final = 2  # different ones of the table
_SHARE_LEAST: Final = 0.14  # of the words of a part
_LEAD: Final = 1.15  # over the second language
_SIGNS_LEAST: Final = 8
_FOREIGN_MOST: Final = 0.03  # of the words of a part
_OF_FIRST: Final = 0.25  # of the parts in the most frequent language
_KNOWN_LEAST: Final = 0.25  # of all parts


def languages_of(text: str) -> tuple[Language, ...]:
    """Return the languages of a normalised text without case, the most frequent first; none if they are not known.

    A language is one of them if it has a quarter as many parts of the text as the most frequent one. None is known if
    less than a quarter of the text is in known ones, as the small print of a page in another language.
    """
    step = max(_PART, len(text) // _PARTS_MOST)
    found = Counter(
        language for at in range(0, len(text), step) if (language := _language_of(text[at : at + _PART])) is not None
    )
    if found.total() * step < _KNOWN_LEAST * len(text):
        return ()
    return tuple(language for language, count in found.most_common() if count >= _OF_FIRST * max(found.values()))


def _language_of(part: str) -> Language | None:
    counts = {language: len(letters.findall(part)) for language, letters in _SCRIPTS}
    words = _WORD.findall(part)
    others = sum(map(len, words))
    signs = counts["zh"] + counts["ja"]
    if signs >= _SIGNS_LEAST and 2 * signs >= others:
        return "ja" if counts["ja"] > _JAPANESE_SHARE * signs else "zh"
    language = max(counts, key=lambda each: counts[each])
    if counts[language] >= _SIGNS_LEAST and 2 * counts[language] >= others:
        if language == "ar":
            return None if len(_NOT_ARABIC.findall(part)) > counts["ar"] // 50 else "ar"
        if language == "hi":
            return "hi" if sum(word in _HINDI_WORDS for word in _MARKS.findall(part)) >= _HITS_LEAST else None
        return language
    return _by_words(words)


def _by_words(words: list[str]) -> Language | None:
    hits = Counter(words)
    scores = Counter({language: sum(hits[word] for word in frequent) for language, frequent in _FREQUENT.items()})
    different = Counter({language: len(frequent & hits.keys()) for language, frequent in _FREQUENT.items()})
    for language, letters in _LETTERS:
        marked = [word for word in words if letters.search(word) and word not in _FREQUENT[language]]
        scores[language] += len(marked)
        different[language] += len(set(marked))
    (best, score), (_other, second) = scores.most_common(2)
    is_clear = score >= max(_HITS_LEAST, _SHARE_LEAST * len(words), _LEAD * second)
    is_listed = len(_FREQUENT[best] & hits.keys()) >= _LISTED_LEAST and different[best] >= _DIFFERENT_LEAST
    if not (is_clear and is_listed):
        return None
    foreign = sum(_FOREIGN[best].search(word) is not None for word in words)
    return best if foreign <= _FOREIGN_MOST * len(words) else None

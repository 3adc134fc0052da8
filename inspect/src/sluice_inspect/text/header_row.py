"""Whether a row is the heading of a table, by what columns are usually called: any row of words may be data."""

import re
from collections.abc import Sequence
from typing import Final

_WORD: Final = re.compile(r"[A-ZÄÖÜÉ]?[a-zäöüßéèêáíóúñç]+|[A-ZÄÖÜÉ]+(?![a-z])")

# What spreadsheets and exports call their columns, in English, German, French and Spanish.
_COLUMN_WORDS: Final = frozenset(
    """
    account active address adresse age amount année anzahl apellido article artikel author balance begin bemerkung
    beschreibung betrag bezeichnung bic birth birthday body cantidad category city ciudad class client code col
    color colour column comment comments company content correo cost count country county created currency customer
    date datetime datum day deleted department depth desc description direccion dirección discount distance district
    dob due duration einheit email enabled end fax fecha fee field file filename firma first firstname flag folder
    forename from full gender gross group guid height iban id idx importe index invoice item jour key kind kunde
    label land lang language last lastname lat latitude length link lng locale login lon longitude mail menge
    message middle mobile modified mois montant month nachname name names net nickname no nom nombre note notes nr
    num number nummer order organisation organization ort owner parent password path pays percent percentage phone
    plz position postal postcode precio preis prenom price prix product province prénom qty quantite quantity
    quantité rank rate rating ratio rechnung ref reference region remark remarks role row score sex size sku source
    speed start state status strasse straße street subject subtotal sum summe supplier surname tag tags target tax
    team tel telefono telephone teléfono temperature text time timestamp title total town typ type uid unit units
    until updated uri url user username uuid value values vat vendor version ville volume vorname website week
    weight wert width year zeit zip zipcode
    """.split()  # noqa: SIM905  (three hundred quoted words are harder to read)
)


def is_heading(cells: Sequence[str]) -> bool:
    """Return whether a row is plainly a heading: two or more different texts without a digit, mostly column words."""
    texts = [cell.strip() for cell in cells]
    if len(texts) < 2 or not all(texts) or len(set(texts)) < len(texts):
        return False
    if any(character.isdigit() for text in texts for character in text):
        return False
    return sum(map(_is_column_name, texts)) * 2 > len(texts)


def _is_column_name(text: str) -> bool:
    words = _WORD.findall(text)
    return 0 < len(words) <= 5 and any(word.lower() in _COLUMN_WORDS for word in words)

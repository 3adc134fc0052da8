"""Odd documents that other XML readers resolve: whatever they would load from outside is refused."""

from tests.inspection.formats.xml_documents import READERS, document, is_accepted
from tests.rows import each_row
from tests.run_length import amount

CASES = amount("XML_DOCUMENTS", short=3_000, full=60_000)


@each_row("reader", list(READERS))
def test_accepted_documents_lead_no_reader_outside(reader: str) -> None:
    harmed = {number: READERS[reader](data).harm() for number in range(CASES) if (data := document(number))}
    outside = [number for number, harm in harmed.items() if harm]
    assert len(outside) > CASES / 50, "the generator makes nothing that this reader loads"
    assert {number: harmed[number] for number in outside if is_accepted(document(number))} == {}

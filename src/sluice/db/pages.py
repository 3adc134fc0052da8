"""Reading one numbered page of a long list, newest first. What is on the list, and how long it is, the callers say (see `counts`)."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, select

from sluice.db.types import AnyRow, Connection
from sluice.kit.paging import PageRequest


async def rows_of_page(
    connection: Connection,
    shown: Sequence[Column[Any]],
    wanted: Sequence[ColumnElement[bool]],
    request: PageRequest,
    total: int,
) -> Sequence[AnyRow]:
    """Answer the columns `shown` of a page of the `total` rows that are `wanted`, sorted by their primary key, the newest first.

    What is before the page is passed over in an index that holds nothing else, from whichever end is nearer; only the page's own rows
    are then read.
    """
    (key,) = shown[0].table.primary_key
    held = min(request.page_size, total - request.offset)
    if held <= 0:
        return ()
    after = total - request.offset - held
    from_newest = request.offset <= after
    ids = select(key).where(*wanted).order_by(key.desc() if from_newest else key.asc()).limit(held)
    page = ids.offset(request.offset if from_newest else after).subquery()
    query = select(*shown).join(page, page.c[key.name] == key).order_by(key.desc())
    return (await connection.execute(query)).all()

"""A shared amount that several may hold parts of at once, as a bound on memory. What is held, and how much, the callers say."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Budget:
    """An amount, handed out first come first served: a large part is not passed by small ones for ever."""

    def __init__(self, amount: int) -> None:
        self._amount = amount
        self._left = amount
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def has(self, part: int) -> bool:
        """Say whether `part` of the amount could be had at once."""
        return not self._waiting and min(part, self._amount) <= self._left

    @asynccontextmanager
    async def hold(self, part: int) -> AsyncIterator[None]:
        """Hold `part` of the amount until the block ends, waiting for it as long as it takes; more than there is is all of it."""
        part = min(part, self._amount)
        await self._take(part)
        try:
            yield
        finally:
            self._give_back(part)

    async def _take(self, part: int) -> None:
        if not self._waiting and part <= self._left:
            self._left -= part
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((part, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(part)  # it was handed over at the moment in which nobody wanted it any more
            else:
                self._hand_out()  # it may have stood before smaller ones
            raise

    def _give_back(self, part: int) -> None:
        self._left += part
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting:
            part, turn = self._waiting[0]
            if not turn.cancelled():
                if part > self._left:
                    return
                self._left -= part
                turn.set_result(None)
            self._waiting.popleft()

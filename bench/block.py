"""Block of a page that a program writes, between two comments: the rest of the page is people's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """What a program makes of a page.

    Attributes:
        program: module that makes it.
        heading: heading under which it stands on a page that has none yet.
    """

    program: str
    heading: str

    @property
    def begin(self) -> str:
        """Comment before it."""
        return f"<!-- made by {self.program} -->"

    @property
    def end(self) -> str:
        """Comment after it."""
        return f"<!-- end of what {self.program} made -->"

    def insert_into(self, page: str, made: str) -> str:
        """The page with ``made`` in the place of what stood there; at its end if it has no such block."""
        block = f"{self.begin}\n{made}\n{self.end}"
        if self.begin in page:
            return page[: page.index(self.begin)] + block + page[page.index(self.end) + len(self.end) :]
        return f"{page.rstrip()}\n\n## {self.heading}\n\n{block}\n"

"""Definition that a process looks at time and again: loaded anew only when its files have changed.

The triggerer looks twice a minute at each pipeline that waits for files. To read a definition of seven tables takes ten
milliseconds, and to ask whether its files are the same a fraction of one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sluicegate.definition.reading.loader import load

if TYPE_CHECKING:
    from sluicegate.definition.pipeline.model import Pipeline
    from sluicegate.settings import Settings


class Reloaded:
    """The definition of a pipeline, as its files have it now; not for several threads at a time.

    Args:
        name: name of the pipeline and of its folder.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._made_of: Any = None
        self._pipeline: Pipeline | None = None

    def load(self, settings: Settings) -> Pipeline:
        """Return the pipeline, as the same object as before if none of its files has changed.

        Raises:
            PipelineMissing: there is no such pipeline.
            DefinitionError: its definition has mistakes; it is read again at the next call.
        """
        # Before it is read: what changes meanwhile makes another state of files, and is read the next time.
        state = self._definition_state(settings)
        if self._pipeline is None or state != self._made_of:
            self._pipeline = None
            self._pipeline, self._made_of = load(self.name, settings), state
        return self._pipeline

    def _definition_state(self, settings: Settings) -> Any:
        """Return settings, variables that its texts may name, and state of all files of its folder.

        The time of a file's last change of any kind is among its facts: a tool that puts back the time of a file's
        content, as ``rsync --times`` does, cannot put back that.
        """
        facts: list[Any] = []
        for folder, _, files in os.walk(settings.pipelines / self.name, followlinks=True):
            for file in files:
                path = os.path.join(folder, file)
                try:
                    it = os.stat(path)
                except OSError:  # it has just gone, or is a link to nothing
                    facts.append((path, None))
                else:
                    facts.append((path, (it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns)))
        return settings, settings.given, dict(os.environ), sorted(facts)

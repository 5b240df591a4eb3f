"""``sluicegate completion``: let a shell complete commands, options and pipeline names."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

VARIABLE = "_SLUICEGATE_COMPLETE"
"""Environment variable by which a shell asks for completions."""


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the shell script that completes commands, options and pipeline names.

    Put `eval "$(sluicegate completion bash)"` into ~/.bashrc, the same with zsh into ~/.zshrc after compinit; for fish
    write the output to ~/.config/fish/completions/sluicegate.fish.

    Example: sluicegate completion bash
    """
    from typer._completion_shared import get_completion_script

    sys.stdout.write(get_completion_script(prog_name="sluicegate", complete_var=VARIABLE, shell=shell) + "\n")


def prepare() -> None:
    """Register the shells that completion supports."""
    from typer._completion_classes import completion_init

    completion_init()

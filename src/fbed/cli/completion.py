"""`fbed completion`: a script that makes a shell complete commands, options and files.

The script is written from the parser of the command line, once. Pressing Tab then starts no Python, which would take
longer than typing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fbed.families import FAMILIES
from fbed.rules.criteria import OWNED
from fbed.tables.missing import MISSING

_EXAMPLES = """\
examples:
  fbed completion bash > ~/.local/share/bash-completion/completions/fbed
  fbed completion zsh > "${fpath[1]}/_fbed"
  fbed completion fish > ~/.config/fish/completions/fbed.fish
  source <(fbed completion bash)      for this shell only"""


@dataclass(frozen=True)
class Option:
    """An option of a command: its spellings, whether a value follows, and what the value may be."""

    spellings: tuple[str, ...]
    takes_value: bool
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True)
class Command:
    """A subcommand."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...]  # that may stand without an option


VALUES: dict[str, tuple[str, ...]] = {
    "family": ("auto", *FAMILIES),
    "criterion": tuple(OWNED),
    "missing": MISSING,
    "test": ("lr", "score", "wald"),
    "cov": ("HC3", "cluster"),
    "link": ("identity", "log", "logit", "probit"),
    "encoding": ("utf-8", "latin-1", "cp1252"),
}
"""What options may be given whose values are free text to the parser, since errors about them are told elsewhere."""


def add_parser(commands: Any, whole: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the command to those of a parser, whose options it will complete."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="a script that makes bash, zsh or fish complete this command",
        description="Print a script that makes a shell complete commands, options and files.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=list(_SCRIPTS), help="the shell")

    def run(arguments: argparse.Namespace) -> int:
        print(script(arguments.shell, whole))
        return 0

    parser.set_defaults(run=run)
    return parser


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for a shell."""
    return _SCRIPTS[shell](list(_commands(parser)))


def _commands(parser: argparse.ArgumentParser) -> Iterator[Command]:
    for action in parser._actions:  # argparse has no public way to list what was added
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                yield Command(name, helps.get(name, ""), tuple(_options(sub)), tuple(_words(sub)))


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            choices = tuple(map(str, action.choices or VALUES.get(action.dest, ())))
            yield Option(tuple(action.option_strings), action.nargs != 0, choices, action.help or "")


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if not action.option_strings:
            yield from map(str, action.choices or ())


# -- bash ------------------------------------------------------------------------------------------------------------


def _bash(commands: list[Command]) -> str:
    cases = "\n".join(f"    {command.name}) {_bash_case(command)} ;;" for command in commands)
    return f"""\
# bash completion for fbed
_fbed() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words= choices=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(command.name for command in commands)} --help --version" -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  if [ -n "$choices" ]; then
    COMPREPLY=($(compgen -W "$choices" -- "$word"))
  elif [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  fi
}}
complete -o default -F _fbed fbed"""


def _bash_case(command: Command) -> str:
    spelt = " ".join(spelling for option in command.options for spelling in option.spellings)
    lines = [f'words="{spelt}"']
    if command.words:
        lines.append(f'choices="{" ".join(command.words)}"')
    chosen = [option for option in command.options if option.choices]
    if chosen:
        inner = " ".join(f'{"|".join(o.spellings)}) choices="{" ".join(o.choices)}" ;;' for o in chosen)
        lines.append(f'case "$before" in {inner} esac')
    return "; ".join(lines)


# -- zsh -------------------------------------------------------------------------------------------------------------


def _zsh(commands: list[Command]) -> str:
    listed = "\n".join(f"    {_quoted(f'{command.name}:{_plain(command.help)}')}" for command in commands)
    cases = "\n".join(f"    {command.name}) _arguments {_zsh_arguments(command)} ;;" for command in commands)
    return f"""\
#compdef fbed
_fbed() {{
  local -a commands
  commands=(
{listed}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command="$words[2]"
  shift words
  (( CURRENT-- ))
  case "$command" in
{cases}
  esac
}}
if [ "$funcstack[1]" = "_fbed" ]; then _fbed "$@"; else compdef _fbed fbed; fi"""


def _zsh_arguments(command: Command) -> str:
    parts = []
    for option in command.options:
        for spelling in option.spellings:
            values = f"({' '.join(option.choices)})" if option.choices else "_files"
            after = f":value:{values}" if option.takes_value else ""
            parts.append(_quoted(f"{spelling}[{_plain(option.help)}]{after}"))
    words = f"({' '.join(command.words)})" if command.words else "_files"
    return " ".join([*parts, _quoted(f"*:word:{words}")])


# -- fish ------------------------------------------------------------------------------------------------------------


def _fish(commands: list[Command]) -> str:
    lines = ["# fish completion for fbed"]
    for command in commands:
        first = f"-n __fish_use_subcommand -f -a {command.name}"
        lines.append(f"complete -c fbed {first} -d {_quoted(_plain(command.help))}")
    for command in commands:
        here = f"-n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            flags = " ".join(f"-l {s[2:]}" if s.startswith("--") else f"-s {s[1:]}" for s in option.spellings)
            value = (
                f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r" if option.takes_value else ""
            )
            lines.append(f"complete -c fbed {here} {flags}{value} -d {_quoted(_plain(option.help))}")
        if command.words:
            lines.append(f"complete -c fbed {here} -f -a {_quoted(' '.join(command.words))}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Help without what the shells would take for syntax."""
    return "".join(ch for ch in text.replace("%%", "%") if ch not in "[]:\\'\"`$")


def _quoted(text: str) -> str:
    return f"'{text}'"


_SCRIPTS: dict[str, Callable[[list[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

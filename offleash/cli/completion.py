"""Shell completion: `offleash completion bash` prints a script, which asks `offleash __complete` at every TAB.

The candidates come from the declarations of the public functions, so they can never be stale. Where there are none, the
shell completes files.
"""

from collections.abc import Sequence

from offleash.cli.verbs import GROUPS, VERBS
from offleash.errors import OffleashError, unknown
from offleash.signatures import Option, describe

GLOBAL_WORDS = ("--help", "--version", "completion")
COMMON_OPTIONS = ("--json", "--help")  # every verb has these options

SCRIPTS: dict[str, str] = {
    "bash": """\
_offleash() {
    local IFS=$'\\n'
    COMPREPLY=($(compgen -W "$(offleash __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- \
"${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _offleash offleash
# to use it now and in every shell: echo 'eval "$(offleash completion bash)"' >> ~/.bashrc""",
    "zsh": """\
_offleash() {
    local -a found
    found=("${(@f)$(offleash __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[*]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _offleash offleash
# to use it now and in every shell: echo 'eval "$(offleash completion zsh)"' >> ~/.zshrc, after compinit""",
    "fish": """\
complete -c offleash -a '(offleash __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
# to use it in every shell: offleash completion fish > ~/.config/fish/completions/offleash.fish""",
}


def completion_script(shell: str) -> str:
    """The script of a shell, to be evaluated by it."""
    if not shell or shell.startswith("-"):
        raise OffleashError('completion needs a shell: bash, zsh or fish. Run: eval "$(offleash completion bash)".')
    if shell not in SCRIPTS:
        raise unknown("shell with completion", shell, SCRIPTS)
    return SCRIPTS[shell]


def candidates(words: Sequence[str]) -> list[str]:
    """What the last of the words typed after `offleash` may become; nothing where it is a file or free text.

    >>> candidates(["stu"])
    ['study']
    >>> candidates(["lab", "m"])
    ['model']
    >>> candidates(["report", "a", "b", "--format", ""])
    ['html', 'md', 'latex']
    """
    *before, typed = words or [""]
    if not before:
        known = [*dict.fromkeys(name.partition(" ")[0] for name in VERBS), *GLOBAL_WORDS]
        return [name for name in known if name.startswith(typed)]
    if before == ["completion"]:
        return [shell for shell in SCRIPTS if shell.startswith(typed)]
    if len(before) == 1 and before[0] in GROUPS:
        known = [name.partition(" ")[2] for name in VERBS if name.startswith(f"{before[0]} ")]
        return [name for name in known if name.startswith(typed)]
    verb = VERBS.get(" ".join(before[:2])) or VERBS.get(before[0])
    return [] if verb is None else _verb_completions(verb.load(), before[len(verb.name.split()) :], typed)


def _verb_completions(function: object, before: Sequence[str], typed: str) -> list[str]:
    """Options of a verb, the choices of the option before, or the names of figures."""
    assert callable(function)
    options = list(describe(function).options.values())
    last = next((option for option in options if before and before[-1] in (option.name, option.flag.short)), None)
    if last is not None and last.kind != "switch":
        return [choice for choice in last.flag.choices if choice.startswith(typed)]
    if typed.startswith("-"):
        names = [name for option in options for name in _names(option)]
        return [name for name in (*names, *COMMON_OPTIONS) if name.startswith(typed)]
    if describe(function).verb == "figure" and not before:
        from offleash.api.compare import FIGURES

        return [name for name in FIGURES if name.startswith(typed)]
    return []


def _names(option: Option) -> list[str]:
    is_on_by_default = option.kind == "switch" and option.default is True
    return [option.name, *([f"--no-{option.name[2:]}"] if is_on_by_default else [])]

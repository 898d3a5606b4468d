"""`wakeful completion`: the scripts, and what bash makes of one."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from wakeful.cli import COMMANDS, main
from wakeful.cli.completing import SHELLS, everything, script_for

BASH = shutil.which("bash")


def completed(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    script = script_for("bash")
    typed = " ".join(f"'{one}'" for one in ("wakeful", *words))
    code = f'{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words)}; _wakeful; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run([str(BASH), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
def test_bash_completes_commands_words_and_options():
    assert completed("circ") == ["circuits"]
    assert completed("circuits", "cl") == ["close"]
    assert completed("circuits", "close", "--n") == ["--note"]
    assert completed("circuits", "--of", "shop", "close", "--pl") == ["--plan"]
    assert completed("circuits", "--pl") == []
    assert completed("serve", "--po") == ["--port"]


def test_every_command_is_completed_in_every_shell(capsys):
    assert set(everything()) == set(COMMANDS)
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        script = capsys.readouterr().out
        assert all(name in script for name in COMMANDS)
    assert main(["completion", "tcsh"]) == 2
    assert 'no shell "tcsh"' in capsys.readouterr().err

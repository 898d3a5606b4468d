"""The command line, made from a noun that declares everything."""

from __future__ import annotations

import pytest

from surface.toy import YARD


def test_the_noun_alone_lists(shell):
    said = shell("pets")
    assert [one.split() for one in said.out.splitlines()[:3]] == [
        ["pet", "state", "meals", "born", "title"],
        ["rex", "awake", "0", *said.out.splitlines()[1].split()[3:]],
        ["tom", "asleep", "0", *said.out.splitlines()[2].split()[3:]],
    ]
    assert said.out.splitlines()[-1] == "more pets: --after 2"
    assert shell("pets", "list", "--limit", "9").out.splitlines()[0].split()[:2] == ["pet", "app"]


def test_json_is_what_http_answers(shell):
    answer = shell("pets", "--json", "--limit", "1").json
    assert list(answer) == ["pets", "next", "herd"]
    assert answer["next"] == "1"
    assert shell("pets", "show", "tom", "--json").json["state"] == "asleep"


def test_filters(shell):
    assert [one["name"] for one in shell("pets", "--state", "asleep", "--json").json["pets"]] == ["tom"]
    assert [one["app"] for one in shell("pets", "--of", "farm", "--good", "--json").json["pets"]] == ["farm"]
    assert shell("pets", "--of", "moon").out == "no pets of moon\n"


def test_the_word_may_stand_behind_options(shell):
    assert shell("pets", "--json", "show", "tom").json["name"] == "tom"
    assert shell("pets", "--of", "farm", "show", "rex", "--json").json["app"] == "farm"
    assert shell("pets", "--of=farm", "--json", "show", "rex").json["app"] == "farm"


def test_one_is_shown_in_words_of_its_own(shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = shell("pets", "show", "tom").out.splitlines()
    assert lines[0].startswith("asleep  tom  born ")
    assert all(one.startswith("  ") for one in lines[1:4])
    assert lines[-2].split() == ["meal", "what"]


def test_a_second_reading(shell):
    assert shell("pets", "naps", "tom", "--of", "zoo").out == "sleeps at []\n"
    assert shell("pets", "naps", "rex", "-n", "3", "--of", "zoo", "--json").json == {"hours": [1, 2, 3]}


def test_a_verb_says_what_it_did_and_who_did_it(shell):
    words = ("give", "rex", "--of", "zoo", "--weight", "2kg")
    assert shell("pets", *words).out == "rex had 2\n"
    fed = shell("pets", *words, "--note", "late", "--as", "ada", "--food", '{"hay": 1}', "--json").json
    assert fed == {"name": "rex", "meals": 4, "by": "ada", "way": "cli", "note": "late"}
    assert YARD.done[-1] == ("feed", "rex", 2, {"hay": 1})


def test_a_plan_changes_nothing(shell):
    words = ("give", "rex", "--of", "zoo", "--weight", "2kg", "--plan")
    assert shell("pets", *words).out == "it would have 2\n"
    assert shell("pets", *words, "--json").json == {"would_have": 2}
    assert YARD.done == []


def test_a_verb_of_the_collection(shell):
    assert shell("pets", "adopt", "kim").out == "kim is here\n"
    assert shell("adopt", "kit").out == "kit is here\n"


def test_an_alias_is_its_verb_or_another_word_without_a_key(shell):
    assert shell("feed", "rex", "--of", "farm", "--weight", "1kg").out == "rex had 1\n"
    assert shell("feed", "--json").json["herd"] == 3
    assert shell("feed", "--help").out.startswith("usage: wakeful feed [NAME]")


def test_many_at_once(shell):
    assert shell("pets", "wash", "--all", "--plan").out == "would wash 3 pets at 50/s\n"
    assert shell("pets", "wash", "--all", "--plan", "--json").json == {"pets": 3, "until": "now"}
    assert shell("pets", "wash", "--all", "--soap", "foam", "--rate", "max").out == "washed 3 pets\n"
    assert {soap for *_, soap in YARD.done} == {"foam"}
    assert shell("pets", "wash", "--state", "asleep", "--json").json == {
        "washed": 1,
        "of": 1,
        "stopped": False,
        "until": "now",
    }
    assert shell("pets", "wash", "tom").out == "tom is clean\n"


def test_many_are_confirmed(shell, monkeypatch):
    monkeypatch.setattr("wakeful.shell.carrying.MANY", 2)
    assert "3 pets are more than 2: add --yes" in shell("pets", "wash", "--all", code=2).err
    assert shell("pets", "wash", "--all", "--yes").out == "washed 3 pets\n"


def test_what_only_people_do_is_not_for_programs_of_a_run(shell, monkeypatch):
    monkeypatch.setenv("WAKEFUL_RUN_ID", "abcdef")
    assert "cannot wash a pet" in shell("pets", "wash", "tom", code=1).err


def test_the_code_of_an_app(shell, tmp_path):
    assert "needs the code of an app" in shell("pets", "call", "tom", code=2).err
    (tmp_path / "app.py").write_text('from wakeful import App\napp = App("zoo")\n')
    assert shell("pets", "call", "tom").out == "tom comes\n"
    (tmp_path / "other.py").write_text('from wakeful import App\napp = App("moon")\n')
    assert 'there is no pet "tom"' in shell("pets", "call", "tom", "other.py", code=1).err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("gives", "rex"), 2, 'there is no "pets gives". Did you mean "give"?'),
        (
            ("show",),
            2,
            "pets takes list, or show, naps, give, rename or adopt and a NAME, or call NAME [APP], or wash [NAME]",
        ),
        (("list", "rex"), 2, "list"),
        (("show", "rx"), 1, 'there is no pet "rx". Did you mean "rex"? See `wakeful pets`'),
        (("show", "rex"), 2, "pet rex is in several apps: choose one with --of NAME"),
        (("give", "tom"), 2, "give takes --weight and how much, like: --weight 2kg"),
        (("give", "tom", "--weight", "two"), 2, "pets: --weight: 'two' is no weight: write 2kg"),
        (("give", "tom", "--weight", "2kg"), 1, "pet tom is asleep"),
        (("show", "tom", "--weight", "2kg"), 2, "--weight is for give, not for show"),
        (("--stat", "asleep"), 2, 'pets: there is no option "--stat". Did you mean "--state"?'),
        (("--state", "aslep"), 2, 'pets: --state: no state "aslep". Did you mean "asleep"?'),
        (("--limit", "0"), 2, 'pets: --limit: "0" is not a whole number from 1 to 500'),
        (("--after", "x"), 2, "--after: not a cursor of this listing"),
        (("wash",), 2, "pets wash takes a NAME, or for many at once --state, --all"),
        (
            ("wash", "tom", "--all"),
            2,
            "--state, --all and --plan are for many pets: leave out either the NAME or these options",
        ),
        (("wash", "--state", "asleep", "--rate", "x"), 2, "'x' is not a rate"),
    ],
)
def test_called_the_wrong_way(shell, words, code, said):
    found = shell("pets", *words, code=code)
    assert said in found.err
    assert found.err.count("\n") == 1


def test_a_word_has_help_of_its_own(shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    noun, give = shell("pets", "--help").out, shell("pets", "give", "--help").out
    assert noun.startswith("usage: wakeful pets [COMMAND] [options]")
    assert all(f"  {word}" in noun for word in ("list", "show NAME", "give NAME", "wash [NAME]", "call NAME [APP]"))
    assert "--state" in noun
    assert give.startswith("usage: wakeful pets give NAME [options]")
    assert "--weight WEIGHT" in give
    assert "--state" not in give
    assert max(map(len, (noun + give).splitlines())) <= 80

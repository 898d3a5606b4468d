from __future__ import annotations

import signal

import httpx2

APP = """
from wakeful import App, Run, on

app = App("{name}")


@app.agent(on("a"))
async def first(run: Run) -> None: ...
"""


def test_code_is_loaded_again_when_it_changes_and_errors_change_nothing(folder, start):
    file = folder / "app.py"
    file.write_text(APP.format(name="before"))
    dev = start("dev", "app.py", "--port", "0")
    url = dev.wait_for(r"serving before on (http://\S+)")[1]

    file.write_text("def broken(:\n")
    line = dev.wait_for("SyntaxError").string
    assert line == "wakeful: app.py:1: SyntaxError: invalid syntax: def broken(: (still serving the previous code)"
    assert httpx2.get(f"{url}/healthz", trust_env=False).status_code == 200

    file.write_text(APP.format(name="after"))
    assert dev.wait_for(r"serving after on (http://\S+)")[1] == url
    assert httpx2.get(f"{url}/readyz", trust_env=False).status_code == 200

    (folder / "helper.py").write_text("x = 1\n")
    dev.wait_for("helper.py changed")
    dev.wait_for("serving after on")

    dev.signal(signal.SIGINT)
    assert dev.end() == 0
    assert dev.output.endswith("wakeful: stopped")


def test_an_app_that_is_broken_from_the_start(folder, start):
    file = folder / "app.py"
    file.write_text("1 / 0\n")
    dev = start("dev", "app.py", "--port", "0")
    dev.wait_for(r"app.py:1: ZeroDivisionError: division by zero \(waiting for a change\)")
    file.write_text(APP.format(name="mended"))
    dev.wait_for("serving mended on")
    dev.signal(signal.SIGTERM)
    assert dev.end() == 0


def test_a_child_that_dies_is_told(folder, start):
    file = folder / "app.py"
    file.write_text(APP.format(name="dying").replace("...", "\n    import os; os._exit(7)"))
    dev = start("dev", "app.py", "--port", "0")
    url = dev.wait_for(r"serving dying on (http://\S+)")[1]
    httpx2.post(f"{url}/v1/events", json={"id": "1", "source": "/t", "type": "a"}, trust_env=False)
    dev.wait_for("the app's process ended with code 7; waiting for a change")
    file.write_text(APP.format(name="living"))
    dev.wait_for("serving living on")
    dev.signal(signal.SIGINT)
    assert dev.end() == 0


def test_the_child_ends_with_dev_even_when_dev_is_killed(folder, start):
    (folder / "app.py").write_text(APP.format(name="orphan"))
    dev = start("dev", "app.py", "--port", "0")
    url = dev.wait_for(r"serving orphan on (http://\S+)")[1]
    dev.signal(signal.SIGKILL)
    # The child holds the other ends of our pipes: they close when it is gone, and only then does this return.
    assert dev.end() == -signal.SIGKILL
    try:
        answer = httpx2.get(f"{url}/healthz", trust_env=False)
    except httpx2.HTTPError:
        answer = None
    assert answer is None

"""email(): what a mail server gets, and what becomes of a delivery whatever the server does at any point of the exchange."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from support.mail_servers import Failing, MailServer, says_that_it_may_be_repeated
from support.messages import NOWHERE, message
from support.tls import Authority
from wakeful import App, Run, env, on
from wakeful.channels import Sent, email
from wakeful.errors import ConfigError, NotSent, Persistent, Transient
from wakeful.output.channels.email import Email
from wakeful.output.verdicts import certainly_not_sent
from wakeful.runtime import Runtime
from wakeful.testing.ports import free_port

SENDER = "Wakeful <wakeful@example.com>"
PASSWORD = "correct horse battery staple 9"


def to_server(port: int, scheme: str = "smtp", **options: Any) -> Email:
    return email(
        f"{scheme}://localhost:{port}", **{"sender": SENDER, "to": "ops@example.com", "allow_private": True, **options}
    )


async def deliver(channel: Email, *messages: Any) -> list[Sent]:
    await channel.open(NOWHERE)
    try:
        return await channel.deliver(messages or [message()])
    finally:
        await channel.close()


async def failure(channel: Email, *messages: Any) -> BaseException:
    with pytest.raises(Exception) as caught:
        await deliver(channel, *messages)
    return caught.value


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path, "ours")


class TestAnEmail:
    async def test_has_the_words_of_the_message(self):
        async with MailServer() as server:
            channel = to_server(server.port, to=["Öps <ops@example.com>", "on-call@example.org"])
            words = "späť\r\n.\r\nQUIT\n..two dots\nFrom here on\r" + "x" * 2_000
            (sent,) = await deliver(channel, message("0f9e", words, subject="Bestellung №7 ist spät", urgent=True))
        (email_,), (envelope,) = server.emails, server.envelopes
        assert email_["Subject"] == "Bestellung №7 ist spät"
        assert email_.get_content().splitlines() == ["späť", ".", "QUIT", "..two dots", "From here on", "x" * 2_000]
        assert email_.get_content_type() == "text/plain"
        assert (email_["From"], email_["To"]) == (SENDER, "Öps <ops@example.com>, on-call@example.org")
        assert (envelope.mail_from, envelope.rcpt_tos) == (
            "wakeful@example.com",
            ["ops@example.com", "on-call@example.org"],
        )
        assert email_["Date"].datetime == datetime(2026, 1, 1, tzinfo=UTC)
        assert (email_["Auto-Submitted"], email_["Importance"]) == ("auto-generated", "high")
        assert sent == Sent("<0f9e@example.com> queued as 4XyZ12")

    async def test_is_the_same_at_every_try_except_for_a_word_in_doubt(self):
        async with MailServer() as server:
            first = message("0f9e", "späť", thread="ticket/1")
            await deliver(to_server(server.port), first)
            await deliver(to_server(server.port), message("0f9e", "späť", thread="ticket/1", tries=2))
            await deliver(to_server(server.port), message("0f9e", "späť", thread="ticket/1", tries=3, doubtful=True))
        before, again, doubtful = (one.content for one in server.envelopes)
        assert before == again
        assert server.ids == ["<0f9e@example.com>"] * 3
        assert [says_that_it_may_be_repeated(one) for one in server.emails] == [False, False, True]
        assert doubtful != again

    async def test_shows_a_body_that_is_no_text_as_json(self):
        async with MailServer() as server:
            await deliver(to_server(server.port), message("a", {"pages": [1, "é"]}), message("b", {"text": "hello"}))
        first, second = server.emails
        assert json.loads(first.get_content()) == {"pages": [1, "é"]}
        assert (second.get_content(), second["Subject"]) == ("hello\r\n", "hello")

    async def test_that_is_long_says_that_it_was_cut(self):
        async with MailServer() as server:
            await deliver(to_server(server.port), message(body="ü" * 110_000))
        (one,) = server.emails
        words = one.get_content().replace("\r\n", "\n").removesuffix("\n")
        assert len(words) == 100_000
        assert words.endswith("(cut here: the message is longer than this service takes)")

    async def test_of_a_thread_refers_to_its_root(self):
        async with MailServer() as server:
            messages = [message(name, thread=thread) for name, thread in (("a", "t/1"), ("b", "t/1"), ("c", "t/2"))]
            await deliver(to_server(server.port), *messages, message("d"))
            await deliver(to_server(server.port), message("e", thread="t/1", app="other"))
        roots = [one["References"] for one in server.emails]
        assert [one["In-Reply-To"] for one in server.emails] == roots
        assert roots[0] == roots[1]
        assert roots[3] is None
        assert len(set(roots)) == 4
        assert roots[0].startswith("<")
        assert roots[0].endswith("@example.com>")
        assert not set(roots) & set(server.ids)

    @pytest.mark.parametrize(
        "ending", ["\r\n", "\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\0", "\ud800", "\r\n\r\n"]
    )
    async def test_has_no_headers_of_those_who_write_it(self, ending: str):
        bad = f"7{ending}Bcc: eve@example.net{ending}{ending}x"
        async with MailServer() as server:
            await deliver(to_server(server.port), message(f"id{bad}", bad, subject=bad, thread=bad))
        (one,), (envelope,) = server.emails, server.envelopes
        assert one["Bcc"] is None
        assert envelope.rcpt_tos == ["ops@example.com"]
        assert "Bcc: eve@example.net" in one["Subject"]
        assert "Bcc: eve@example.net" in one.get_content()
        assert not {"\r", "\n", "\0", "\x0b"} & set(one["Subject"])

    async def test_of_a_long_domain_has_ids_that_can_be_read(self):
        domain = ".".join(["a" * 60] * 3) + ".com"
        async with MailServer() as server:
            await deliver(to_server(server.port, sender=f"wakeful@{domain}"), message("0f9e", thread="t"))
        (one,) = server.emails
        assert one["Message-ID"] == f"<0f9e@{domain}>"
        assert one["References"].endswith(f"@{domain}>")
        assert "=?" not in one["References"]


class TestEvidence:
    @pytest.mark.parametrize(
        ("answer", "identifier"),
        [
            ("250 2.0.0 Ok: queued as 4XyZ12", "<a@example.com> queued as 4XyZ12"),
            ("250 OK id=1rZ-0004-Ab", "<a@example.com> queued as 1rZ-0004-Ab"),
            ("250 OK", "<a@example.com>"),
        ],
    )
    async def test_is_the_id_of_the_email_and_of_the_queue(self, new_app: NewApp, answer: str, identifier: str):
        async with MailServer() as server:
            server.answer = answer
            async with working(telling(new_app(channels={"ops": to_server(server.port)}))) as runtime:
                run = await go(runtime, "a")
        (one,) = run["deliveries"]
        assert one["state"] == "delivered"
        assert one["evidence"] == {"id": identifier.replace("<a@", f"<{one['id']}@"), "url": None}
        assert server.ids == [f"<{one['id']}@example.com>"]
        assert server.emails[0]["Date"].datetime == datetime.fromisoformat(run["finished_at"]).replace(microsecond=0)


class TestEncryption:
    @pytest.mark.parametrize("scheme", ["smtp+starttls", "smtps"])
    async def test_and_a_login(self, authority: Authority, monkeypatch: pytest.MonkeyPatch, scheme: str):
        monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
        tls = authority.server("localhost")
        # aiosmtpd itself offers a login only after STARTTLS, or with none at all
        async with MailServer(tls=tls, at_once=scheme == "smtps", login=("ops", PASSWORD)) as server:
            channel = to_server(server.port, scheme, ca_file=authority.file, user="ops", password=env("MAIL_PASSWORD"))
            await deliver(channel, message("a"))
        assert server.ids == ["<a@example.com>"]
        (session,) = server.sessions
        assert session.authenticated
        assert (session.ssl is not None) == (scheme == "smtp+starttls")

    @pytest.mark.parametrize("scheme", ["smtp+starttls", "smtps"])
    @pytest.mark.parametrize("wrong", ["name", "authority", "system"])
    async def test_is_with_the_right_server_only(self, authority: Authority, tmp_path: Path, scheme: str, wrong: str):
        theirs = Authority.make(tmp_path, "theirs")
        tls = (theirs if wrong == "authority" else authority).server(
            "elsewhere.example" if wrong == "name" else "localhost"
        )
        async with MailServer(tls=tls, at_once=scheme == "smtps") as server:
            channel = to_server(server.port, scheme, ca_file=None if wrong == "system" else authority.file)
            error = await failure(channel)
        assert isinstance(error, NotSent)
        assert "CERTIFICATE_VERIFY_FAILED" in str(error)
        assert server.emails == []

    async def test_that_the_server_does_not_offer_is_not_done_without(self):
        async with MailServer() as server:
            error = await failure(to_server(server.port, "smtp+starttls"))
        assert isinstance(error, Persistent)
        assert "the server offers no STARTTLS, so nothing was sent" in str(error)
        assert server.emails == []

    async def test_takes_nothing_that_came_before_it(self):
        """Text after the answer to STARTTLS, in one packet with it, would be read as the first answers of the encrypted connection."""
        commands = []
        over = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 mail.example.com\r\n")
            commands.append(await reader.readline())
            writer.write(b"250-mail.example.com\r\n250 STARTTLS\r\n")
            commands.append(await reader.readline())
            writer.write(b"220 go on\r\n250 forged\r\n250 forged\r\n")
            commands.append(await reader.read())
            writer.close()
            over.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            error = await failure(to_server(server.sockets[0].getsockname()[1], "smtp+starttls"))
            await over.wait()
        assert isinstance(error, NotSent)
        assert "text before the encryption began" in str(error)
        assert commands == [b"EHLO example.com\r\n", b"STARTTLS\r\n", b""]


class TestALogin:
    async def test_that_is_wrong_is_a_dead_letter_and_shows_no_password(
        self,
        new_app: NewApp,
        authority: Authority,
        caplog: pytest.LogCaptureFixture,
        capsys: pytest.CaptureFixture[str],
    ):
        async with MailServer(tls=authority.server("localhost"), login=("ops", "another")) as server:
            channel = to_server(server.port, "smtp+starttls", ca_file=authority.file, user="ops", password=PASSWORD)
            async with working(telling(new_app(channels={"ops": channel}))) as runtime:
                run = await go(runtime, "a")
                alarms = await runtime.reader.alarms(state="open")
        (one,) = run["deliveries"]
        assert one["state"] == "dead"
        assert "AUTH: the server answered 535 " in one["error"]["message"]
        shown = json.dumps([run, alarms, channel.describe()], default=str) + caplog.text + "".join(capsys.readouterr())
        assert PASSWORD not in shown + repr(channel)

    async def test_by_the_older_way(self):
        said = []
        over = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for answer in [
                "220 old",
                "250-old\r\n250 AUTH=LOGIN",
                "334 VXNlcm5hbWU6",
                "334 UGFzc3dvcmQ6",
                "235 ok",
                "550 enough",
            ]:
                writer.write(f"{answer}\r\n".encode())
                said.append((await reader.readline()).decode().strip())
            writer.close()
            over.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            error = await failure(to_server(port, user="ops", password="pass"))
            await over.wait()
        assert isinstance(error, Persistent)
        assert said == ["EHLO example.com", "AUTH LOGIN", "b3Bz", "cGFzcw==", "MAIL FROM:<wakeful@example.com>", ""]

    async def test_that_the_server_does_not_know_is_not_done_without(self):
        async with Failing("", "") as server:
            error = await failure(to_server(server.port, user="ops", password="pass"))
        assert isinstance(error, Persistent)
        assert "offers no way to log in that is known here (PLAIN, LOGIN); it offers: none" in str(error)
        assert server.emails == []

    async def test_that_is_missing_is_heard_of_at_the_start(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.delenv("MAIL_PASSWORD", raising=False)
        channel = to_server(587, user="ops", password=env("MAIL_PASSWORD"), ca_file=tmp_path / "none.pem")
        password, file = channel.missing()
        assert password.startswith("email(smtp://localhost:587), password: the environment variable MAIL_PASSWORD")
        assert "ca_file" in file
        assert "cannot be read as certificates" in file
        with pytest.raises(ConfigError, match="MAIL_PASSWORD is not set"):
            await channel.open(NOWHERE)


class TestRecipients:
    async def test_get_all_of_it_or_nothing(self):
        async with MailServer() as server:
            server.refuses = {"b@example.com": "450 greylisted", "c@example.com": "550 no such user"}
            channel = to_server(server.port, to=[f"{one}@example.com" for one in "abc"])
            error = await failure(channel)
            assert isinstance(error, Persistent), "one that will never be taken counts more than one for later"
            assert "RCPT c@example.com: the server answered 550 no such user" in str(error)
            del server.refuses["c@example.com"]
            error = await failure(channel)
            assert isinstance(error, NotSent)
            assert "RCPT b@example.com: the server answered 450 greylisted" in str(error)
            assert server.emails == []
            server.refuses = {}
            await deliver(channel)
        assert [len(one.rcpt_tos) for one in server.envelopes] == [3]


BEFORE = ["greeting", "EHLO", "MAIL", "RCPT", "DATA"]
AGAIN = ("pending", False, "delivered", 1)
DEAD = ("dead", False, "dead", 0)
ROWS = [
    # where, what the server does there, on_doubt: state, in doubt, state later, emails
    *((at, "drop", "repeat", *AGAIN) for at in BEFORE),
    *((at, "drop", "hold", *AGAIN) for at in BEFORE),
    *((at, "451 later", "hold", *AGAIN) for at in BEFORE),
    *((at, "550 never", "repeat", *DEAD) for at in BEFORE),
    *((at, "hello?", "hold", *AGAIN) for at in BEFORE),
    ("DATA", "250 what", "hold", *AGAIN),
    ("dot", "drop", "repeat", "pending", True, "delivered", 2),
    ("dot", "drop", "hold", "unknown", True, "unknown", 1),
    ("dot", "hello?", "hold", "unknown", True, "unknown", 1),
    ("dot", "354 what", "hold", "unknown", True, "unknown", 1),
    ("dot", "451 later", "hold", "pending", False, "delivered", 2),  # an answer: the first one was not taken
    ("dot", "550 never", "hold", "dead", False, "dead", 1),
    ("QUIT", "drop", "hold", "delivered", False, "delivered", 1),
    ("QUIT", "550 never", "hold", "delivered", False, "delivered", 1),
]


@pytest.mark.parametrize(("at", "how", "on_doubt", "state", "doubt", "later", "emails"), ROWS)
async def test_what_becomes_of_a_delivery(
    new_app: NewApp, at: str, how: str, on_doubt: Any, state: str, doubt: bool, later: str, emails: int
):
    async with Failing(at, how) as server:
        channel = to_server(server.port, on_doubt=on_doubt)
        async with working(telling(new_app(channels={"ops": channel}))) as runtime:
            run = await go(runtime, "a")
            one = await delivery(runtime, run["id"])
            assert (one["state"], one["doubt_at"] is not None if state != "delivered" else False) == (state, doubt)
            assert server.failed.is_set()
            await pass_time(runtime)
            one = await delivery(runtime, run["id"])
    assert one["state"] == later
    assert server.connections == (2 if (state, later) == ("pending", "delivered") else 1)
    assert len({each["Message-ID"] for each in server.emails}) <= 1
    assert len(server.emails) == emails
    expected = [False, doubt][:emails]
    assert [says_that_it_may_be_repeated(each) for each in server.emails] == expected


class TestInTheText:
    """Long enough that it is still on its way when the server fails."""

    LONG = b"Subject: long\r\n\r\n" + b"x\r\n" * 5_000_000

    @pytest.mark.parametrize(("how", "kind"), [("drop", NotSent), ("552 too long", Persistent), ("421 later", NotSent)])
    async def test_nothing_was_taken(self, monkeypatch: pytest.MonkeyPatch, how: str, kind: type[Exception]):
        monkeypatch.setattr("wakeful.output.channels.email.write", lambda *_: self.LONG)
        async with Failing("text", how) as server:
            error = await failure(to_server(server.port), message())
        assert type(error) is kind
        assert ": the text: " in str(error)
        assert "nothing was sent" in str(error)
        assert server.emails == []


async def test_a_message_that_cannot_be_written_is_no_doubt(monkeypatch: pytest.MonkeyPatch):
    def write(*_: Any) -> bytes:
        raise ValueError("a mistake")

    monkeypatch.setattr("wakeful.output.channels.email.write", write)
    async with Failing("", "") as server:
        error = await failure(to_server(server.port))
    assert isinstance(error, Persistent)
    assert "the message cannot be written as an email: a mistake; nothing was sent" in str(error)
    assert server.connections == 0


class TestNoAnswer:
    @pytest.mark.parametrize("at", ["greeting", "RCPT"])
    async def test_before_the_dot_nothing_was_sent(self, at: str):
        async with Failing(at, "hang") as server:
            error = await failure(to_server(server.port, timeout="500ms"))
        assert isinstance(error, NotSent)
        assert "no answer within 500 ms; nothing was sent" in str(error)

    async def test_after_the_dot_it_is_in_doubt(self):
        async with Failing("dot", "hang") as server:
            error = await failure(to_server(server.port, timeout="1s"))
        assert type(error) is Transient
        assert "after the final dot: no answer within 1 s; the message may have been taken" in str(error)
        assert not certainly_not_sent(error)
        assert len(server.emails) == 1

    async def test_the_limits_of_the_exchange_end_before_that_of_the_call(self):
        assert to_server(25, timeout="30s").timeout == 65

    async def test_a_delivery_that_is_given_up_closes_its_connection(self):
        async with Failing("dot", "hang") as server:
            channel = to_server(server.port)
            task = asyncio.ensure_future(channel.deliver([message()]))
            await server.failed.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await deliver(channel) == [Sent("<0f9e11ba70@example.com> queued as 7Abc")]
        assert server.connections == 2

    async def test_nobody_there(self):
        error = await failure(to_server(free_port()))
        assert isinstance(error, NotSent)
        assert "localhost cannot be reached" in str(error)


class TestOddServers:
    async def test_what_it_says_is_shown_in_one_line(self):
        async with Failing("MAIL", "550-no\r\n550 \x1b[31m" + "y" * 3_000) as server:
            said = str(await failure(to_server(server.port)))
        assert f"email(smtp://localhost:{server.port}): MAIL: the server answered 550 no �[31myyy" in said
        assert said.isprintable()
        assert len(said) < 2_200

    @pytest.mark.parametrize("endless", ["250-" + "x" * 200_000, "250-x\r\n" * 30_000], ids=["line", "lines"])
    async def test_an_answer_without_end_is_not_read_to_it(self, endless: str):
        async with Failing("EHLO", endless) as server:
            error = await failure(to_server(server.port))
        assert isinstance(error, NotSent)
        assert "EHLO" in str(error)
        assert len(str(error)) < 2_200


class TestWhereItMayGo:
    async def test_not_to_this_machine_by_any_name(self):
        async def loopback(host: str, port: int) -> list[str]:
            return ["127.0.0.1"]

        async with MailServer() as server:
            channel = Email(
                f"smtps://mail.example.com:{server.port}", sender=SENDER, to="ops@example.com", resolve=loopback
            )
            error = await failure(channel)
        assert isinstance(error, Persistent)
        assert "mail.example.com (127.0.0.1) is a loopback address; nothing is sent there" in str(error)
        assert server.sessions == []


def telling(app: App) -> App:
    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("ops", run.event.data)

    return app


async def delivery(runtime: Runtime, run: str) -> dict[str, Any]:
    found = await runtime.reader.run(run)
    assert found is not None
    (one,) = found["deliveries"]
    return one

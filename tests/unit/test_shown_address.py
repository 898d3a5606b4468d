from __future__ import annotations

import pytest

from wakeful.errors import ConfigError
from wakeful.settings import shown_store, sqlite_path
from wakeful.shown_address import shown_address


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:s3cret@db/ops", "postgresql://ada:…@db/ops"),
        ("postgresql://:s3cret@db/ops", "postgresql://:…@db/ops"),
        ("postgresql://ada:12345@db/ops", "postgresql://ada:…@db/ops"),
        ("postgresql://ada:s3@cr/et?@db:5432/ops", "postgresql://ada:…@db:5432/ops"),
        (
            "postgresql://ada@db/ops?password=s3cret&sslmode=require",
            "postgresql://ada@db/ops?password=…&sslmode=require",
        ),
        ("postgresql:///ops?host=/run&PASSWORD=s3cret", "postgresql:///ops?host=/run&PASSWORD=…"),
        ("postgresql://db/ops?sslpassword=s3cret&passfile=/s3cret", "postgresql://db/ops?sslpassword=…&passfile=…"),
        ("https://h.example/x?api_key=s3cret#access_token=s3cret", "https://h.example/x?api_key=…#access_token=…"),
        ("https://h.example/x?X-Amz-Signature=s3cret&day=1", "https://h.example/x?X-Amz-Signature=…&day=1"),
        ("postgresql://ada:123/s3cret@db:5432/ops", "postgresql://ada:…@db:5432/ops"),
        ("postgresql://ada:123?s3cret@db", "postgresql://ada:…@db"),
        ("https://s3cret@h.example/x@y", "https://…@h.example/x@y"),
        ("HTTP://s3c@r:et@h.example:80", "HTTP://…@h.example:80"),
        ("https://ada:s3cret@h.example", "https://ada:…@h.example"),
        ("postgresql://[ada:s3cret@db", "postgresql://[ada:…@db"),
        ("postgresql://ada@db/ops", "postgresql://ada@db/ops"),
        ("sqlite:////tmp/a:b@c.db", "sqlite:////tmp/a:b@c.db"),
        ("postgresql://db:5432/ops", "postgresql://db:5432/ops"),
        ("http://127.0.0.1:8765/path@x", "http://127.0.0.1:8765/path@x"),
    ],
)
def test_what_could_be_a_secret_is_hidden(url, shown):
    assert shown_address(url) == shown_store(url) == shown


@pytest.mark.parametrize(
    "url", ["postgresl://ada:s3cret@db/ops", "postgresql://ada:s3cret@[db/ops", "sqlite://ada:s3cret@/x"]
)
def test_an_address_that_cannot_be_used_is_refused_without_its_password(url):
    with pytest.raises(ConfigError, match="write sqlite") as caught:
        sqlite_path(url)
    assert "s3cret" not in str(caught.value)

"""Access to Amazon's services, or to compatible servers: credentials, address, and errors in one line.

Credentials come from the usual places (environment, ~/.aws, the role of the machine), or are named: access_key=env(…).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from wakeful.errors import ConfigError
from wakeful.secrets import Env, Secret, reveal
from wakeful.triggers.source import SourceTrouble

CONNECT_WITHIN = 5
ANSWER_WITHIN = 40  # longer than a queue's longest wait for messages
TRIES = 2
USUAL_REGION = "us-east-1"

_CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY where this process is started, give the machine a role, "
    "or name them: access_key=env(…), secret_key=env(…)"
)
_REMEDIES = {
    "NoSuchBucket": "there is no such bucket: create it, or correct the name",
    "QueueDoesNotExist": "there is no such queue: create it, or correct its name and region",
    "InvalidAccessKeyId": f"the service does not know the access key: {_CREDENTIALS}",
    "InvalidClientTokenId": f"the service does not know the access key: {_CREDENTIALS}",
    "UnrecognizedClientException": f"the service does not know the access key: {_CREDENTIALS}",
    "SignatureDoesNotMatch": f"the secret key does not belong to the access key: {_CREDENTIALS}",
    "ExpiredToken": "the credentials have expired: renew them where this process is started",
    "ExpiredTokenException": "the credentials have expired: renew them where this process is started",
    "RequestTimeTooSkewed": "this machine's clock is wrong: set it, for example with NTP",
    "PermanentRedirect": "the bucket is in another region: give it as region=",
    "AuthorizationHeaderMalformed": "the bucket is in another region: give it as region=",
    "301": "the bucket is in another region: give it as region=",
    "SlowDown": "too many requests; retrying more slowly. Raise every= if this continues",
    "RequestThrottled": "too many requests; retrying more slowly",
    "ThrottlingException": "too many requests; retrying more slowly",
}
_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "AllAccessDisabled", "AuthorizationError", "403"})


@dataclass(frozen=True, slots=True)
class Access:
    """Credentials and address. It shows no secret."""

    region: str | None = None
    endpoint: str | None = None
    access_key: Secret | None = field(default=None, repr=False)
    secret_key: Secret | None = field(default=None, repr=False)

    def check(self, where: str) -> None:
        """Raise ConfigError for mistakes that can be seen without asking the service."""
        for name in ("region", "endpoint"):
            given = cast("object", getattr(self, name))
            if given is not None and (not isinstance(given, str) or not given.strip()):
                message = f"{where}: {name} must be text, not {given!r}"
                raise ConfigError(message)
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            message = f'{where}: endpoint must be an address like "http://127.0.0.1:9000", not {self.endpoint!r}'
            raise ConfigError(message)
        for name in ("access_key", "secret_key"):
            given = cast("object", getattr(self, name))
            if given is not None and (not isinstance(given, str | Env) or not given):
                message = f'{where}: {name} must name a secret, like env("AWS_SECRET_ACCESS_KEY")'
                raise ConfigError(message)
        if (self.access_key is None) != (self.secret_key is None):
            message = f"{where}: access_key and secret_key belong together: give both, or neither"
            raise ConfigError(message)


@contextlib.asynccontextmanager
async def client(service: str, access: Access, *, where: str) -> AsyncIterator[Any]:
    """A client of one service for the duration of the block."""
    try:
        # Loading reads megabytes of descriptions, which must not block the event loop.
        session = await asyncio.to_thread(_session, service)
    except ImportError:
        message = f'{where}: support for Amazon\'s services is not installed: pip install "wakeful[s3]"'
        raise ConfigError(message) from None
    from aiobotocore.config import AioConfig

    options: dict[str, Any] = {
        "region_name": access.region or session.get_config_variable("region") or USUAL_REGION,
        "endpoint_url": access.endpoint,
        "config": AioConfig(
            connect_timeout=CONNECT_WITHIN,
            read_timeout=ANSWER_WITHIN,
            retries={"max_attempts": TRIES, "mode": "standard"},
            # Other servers than Amazon's have one name, with the bucket in the path.
            s3={"addressing_style": "auto" if access.endpoint is None else "path"},
        ),
    }
    if access.access_key is not None and access.secret_key is not None:
        options["aws_access_key_id"] = reveal(access.access_key, needed_by=where)
        options["aws_secret_access_key"] = reveal(access.secret_key, needed_by=where)
    async with session.create_client(service, **options) as found:
        yield found


def _session(service: str) -> Any:
    from aiobotocore.session import get_session

    session = get_session()
    session.get_component("data_loader").load_service_model(service, "service-2")
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=moment)
    return session


def moment(value: Any) -> datetime:
    """Parse a time in an answer. The library tries every format of a date, which is most of the cost of a long listing; nearly all
    times have this one.
    """
    if isinstance(value, str) and value[10:11] == "T" and value.endswith("Z"):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(value)
    from botocore.utils import parse_timestamp

    told: datetime = parse_timestamp(value)
    return told


@contextlib.contextmanager
def in_words(where: str, needs: str) -> Iterator[None]:
    """Turn errors inside into SourceTrouble with the remedy. `needs` names the permissions that are required."""
    try:
        yield
    except ConfigError:
        raise  # it already says what to do, and the package that `remedy` needs may be what is missing
    except Exception as error:
        words = remedy(error, needs)
        if words is None:
            raise
        message = f"{where}: {words}"
        raise SourceTrouble(message) from error


def remedy(error: Exception, needs: str) -> str | None:
    """The problem and what to do; None for an error that is not from the service."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        answer = error.response.get("Error", {})
        code = str(answer.get("Code", ""))
        if code in _DENIED:
            return f"not allowed: grant {needs} to the account of this process"
        # The older protocol of SQS puts a prefix before the name.
        known = _REMEDIES.get(code.rpartition(".")[2].replace("NonExistentQueue", "QueueDoesNotExist"))
        return known or f"the server refused it ({code or 'no code'}): {answer.get('Message') or error}"
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return f"there are no credentials: {_CREDENTIALS}"
    if isinstance(error, exceptions.ProfileNotFound | exceptions.CredentialRetrievalError):
        return f"the credentials are not available ({error}): {_CREDENTIALS}"
    if isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError):
        return f"the server cannot be reached ({error}): check that it runs and that region= and endpoint= are right"
    if isinstance(error, exceptions.BotoCoreError):
        return str(error)
    return None

"""S3 and SQS for tests: moto's server on loopback, which speaks both and sends the one's notifications to the other.

It is an emulator: what it does is what the two services document, as far as it goes. It is loaded by those who ask for it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from moto.server import ThreadedMotoServer

REGION = "eu-west-1"
ACCOUNT = "123456789012"
KEYS = {"access_key": "made", "secret_key": "up"}
_numbers = itertools.count(1)


@dataclass
class Cloud:
    """One server. `where` is what a trigger is told of it."""

    server: ThreadedMotoServer
    port: int
    session: Any = field(repr=False)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def where(self) -> dict[str, Any]:
        return {"endpoint": self.endpoint, "region": REGION, **KEYS}

    @contextlib.asynccontextmanager
    async def client(self, service: str) -> AsyncIterator[Any]:
        async with self.session.create_client(
            service,
            region_name=REGION,
            endpoint_url=self.endpoint,
            aws_access_key_id="made",
            aws_secret_access_key="up",
        ) as found:
            yield found

    async def new_bucket(self, *, versioned: bool = False) -> Box:
        name = f"box-{next(_numbers)}"
        async with self.client("s3") as s3:
            await s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
            if versioned:
                await s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        return Box(self, name)

    async def new_queue(self, *, visibility: int = 30) -> Line:
        name = f"line-{next(_numbers)}"
        async with self.client("sqs") as sqs:
            made = await sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": str(visibility)})
        return Line(self, name, made["QueueUrl"])

    def stop(self) -> None:
        self.server.stop()

    def start(self) -> None:
        """Again, on the same port, with everything that was in it."""
        from moto.server import ThreadedMotoServer

        self.server = ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self.server.start()


@dataclass(frozen=True)
class Box:
    """A bucket."""

    cloud: Cloud
    name: str

    async def put(self, *keys: str, body: bytes = b"x") -> None:
        async with self.cloud.client("s3") as s3:
            for key in keys:
                await s3.put_object(Bucket=self.name, Key=key, Body=body)

    async def delete(self, *keys: str) -> None:
        async with self.cloud.client("s3") as s3:
            for key in keys:
                await s3.delete_object(Bucket=self.name, Key=key)

    def put_at_once(self, keys: list[str]) -> None:
        """Many objects, past HTTP: the server stands in this process."""
        from moto.s3.models import s3_backends

        backend = s3_backends[ACCOUNT]["aws"]
        for key in keys:
            backend.put_object(self.name, key, b"x")

    async def tells(self, line: Line) -> None:
        """From now on its notifications go to a queue."""
        async with self.cloud.client("s3") as s3:
            await s3.put_bucket_notification_configuration(
                Bucket=self.name,
                NotificationConfiguration={
                    "QueueConfigurations": [
                        {
                            "QueueArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{line.name}",
                            "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"],
                        }
                    ]
                },
            )


@dataclass(frozen=True)
class Line:
    """A queue."""

    cloud: Cloud
    name: str
    url: str

    @property
    def address(self) -> str:
        return f"sqs://{REGION}/{self.name}"

    async def send(self, *messages: Any) -> None:
        async with self.cloud.client("sqs") as sqs:
            for at in range(0, len(messages), 10):
                entries = [
                    {"Id": str(number), "MessageBody": one if isinstance(one, str) else json.dumps(one)}
                    for number, one in enumerate(messages[at : at + 10])
                ]
                await sqs.send_message_batch(QueueUrl=self.url, Entries=entries)

    async def receive(self) -> list[Any]:
        """Take what is there off the queue: what somebody else sees of it."""
        async with self.cloud.client("sqs") as sqs:
            answer = await sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
            return list(answer.get("Messages", []))

    async def left(self) -> tuple[int, int]:
        """How many messages wait, and how many somebody has and has not deleted."""
        async with self.cloud.client("sqs") as sqs:
            answer = await sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])
        told = answer["Attributes"]
        return int(told["ApproximateNumberOfMessages"]), int(told["ApproximateNumberOfMessagesNotVisible"])


@pytest.fixture(scope="session")
def shared_cloud() -> Iterator[Cloud]:
    from aiobotocore.session import get_session
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    cloud = Cloud(server, port, get_session())
    yield cloud
    cloud.stop()


@pytest.fixture
def cloud(shared_cloud: Cloud) -> Cloud:
    return shared_cloud

"""Channels, where users find them: `from wakeful.channels import http`. What each does is in `output/channels/`."""

from wakeful.output.channels.base import Channel, Message
from wakeful.output.channels.event import event
from wakeful.output.channels.file import file
from wakeful.output.channels.http import http
from wakeful.output.channels.log import log

__all__ = ["Channel", "Message", "event", "file", "http", "log"]

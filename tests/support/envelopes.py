"""Messages of Debezium's connectors and of AWS DMS, in the forms that their documentation shows."""

from __future__ import annotations

from typing import Any


def postgres(number: int = 1, op: str = "c", **more: Any) -> dict[str, Any]:
    row = {"id": number, "status": "new", "total": 10 * number}
    envelope: dict[str, Any] = {
        "before": None,
        "after": row,
        "source": {
            "version": "3.1.0.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": 1767225600123,
            "ts_us": 1767225600123456,
            "ts_ns": 1767225600123456000,
            "snapshot": "false",
            "db": "sales",
            "sequence": '["24023119","24023128"]',
            "schema": "public",
            "table": "orders",
            "txId": 555,
            "lsn": 24023128 + number,
            "xmin": None,
        },
        "op": op,
        "ts_ms": 1767225600999,
        "transaction": None,
    }
    if op == "d":
        envelope |= {"before": {"id": number, "status": None, "total": None}, "after": None}
    if op == "u":
        envelope |= {"before": row | {"status": "old"}}
    if op == "r":
        envelope["source"] |= {"snapshot": "true"}
    envelope["source"] |= more
    return envelope


def mysql(number: int = 1, op: str = "u") -> dict[str, Any]:
    return {
        "before": {"id": number, "email": "a@example.org"},
        "after": {"id": number, "email": "b@example.org"},
        "source": {
            "version": "3.1.0.Final",
            "name": "mysql-1",
            "connector": "mysql",
            "server_id": 223344,
            "ts_ms": 1767225600000,
            "snapshot": "false",
            "db": "inventory",
            "table": "customers",
            "gtid": None,
            "file": "mysql-bin.000003",
            "pos": 484,
            "row": 0,
            "thread": 7,
            "query": None,
        },
        "op": op,
        "ts_ms": 1767225601000,
    }


def sqlserver() -> dict[str, Any]:
    return {
        "before": None,
        "after": {"id": 1005, "name": "Ada"},
        "source": {
            "version": "3.1.0.Final",
            "connector": "sqlserver",
            "name": "server1",
            "ts_ms": 1767225600000,
            "snapshot": "false",
            "db": "testDB",
            "schema": "dbo",
            "table": "customers",
            "change_lsn": "00000027:00000758:0003",
            "commit_lsn": "00000027:00000758:0005",
            "event_serial_no": 1,
        },
        "op": "c",
        "ts_ms": 1767225601000,
    }


def mongodb(op: str = "u") -> dict[str, Any]:
    return {
        "before": None,
        "after": None if op == "d" else '{"_id": {"$oid": "597e37537449762dee72168a"}, "first_name": "Anne"}',
        "updateDescription": {
            "removedFields": ["nick"],
            "updatedFields": '{"first_name": "Anne"}',
            "truncatedArrays": None,
        },
        "source": {
            "version": "3.1.0.Final",
            "connector": "mongodb",
            "name": "fulfillment",
            "ts_ms": 1767225600000,
            "snapshot": False,
            "db": "inventory",
            "collection": "customers",
            "ord": 6,
            "lsid": None,
            "txnNumber": None,
            "wallTime": None,
        },
        "op": op,
        "ts_ms": 1767225601000,
    }


def mongodb_patch() -> dict[str, Any]:
    """As connectors up to 1.x told of updates."""
    told = mongodb()
    del told["updateDescription"]
    return told | {
        "after": None,
        "patch": '{"$set": {"first_name": "Anne"}, "$unset": {"nick": true}}',
        "filter": '{"_id": {"$oid": "597e37537449762dee72168a"}}',
    }


def with_schema(envelope: dict[str, Any] | None) -> dict[str, Any]:
    kind = {"type": "struct", "fields": [], "optional": False, "name": "shop.public.orders.Envelope"}
    return {"schema": kind, "payload": envelope}


def cloudevent(number: int = 1) -> dict[str, Any]:
    return {
        "id": f"name:shop;lsn:{24023128 + number};txId:555",
        "source": "/debezium/postgresql/shop",
        "specversion": "1.0",
        "type": "io.debezium.connector.postgresql.DataChangeEvent",
        "time": "2026-01-01T00:00:00.123Z",
        "datacontenttype": "application/json",
        "iodebeziumop": "c",
        "iodebeziumversion": "3.1.0.Final",
        "iodebeziumconnector": "postgresql",
        "iodebeziumname": "shop",
        "iodebeziumtsms": "1767225600123",
        "iodebeziumsnapshot": "false",
        "iodebeziumdb": "sales",
        "iodebeziumschema": "public",
        "iodebeziumtable": "orders",
        "iodebeziumtxid": "555",
        "iodebeziumlsn": str(24023128 + number),
        "data": {"before": None, "after": {"id": number, "status": "new", "total": 10 * number}},
    }


def dms(number: int = 1, operation: str = "insert", **more: Any) -> dict[str, Any]:
    return {
        "data": {"id": number, "status": "new"},
        "metadata": {
            "timestamp": "2026-01-01T00:00:00.123456Z",
            "record-type": "data",
            "operation": operation,
            "partition-key-type": "primary-key",
            "schema-name": "public",
            "table-name": "orders",
            "transaction-id": 8589934592,
        },
        **more,
    }


# What is told beside changes of rows.
HEARTBEAT = {"ts_ms": 1767225600000}
TRANSACTION = {"status": "BEGIN", "id": "571", "event_count": None, "data_collections": None, "ts_ms": 1767225600000}
SCHEMA_CHANGE = {
    "source": mysql()["source"],
    "ts_ms": 1,
    "databaseName": "inventory",
    "ddl": "ALTER TABLE x",
    "tableChanges": [],
}
DMS_CONTROL = {
    "metadata": {
        "timestamp": "2026-01-01T00:00:00Z",
        "record-type": "control",
        "operation": "create-table",
        "schema-name": "public",
        "table-name": "orders",
    },
    "control": {},
}
BESIDE = [
    None,
    with_schema(None),
    HEARTBEAT,
    with_schema(HEARTBEAT),
    TRANSACTION,
    SCHEMA_CHANGE,
    DMS_CONTROL,
    postgres(op="t"),
    postgres(op="m"),
]

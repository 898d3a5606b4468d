"""Arrays as text: whatever goes to PostgreSQL comes back the same."""

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakeful.stores.postgres_arrays import array

texts = st.lists(
    st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=5
)
numbers = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def asked() -> dict[str, list[list[object]]]:
    """Examples, gathered first and asked in one go: hypothesis and an event loop do not mix."""
    found: dict[str, list[list[object]]] = {"text": [], "bigint": []}

    @settings(max_examples=200, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(texts, numbers)
    def gather(some: list[object], others: list[object]) -> None:
        found["text"].append(some)
        found["bigint"].append(others)

    gather()
    found["text"] += [["NULL", "null", "", " ", "{}", ",", '"', "\\", '\\"', "a b", "\n", "NULL,", "é", "😀"]]
    return found


@pytest.mark.parametrize("kind", ["text", "bigint"])
async def test_every_element_comes_back_as_it_was(postgres_url: str, asked: dict[str, list[list[object]]], kind: str):
    connection = await asyncpg.connect(postgres_url)
    try:
        statement = await connection.prepare(f"select cast(cast($1 as text) as {kind}[])")
        for column in asked[kind]:
            assert await statement.fetchval(array(column)) == column
    finally:
        await connection.close()


def test_what_postgresql_refuses_is_refused_by_it_and_moves_nothing_else():
    """One text with a null character must not become two: its own caller is told, by the database."""
    assert array(["a\0b", 'c"']) == '{"a\0b","c\\""}'
    assert array(["a\0b"]) == '{"a\0b"}'

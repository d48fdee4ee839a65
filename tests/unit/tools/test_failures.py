"""The line that a tool prints for a failure."""

import pytest

from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tools.failures import CommandFailed, explain


@pytest.mark.parametrize(
    "failure",
    [
        KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "No permission for this topic."),
        CommandFailed("topic 'a' cannot be written: No permission for this topic"),
        CommandFailed("group 'g': No permission for this group."),
    ],
)
def test_a_missing_permission_names_the_tool_that_explains_it(failure: Exception) -> None:
    assert explain(failure).endswith("; an administrator sees why with `odradek acls --explain`")

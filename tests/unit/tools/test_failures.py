"""The line that a tool prints for a failure."""

from argparse import Namespace

import pytest

from odradek.client.errors import AuthenticationFailed
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


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_refused_password_names_the_file_that_has_it(mechanism: str) -> None:
    refused = AuthenticationFailed(f"h:9092 refused the log-in by {mechanism}: invalid credentials")
    given = Namespace(command_config="ada.properties", bootstrap_server=None)
    assert explain(refused, given).endswith(
        "; check the user name and the password in ada.properties"
    )
    assert explain(refused).endswith("; check the user name and the password")

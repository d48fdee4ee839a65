"""The admin client: topics, settings, offsets, records, brokers, groups, transactions, replicas,
ACLs, roles, users, delegation tokens, quotas.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topic("clicks", partitions=3)
        print(await admin.describe_topics(["clicks"]))

A call about several resources returns a dict, in which a resource that failed has its `KafkaError`
as the value, so one error does not hide the other answers. Calls about one resource raise. Requests
are retried within `default.api.timeout.ms` when a broker is unreachable or answers with a retriable
error.
"""

from odradek.client.admin.acls import AclCalls
from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.configs import ConfigCalls
from odradek.client.admin.delegation_tokens import DelegationTokenCalls
from odradek.client.admin.group_offsets import GroupOffsetCalls
from odradek.client.admin.partitions import PartitionCalls
from odradek.client.admin.quotas import QuotaCalls
from odradek.client.admin.records import RecordCalls
from odradek.client.admin.roles import RoleCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.admin.transactions import TransactionCalls
from odradek.client.admin.users import UserCalls
from odradek.client.habits import awaits, in_admin, names_known


@names_known
@in_admin
@awaits
class Admin(
    TopicCalls,
    ConfigCalls,
    RecordCalls,
    BrokerCalls,
    PartitionCalls,
    GroupOffsetCalls,
    TransactionCalls,
    AclCalls,
    QuotaCalls,
    RoleCalls,
    UserCalls,
    DelegationTokenCalls,
):
    """Use it with `async with`, or `close` it yourself. `AdminSettings` names its options."""

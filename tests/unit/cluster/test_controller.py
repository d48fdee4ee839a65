"""Brokers that come, go and return: who leads, who controls, and what a deposed one can do."""

import asyncio

import pytest

from odradek.metadata import Delete, Node, Set
from odradek.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsResponse as Deleted
from odradek.protocol.types import BrokerId
from tests.unit.cluster.crew import Crew, on_crew


@on_crew()
async def test_several_brokers_register_and_one_of_them_is_the_controller(crew: Crew) -> None:
    assert list(crew.image.brokers) == [1, 2, 3]
    assert crew.image.controller_id in (1, 2, 3)
    assert crew.image.controller_epoch == 1


@on_crew()
async def test_a_topic_of_three_replicas_is_led_by_the_first_with_all_in_sync(crew: Crew) -> None:
    await crew.create(by=2)
    partition = crew.partition()
    assert (partition.leader, partition.leader_epoch) == (1, 0)
    assert partition.isr == (1, 2, 3)


@on_crew()
async def test_the_next_replica_in_sync_leads_when_the_leader_is_killed(crew: Crew) -> None:
    await crew.create()
    crew.brokers[1].kill()
    took_s = await crew.until(lambda: crew.partition().leader == 2)
    assert took_s < 0.5
    partition = crew.partition()
    assert (partition.leader_epoch, partition.isr) == (1, (2, 3))


@on_crew()
async def test_a_killed_controller_is_replaced_and_its_partitions_get_leaders(crew: Crew) -> None:
    controller = crew.image.controller_id
    others = [number for number in (1, 2, 3) if number != controller]
    await crew.create(assignment={0: [controller, *others]}, by=others[0])
    crew.brokers[controller].kill()
    took_s = await crew.until(lambda: crew.partition().leader == others[0])
    assert took_s < 0.5
    assert crew.image.controller_id in others
    assert crew.image.controller_epoch == 2


@on_crew()
async def test_a_bounced_broker_returns_with_a_new_epoch_and_enters_the_in_sync_set_again(
    crew: Crew,
) -> None:
    await crew.create()
    first = crew.image.brokers[BrokerId(1)].epoch
    for _ in range(3):
        crew.brokers[1].kill()
        await crew.until(lambda: 1 not in crew.image.brokers)
        await crew.start(1)
        await crew.until(lambda: sorted(crew.partition().isr) == [1, 2, 3])
    assert crew.image.brokers[BrokerId(1)].epoch > first
    assert crew.partition().leader == 2


@on_crew()
async def test_an_unclean_start_leaves_the_in_sync_set_before_it_registers(crew: Crew) -> None:
    await crew.create(assignment={0: [1, 2]})
    # Nobody sees the death: the state still names broker 1 when it is back.
    crew.brokers[2].kill()
    await crew.until(lambda: crew.partition().isr == (1,))
    crew.brokers[1].kill()
    await crew.start(2)
    await crew.until(lambda: crew.partition().leader == -1)
    assert crew.partition().isr == (1,), "the last in sync stays"
    await crew.start(1)
    await crew.until(lambda: crew.partition().leader == 1)


@on_crew()
async def test_all_in_sync_die_at_once_and_the_first_one_back_that_lost_its_tail_does_not_lead(
    crew: Crew,
) -> None:
    await crew.create(assignment={0: [1, 2]})
    crew.brokers[1].power_off()
    crew.brokers[2].kill()
    await crew.until(lambda: crew.partition().leader == -1)
    assert crew.partition().isr == (1, 2), "nobody can lead, so both have everything"
    await crew.start(1)
    await asyncio.sleep(1)
    assert (crew.partition().leader, crew.partition().isr) == (-1, (2,))
    await crew.start(2)
    await crew.until(lambda: crew.partition().leader == 2)
    await crew.until(lambda: sorted(crew.partition().isr) == [1, 2])


@on_crew()
async def test_all_in_sync_are_killed_at_once_and_the_first_one_back_leads(crew: Crew) -> None:
    await crew.create(assignment={0: [1, 2]})
    crew.brokers[1].kill()
    crew.brokers[2].kill()
    await crew.until(lambda: crew.partition().leader == -1)
    await crew.start(1)
    await crew.until(lambda: crew.partition().leader == 1)
    await crew.start(2)
    await crew.until(lambda: sorted(crew.partition().isr) == [1, 2])


@on_crew()
async def test_a_clean_stop_hands_over_and_leaves_every_in_sync_set(crew: Crew) -> None:
    await crew.create(assignment={0: [1, 2, 3], 1: [2, 1, 3]})
    await crew.create("alone", {0: [1]})
    await crew.brokers[1].stop()
    led = [crew.partition(index=index).leader for index in range(2)]
    assert led == [2, 2]
    assert crew.partition(index=0).isr == (2, 3)
    assert crew.partition(index=1).isr == (2, 3)
    await crew.until(lambda: crew.partition("alone").leader == -1)
    assert crew.partition("alone").isr == (1,)
    await crew.start(1)
    await crew.until(lambda: crew.partition("alone").leader == 1)
    await crew.until(lambda: sorted(crew.partition().isr) == [1, 2, 3])


@on_crew()
async def test_a_deposed_controller_resumes_and_changes_nothing(crew: Crew) -> None:
    old = crew.image.controller_id
    others = [number for number in (1, 2, 3) if number != old]
    await crew.create(assignment={0: [others[0], others[1], old]}, by=others[0])
    frozen = crew.brokers[old]
    frozen.host.stop()
    frozen.cut_store()
    await crew.until(lambda: crew.image.controller_id in others, 10)
    crew.brokers[others[0]].kill()
    await crew.until(lambda: crew.partition().leader == others[1])
    await crew.until(lambda: crew.partition().isr == (others[1],))
    settled = crew.partition()
    frozen.host.resume()
    await asyncio.sleep(0.5)
    assert crew.partition() == settled
    frozen.reconnect_store()
    await crew.until(lambda: old in crew.image.brokers)
    assert crew.image.controller_id == others[1]
    assert crew.partition().leader == others[1]


@on_crew()
async def test_a_lost_session_is_replaced_without_a_restart(crew: Crew) -> None:
    await crew.create()
    epoch = crew.image.brokers[BrokerId(1)].epoch
    crew.brokers[1].expire_session()
    await crew.until(
        lambda: 1 in crew.image.brokers and crew.image.brokers[BrokerId(1)].epoch > epoch
    )
    assert crew.brokers[1].starts == 1
    await crew.until(lambda: sorted(crew.partition().isr) == [1, 2, 3])
    await crew.until(lambda: crew.image.controller_id in crew.image.brokers)


@on_crew()
async def test_a_topic_deleted_while_a_broker_is_down_is_gone_from_its_disk_when_it_returns(
    crew: Crew,
) -> None:
    await crew.create()
    crew.brokers[3].kill()
    await crew.until(lambda: 3 not in crew.image.brokers)
    await crew.ask(1, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), Deleted)
    await crew.create("t", {0: [1, 2]})
    await crew.start(3)
    assert not any(
        name.startswith("t-") and not name.endswith("-delete")
        for name in crew.brokers[3].host.disk.list_directory("/data")
    )


@on_crew()
async def test_deleting_the_controllers_node_elects_one_anew(crew: Crew) -> None:
    outsider = crew.store.connect()
    await outsider.multi(Delete("/controller"))
    took_s = await crew.until(lambda: crew.image.controller_epoch == 2)
    assert took_s < 1
    await crew.create()
    crew.brokers[1].kill()
    await crew.until(lambda: crew.partition().leader == 2)


def _is_number(node: Node | None) -> bool:
    return node is not None and node.value.isdigit()


@pytest.mark.parametrize("path", ["/controller", "/controller_epoch"])
@pytest.mark.parametrize("value", [b"nonsense", b"41"])
@on_crew()
async def test_what_a_hand_wrote_into_the_controllers_nodes_ends_nobody(
    crew: Crew, path: str, value: bytes
) -> None:
    await crew.create()
    assert crew.image.controller_id == 1
    await crew.store.connect().multi(Set(path, value))
    crew.brokers[1].kill()
    await crew.until(lambda: _is_number(crew.store.tree.get("/controller_epoch")))
    took_s = await crew.until(lambda: crew.partition().leader == 2)
    assert took_s < 1
    assert crew.image.controller_id in (2, 3)
    await crew.start(1)
    await crew.until(lambda: sorted(crew.partition().isr) == [1, 2, 3])


@on_crew()
async def test_many_partitions_fail_over_in_few_writes(crew: Crew) -> None:
    await crew.create(assignment={index: [1, 2, 3] for index in range(450)}, by=2)
    before = crew.store.tree.transaction
    crew.brokers[1].kill()
    took_s = await crew.until(
        lambda: all(one.leader == 2 for one in crew.image.topics["t"].partitions)
    )
    assert took_s < 1
    assert crew.store.tree.transaction - before < 20


@on_crew(size=1)
async def test_a_lone_broker_leads_with_the_next_epoch_after_each_start(crew: Crew) -> None:
    await crew.create(assignment={0: [1]})
    for epoch in (1, 2):
        await crew.brokers[1].stop()
        await crew.start(1)
        assert (crew.partition().leader, crew.partition().leader_epoch) == (1, epoch)
    crew.brokers[1].kill()
    await crew.start(1)
    assert (crew.partition().leader, crew.partition().leader_epoch) == (1, 3)
    assert crew.image.controller_epoch == 4

"""Brokers that come, go and return: who leads, who controls, and what a deposed one can do."""

from tests.unit.cluster.crew import Crew, with_crew


def test_several_brokers_register_and_one_of_them_is_the_controller() -> None:
    async def story(crew: Crew) -> None:
        assert list(crew.image.brokers) == [1, 2, 3]
        assert crew.image.controller_id in (1, 2, 3)
        assert crew.image.controller_epoch == 1

    with_crew(story)


def test_a_topic_of_three_replicas_is_led_by_the_first_with_all_in_sync() -> None:
    async def story(crew: Crew) -> None:
        await crew.create(by=2)
        partition = crew.partition()
        assert (partition.leader, partition.leader_epoch) == (1, 0)
        assert partition.isr == (1, 2, 3)

    with_crew(story)


def test_the_next_replica_in_sync_leads_when_the_leader_is_killed() -> None:
    async def story(crew: Crew) -> None:
        await crew.create()
        crew.brokers[1].kill()
        took_s = await crew.until(lambda: crew.partition().leader == 2)
        assert took_s < 0.5
        partition = crew.partition()
        assert (partition.leader_epoch, partition.isr) == (1, (2, 3))

    with_crew(story)


def test_a_killed_controller_is_replaced_and_its_partitions_get_leaders() -> None:
    async def story(crew: Crew) -> None:
        controller = crew.image.controller_id
        others = [number for number in (1, 2, 3) if number != controller]
        await crew.create(assignment={0: [controller, *others]}, by=others[0])
        crew.brokers[controller].kill()
        took_s = await crew.until(lambda: crew.partition().leader == others[0])
        assert took_s < 0.5
        assert crew.image.controller_id in others
        assert crew.image.controller_epoch == 2

    with_crew(story)

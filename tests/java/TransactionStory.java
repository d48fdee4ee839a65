// What a Java producer lives through in transactions, told line by line: the same on every broker.
//
//     java -cp 'libs/*' TransactionStory.java BOOTSTRAP TOPIC
//
// TOPIC has two partitions and is empty. The newest clients use transactions version 2.

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeProducersResult;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class TransactionStory {
    static String bootstrap;
    static String topic;

    static KafkaProducer<String, String> producer(String id, int timeoutMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", timeoutMs);
        settings.put("max.block.ms", 20000);
        settings.put("linger.ms", 0);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        return new KafkaProducer<>(settings);
    }

    interface Step {
        void run() throws Exception;
    }

    static void tell(String what, Step step) {
        try {
            step.run();
            System.out.println(what + ": fine");
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            System.out.println(what + ": " + cause.getClass().getSimpleName());
        }
    }

    static void send(KafkaProducer<String, String> producer, int partition, String value)
            throws Exception {
        producer.send(new ProducerRecord<>(topic, partition, null, value)).get();
    }

    static Set<String> read(String isolation) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", isolation);
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        Set<String> values = new TreeSet<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> both =
                List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
            consumer.assign(both);
            consumer.seekToBeginning(both);
            Map<TopicPartition, Long> ends = consumer.endOffsets(both);
            while (both.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100)))
                    values.add(record.value());
            }
        }
        return values;
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        String id = "story-" + UUID.randomUUID();
        String group = "group-" + UUID.randomUUID();
        KafkaProducer<String, String> first = producer(id, 60000);
        tell("init", first::initTransactions);
        for (int round = 0; round < 6; round++) {
            int number = round;
            tell("begin", first::beginTransaction);
            tell("send", () -> send(first, number % 2, "round " + number));
            tell("send", () -> send(first, 1, "more " + number));
            if (round % 2 == 0)
                tell("commit", first::commitTransaction);
            else
                tell("abort", first::abortTransaction);
        }
        tell("begin", first::beginTransaction);
        tell("commit nothing", first::commitTransaction);
        tell("begin", first::beginTransaction);
        tell("abort nothing", first::abortTransaction);

        tell("begin", first::beginTransaction);
        tell("send", () -> send(first, 0, "with offsets"));
        tell("offsets", () -> first.sendOffsetsToTransaction(
            Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(7)),
            new ConsumerGroupMetadata(group)));
        tell("commit", first::commitTransaction);
        tell("begin", first::beginTransaction);
        tell("offsets alone", () -> first.sendOffsetsToTransaction(
            Map.of(new TopicPartition(topic, 1), new OffsetAndMetadata(9)),
            new ConsumerGroupMetadata(group)));
        tell("abort", first::abortTransaction);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            System.out.println("committed: " + admin.listConsumerGroupOffsets(group)
                .partitionsToOffsetAndMetadata().get().values().stream()
                .map(OffsetAndMetadata::offset).toList());

            tell("begin", first::beginTransaction);
            tell("send", () -> send(first, 0, "left open"));
            TopicPartition zero = new TopicPartition(topic, 0);
            DescribeProducersResult producers = admin.describeProducers(List.of(zero));
            System.out.println("epochs: " + producers.partitionResult(zero).get()
                .activeProducers().stream().map(one -> one.producerEpoch()).toList());
            System.out.println("state: " + admin.describeTransactions(List.of(id))
                .description(id).get().state());
            System.out.println("listed: " + admin.listTransactions().all().get().stream()
                .anyMatch(one -> one.transactionalId().equals(id)));
            KafkaProducer<String, String> second = producer(id, 60000);
            tell("second init", second::initTransactions);
            tell("fenced send", () -> send(first, 0, "by the first"));
            tell("fenced commit", first::commitTransaction);
            tell("second begin", second::beginTransaction);
            tell("second send", () -> send(second, 0, "by the second"));
            tell("second commit", second::commitTransaction);
            second.close();
            first.close(Duration.ZERO);

            KafkaProducer<String, String> slow = producer(id + "-slow", 60000);
            slow.initTransactions();
            slow.beginTransaction();
            send(slow, 1, "ended by others");
            tell("admin fences", () -> admin.fenceProducers(List.of(id + "-slow")).all().get());
            tell("slow commit", slow::commitTransaction);
            slow.close(Duration.ZERO);
        }
        System.out.println("committed: " + read("read_committed"));
        System.out.println("everything: " + read("read_uncommitted"));
    }
}

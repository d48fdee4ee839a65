import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * What one generation of the Java client lives through, told line by line on standard output.
 *
 * <pre>java -cp CLASSES:LIBRARIES GenerationStory BOOTSTRAP NAME</pre>
 *
 * <p>The steps and the lines are those of tests/conformance/generations/python_client.py. The class is
 * compiled once, against the oldest generation, and runs with each: what was renamed or removed since is
 * found at run time.
 */
public final class GenerationStory {
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private static final long PATIENCE_MS = 60_000;

    private final String bootstrap;
    private final String topic;
    private final String group;
    private final String transactionalId;
    private final List<String> written = new ArrayList<>();

    private GenerationStory(String bootstrap, String name) {
        this.bootstrap = bootstrap;
        this.topic = name + "-topic";
        this.group = name + "-group";
        this.transactionalId = name + "-transaction";
    }

    private interface Step {
        String run() throws Exception;
    }

    private static final class Absent extends Exception {
        private static final long serialVersionUID = 1;
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("version " + AppInfoParser.getVersion());
        GenerationStory story = new GenerationStory(arguments[0], arguments[1]);
        try (AdminClient admin = AdminClient.create(story.properties())) {
            tell("create", () -> story.create(admin));
            tell("describe", () -> story.describe(admin));
            tell("produce", story::produce);
            tell("consume", story::consume);
            tell("group", () -> story.share(story.group, Collections.emptyMap()));
            tell("group-848", story::shareByBroker);
            tell("transaction", () -> story.transact(admin));
            tell("delete", () -> story.delete(admin));
        }
        System.exit(0);
    }

    private static void tell(String step, Step action) {
        String outcome;
        try {
            String more = action.run();
            outcome = more.isEmpty() ? "ok" : "ok " + more;
        } catch (Absent absent) {
            outcome = "absent";
        } catch (Throwable error) {
            outcome = "error " + String.valueOf(error).replace('\n', ' ');
        }
        System.out.println(step + " " + outcome);
    }

    private static void expect(Object found, Object wanted) {
        if (!found.equals(wanted)) {
            throw new IllegalStateException(found + " in place of " + wanted);
        }
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    private String create(AdminClient admin) throws Exception {
        NewTopic made = new NewTopic(topic, 1, (short) 1);
        admin.createTopics(Collections.singletonList(made)).all().get();
        return "";
    }

    private String describe(AdminClient admin) throws Exception {
        Object described = admin.describeTopics(Collections.singletonList(topic));
        Method all = method(described.getClass(), "allTopicNames");
        if (all == null) {
            all = method(described.getClass(), "all");
        }
        Map<?, ?> topics = (Map<?, ?>) ((KafkaFuture<?>) all.invoke(described)).get();
        expect(topics.keySet(), Collections.singleton(topic));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        String policy =
                admin.describeConfigs(Collections.singletonList(resource))
                        .all()
                        .get()
                        .get(resource)
                        .get("cleanup.policy")
                        .value();
        expect(policy, "delete");
        return "";
    }

    private String delete(AdminClient admin) throws Exception {
        admin.deleteTopics(Collections.singletonList(topic)).all().get();
        return "";
    }

    private static Method method(Class<?> type, String name, Class<?>... parameters) {
        try {
            return type.getMethod(name, parameters);
        } catch (NoSuchMethodException absent) {
            return null;
        }
    }

    private KafkaProducer<String, String> producer(Map<String, String> more) {
        Properties properties = properties();
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("max.block.ms", String.valueOf(PATIENCE_MS));
        properties.putAll(more);
        return new KafkaProducer<>(properties);
    }

    private void write(List<String> values, String acks, String codec) throws Exception {
        Map<String, String> settings = new HashMap<>();
        settings.put("acks", acks);
        settings.put("enable.idempotence", String.valueOf(acks.equals("all")));
        settings.put("compression.type", codec);
        try (KafkaProducer<String, String> producer = producer(settings)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (String value : values) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, null, value)));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
        written.addAll(values);
    }

    private static List<String> numbered(String text, int count) {
        List<String> values = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            values.add(text + " " + number);
        }
        return values;
    }

    private String produce() throws Exception {
        for (String acks : new String[] {"0", "1", "all"}) {
            write(numbered("acks " + acks, 10), acks, "none");
            // Nobody is told when a record without acknowledgement is written, and the next
            // producer has a connection of its own.
            consume();
        }
        for (String codec : CODECS) {
            write(numbered("codec " + codec, 10), "all", codec);
        }
        return String.join(" ", CODECS);
    }

    private KafkaConsumer<String, String> consumer(Map<String, String> more) {
        Properties properties = properties();
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", "read_committed");
        properties.put("fetch.max.wait.ms", "50");
        properties.putAll(more);
        return new KafkaConsumer<>(properties);
    }

    private static List<String> take(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (values.size() < count) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("only " + values.size() + " of " + count + " came");
            }
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                values.add(record.value());
            }
        }
        return values;
    }

    private String consume() {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer(Collections.emptyMap())) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, 0);
            expect(take(consumer, written.size()), written);
        }
        return "";
    }

    /** A member reads and commits; the next one goes on after it. */
    private String share(String name, Map<String, String> more) throws Exception {
        Map<String, String> settings = new HashMap<>(more);
        settings.put("group.id", name);
        expect(readInGroup(settings, written.size()), written);
        List<String> added = numbered(name, 5);
        write(added, "all", "none");
        expect(readInGroup(settings, added.size()), added);
        return "";
    }

    private List<String> readInGroup(Map<String, String> settings, int count) {
        try (KafkaConsumer<String, String> consumer = consumer(settings)) {
            consumer.subscribe(Collections.singletonList(topic));
            List<String> values = take(consumer, count);
            consumer.commitSync();
            return values;
        }
    }

    private String shareByBroker() throws Exception {
        Collection<String> known = org.apache.kafka.clients.consumer.ConsumerConfig.configNames();
        if (!known.contains("group.protocol")) {
            throw new Absent();
        }
        try {
            return share(group + "-848", Collections.singletonMap("group.protocol", "consumer"));
        } catch (ConfigException early) {
            throw new Absent();
        }
    }

    private String transact(AdminClient admin) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        String name = group + "-transaction";
        Map<TopicPartition, OffsetAndMetadata> offsets =
                Collections.singletonMap(partition, new OffsetAndMetadata(7));
        Map<String, String> id = Collections.singletonMap("transactional.id", transactionalId);
        try (KafkaProducer<String, String> producer = producer(id)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "aborted")).get();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "committed"));
            sendOffsets(producer, offsets, name);
            producer.commitTransaction();
        }
        long committed =
                admin.listConsumerGroupOffsets(name)
                        .partitionsToOffsetAndMetadata()
                        .get()
                        .get(partition)
                        .offset();
        expect(committed, 7L);
        written.add("committed");
        return consume();
    }

    /** Clients before 2.5 take the name of a group, clients since 4.0 only its metadata. */
    private static void sendOffsets(
            KafkaProducer<String, String> producer,
            Map<TopicPartition, OffsetAndMetadata> offsets,
            String name)
            throws Exception {
        Class<?> metadata;
        try {
            metadata = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
        } catch (ClassNotFoundException old) {
            method(KafkaProducer.class, "sendOffsetsToTransaction", Map.class, String.class)
                    .invoke(producer, offsets, name);
            return;
        }
        method(KafkaProducer.class, "sendOffsetsToTransaction", Map.class, metadata)
                .invoke(producer, offsets, metadata.getConstructor(String.class).newInstance(name));
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A Java client that does what it is told on standard input, so that one JVM serves many tests.
 *
 * <p>The words are those of tests/conformance/peer.py, which explains them. The source compiles
 * against every kafka-clients from 0.11.0.0 on; the one method that changed since is found at run time.
 */
public final class ClientPeer {
    private static final String NOTHING = "-";
    private static final Method POLL = findPoll();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            try {
                if (words[0].equals("produce")) {
                    List<String> rows = new ArrayList<>();
                    for (int i = Integer.parseInt(words[words.length - 1]); i > 0; i--) {
                        rows.add(input.readLine());
                    }
                    produce(words[1], words[2], words[3], words[4].equals("idempotent"), rows);
                } else {
                    consume(words[1], words[2], Integer.parseInt(words[3]));
                }
                System.out.println("done");
            } catch (Exception error) {
                System.out.println("error " + String.valueOf(error).replace('\n', ' '));
            }
            System.out.flush();
        }
    }

    private static void produce(
            String bootstrap, String topic, String codec, boolean idempotent, List<String> rows)
            throws Exception {
        Properties properties = given();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("compression.type", codec);
        properties.put("acks", "all");
        properties.put("enable.idempotence", String.valueOf(idempotent));
        properties.put("max.in.flight.requests.per.connection", "1");
        properties.put("retries", "10");
        properties.put("linger.ms", "5");
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (String row : rows) {
                sent.add(producer.send(toRecord(topic, row.split(" ", -1))));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> toRecord(String topic, String[] words) {
        List<Header> headers = new ArrayList<>();
        for (int i = 3; i < words.length; i += 2) {
            String name = new String(decode(words[i]), StandardCharsets.UTF_8);
            headers.add(new RecordHeader(name, decode(words[i + 1])));
        }
        long timestamp = Long.parseLong(words[0]);
        return new ProducerRecord<>(topic, 0, timestamp, decode(words[1]), decode(words[2]), headers);
    }

    /** The properties of the file that CLIENT_PROPERTIES names, such as a log-in. */
    private static Properties given() throws Exception {
        Properties properties = new Properties();
        String path = System.getenv("CLIENT_PROPERTIES");
        if (path != null) {
            try (java.io.Reader reader = new java.io.FileReader(path)) {
                properties.load(reader);
            }
        }
        return properties;
    }

    private static void consume(String bootstrap, String topic, int count) throws Exception {
        Properties properties = given();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("enable.auto.commit", "false");
        properties.put("fetch.max.wait.ms", "50");
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        TopicPartition partition = new TopicPartition(topic, 0);
        long deadline = System.currentTimeMillis() + 20_000;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, 0);
            int read = 0;
            while (read < count) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("only " + read + " of " + count + " records came");
                }
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    System.out.println("row " + toLine(record));
                    read++;
                }
            }
        }
    }

    private static String toLine(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder line = new StringBuilder();
        line.append(record.timestamp()).append(' ').append(encode(record.key()));
        line.append(' ').append(encode(record.value()));
        for (Header header : record.headers()) {
            line.append(' ').append(encode(header.key().getBytes(StandardCharsets.UTF_8)));
            line.append(' ').append(encode(header.value()));
        }
        return line.toString();
    }

    private static byte[] decode(String word) {
        return word.equals(NOTHING) ? null : Base64.getDecoder().decode(word);
    }

    private static String encode(byte[] bytes) {
        return bytes == null ? NOTHING : Base64.getEncoder().encodeToString(bytes);
    }

    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer)
            throws Exception {
        Object timeout =
                POLL.getParameterTypes()[0] == long.class ? (Object) 200L : java.time.Duration.ofMillis(200);
        return (ConsumerRecords<byte[], byte[]>) POLL.invoke(consumer, timeout);
    }

    /** Clients before 2.0 take milliseconds, clients since 4.0 only a Duration. */
    private static Method findPoll() {
        for (Class<?> parameter : new Class<?>[] {java.time.Duration.class, long.class}) {
            try {
                return KafkaConsumer.class.getMethod("poll", parameter);
            } catch (NoSuchMethodException absent) {
                continue;
            }
        }
        throw new IllegalStateException("this kafka-clients has no poll method that we know");
    }
}

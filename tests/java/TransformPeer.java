import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Apache Connect's own transforms and predicates: each line of standard input is a class, its
 * configuration and records; each line of output says what became of the records.
 *
 * <p>The form of the lines is that of tests/conformance/connect_transforms.py.
 */
public final class TransformPeer {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(MAPPER.writeValueAsString(answer(MAPPER.readTree(line))));
            output.flush();
        }
    }

    private static JsonNode answer(JsonNode asked) {
        ArrayNode results = MAPPER.createArrayNode();
        Object plugin;
        try {
            plugin = Class.forName(asked.get("class").asText()).getConstructor().newInstance();
            Map<String, String> config = strings(asked.get("config"));
            if (plugin instanceof Predicate) {
                Predicate<?> predicate = (Predicate<?>) plugin;
                predicate.config().parse(config);
                predicate.configure(config);
            } else {
                Transformation<?> transformation = (Transformation<?>) plugin;
                transformation.config().parse(config);
                transformation.configure(config);
            }
        } catch (Exception error) {
            ObjectNode refused = MAPPER.createObjectNode();
            refused.put("refused", String.valueOf(error));
            return refused;
        }
        for (JsonNode record : asked.get("records")) {
            results.add(result(plugin, record));
        }
        return results;
    }

    private static JsonNode result(Object plugin, JsonNode given) {
        ObjectNode found = MAPPER.createObjectNode();
        JsonConverter converter = converter(given.get("schemas").asBoolean());
        try {
            ConnectRecord<?> record = record(given, converter);
            if (plugin instanceof Predicate) {
                found.put("selected", selects((Predicate<?>) plugin, record));
                return found;
            }
            ConnectRecord<?> changed = apply((Transformation<?>) plugin, record);
            if (changed == null) {
                found.put("dropped", true);
                return found;
            }
            found.put("topic", changed.topic());
            found.put("partition", changed.kafkaPartition());
            found.put("timestamp", changed.timestamp());
            found.put("key", text(converter.fromConnectData(
                    changed.topic(), changed.keySchema(), changed.key())));
            found.put("value", text(converter.fromConnectData(
                    changed.topic(), changed.valueSchema(), changed.value())));
            ArrayNode headers = found.putArray("headers");
            for (Header header : changed.headers()) {
                ArrayNode pair = headers.addArray();
                pair.add(header.key());
                pair.add(text(converter(true).fromConnectHeader(
                        changed.topic(), header.key(), header.schema(), header.value())));
            }
        } catch (Exception error) {
            found.removeAll();
            found.put("error", String.valueOf(error));
        }
        return found;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static boolean selects(Predicate predicate, ConnectRecord record) {
        return predicate.test(record);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static ConnectRecord<?> apply(Transformation transformation, ConnectRecord record) {
        return transformation.apply(record);
    }

    private static ConnectRecord<?> record(JsonNode given, JsonConverter converter) {
        String topic = given.get("topic").asText();
        SchemaAndValue key = converter.toConnectData(topic, bytes(given.get("key")));
        SchemaAndValue value = converter.toConnectData(topic, bytes(given.get("value")));
        Integer partition = given.get("partition").isNull() ? null : given.get("partition").asInt();
        Long timestamp = given.get("timestamp").isNull() ? null : given.get("timestamp").asLong();
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : given.get("headers")) {
            SchemaAndValue read = converter(true).toConnectHeader(
                    topic, header.get(0).asText(), bytes(header.get(1)));
            headers.add(header.get(0).asText(), read);
        }
        if (given.get("offset").isNull()) {
            return new SourceRecord(
                    Map.of(), Map.of(), topic, partition, key.schema(), key.value(),
                    value.schema(), value.value(), timestamp, headers);
        }
        return new SinkRecord(
                topic, partition, key.schema(), key.value(), value.schema(), value.value(),
                given.get("offset").asLong(), timestamp, TimestampType.CREATE_TIME, headers);
    }

    private static JsonConverter converter(boolean schemas) {
        return schemas ? WITH_SCHEMAS : WITHOUT_SCHEMAS;
    }

    private static final JsonConverter WITH_SCHEMAS = made("true");
    private static final JsonConverter WITHOUT_SCHEMAS = made("false");

    private static JsonConverter made(String schemas) {
        JsonConverter converter = new JsonConverter();
        // Nulls stay as they are, so that what a transform does with them is seen.
        converter.configure(
                Map.of("schemas.enable", schemas, "replace.null.with.default", "false"), false);
        return converter;
    }

    private static Map<String, String> strings(JsonNode object) {
        Map<String, String> found = new HashMap<>();
        Iterator<Map.Entry<String, JsonNode>> fields = object.fields();
        while (fields.hasNext()) {
            Map.Entry<String, JsonNode> field = fields.next();
            found.put(field.getKey(), field.getValue().asText());
        }
        return found;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }
}

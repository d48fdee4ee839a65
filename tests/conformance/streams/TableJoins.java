import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Says what Kafka Streams answers to the histories in table_joins.jsonl, with kafka-streams-test-utils
 * on the class path:
 *
 * <pre>java -cp 'lib/*' TableJoins.java table_joins.jsonl new.jsonl</pre>
 *
 * A history is a list of records: topic (l or r), key, value or null, time.
 */
public class TableJoins {
  private static KTable<String, String> build(String join, KTable<String, String> l, KTable<String, String> r) {
    switch (join) {
      case "join": return l.join(r, (x, y) -> x + "+" + y);
      case "left": return l.leftJoin(r, (x, y) -> x + "+" + y);
      case "outer": return l.outerJoin(r, (x, y) -> x + "+" + y);
      case "fk": return l.join(r, v -> v.substring(0, 2), (x, y) -> x + "+" + y);
      case "fkleft": return l.leftJoin(r, v -> v.substring(0, 2), (x, y) -> x + "+" + y);
      case "filterjoin":
        return l.filter((k, v) -> !v.endsWith("x")).leftJoin(r, (x, y) -> x + "+" + y).filter((k, v) -> !v.endsWith("S"));
      case "count":
        return l.groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), v)).count().mapValues(v -> "" + v);
      default:
        return l.join(r, (x, y) -> x + "+" + y)
            .groupBy((k, v) -> KeyValue.pair(v.substring(v.length() - 1), v)).count()
            .filter((k, v) -> v != 1).mapValues(v -> "" + v);
    }
  }

  private static List<Object> results(String join, JsonNode history) {
    StreamsBuilder builder = new StreamsBuilder();
    KTable<String, String> l = builder.table("l", Materialized.as("ls"));
    KTable<String, String> r = builder.table("r", Materialized.as("rs"));
    build(join, l, r).toStream().to("o", Produced.with(Serdes.String(), Serdes.String()));
    Properties settings = new Properties();
    settings.put("application.id", "table-joins");
    settings.put("bootstrap.servers", "nowhere:1");
    settings.put("default.key.serde", Serdes.StringSerde.class.getName());
    settings.put("default.value.serde", Serdes.StringSerde.class.getName());
    settings.put("statestore.cache.max.bytes", "0");
    settings.put("default.dsl.store", "in_memory");
    List<Object> all = new ArrayList<>();
    try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings)) {
      var out = driver.createOutputTopic("o", new StringDeserializer(), new StringDeserializer());
      for (JsonNode record : history) {
        List<Object> found = new ArrayList<>();
        all.add(found);
        String topic = record.get(0).asText();
        if (join.equals("count") && topic.equals("r")) {
          continue;
        }
        driver.createInputTopic(topic, new StringSerializer(), new StringSerializer()).pipeInput(
            record.get(1).asText(), record.get(2).isNull() ? null : record.get(2).asText(), record.get(3).asLong());
        for (var one : out.readRecordsToList()) {
          found.add(Arrays.asList(one.key(), one.value(), one.timestamp()));
        }
      }
    }
    return all;
  }

  public static void main(String[] arguments) throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    List<String> lines = new ArrayList<>();
    for (String line : Files.readAllLines(Path.of(arguments[0]))) {
      JsonNode given = mapper.readTree(line);
      Map<String, Object> answer = new LinkedHashMap<>();
      answer.put("join", given.get("join"));
      answer.put("history", given.get("history"));
      answer.put("results", results(given.get("join").asText(), given.get("history")));
      lines.add(mapper.writeValueAsString(answer));
    }
    Files.write(Path.of(arguments[1]), lines);
  }
}

import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.bson.BsonTimestamp;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.wire.message.MongoMessage;
import java.util.List;

/**
 * mongo-java-server with its log of operations, which is what stands in for MongoDB in tests. It calls itself
 * a version that today's PyMongo accepts, and its replies have the time of the operation, as MongoDB's have.
 * It ends when its input closes. usage: java -cp JARS ChangeStreams.java PORT
 */
public class ChangeStreams {
    public static void main(String[] arguments) throws Exception {
        MongoServer server = new MongoServer(new WithTimes().version(new Recent()));
        server.enableOplog();
        server.bind("127.0.0.1", Integer.parseInt(arguments[0]));
        System.out.println("ready");
        while (System.in.read() >= 0) {
            // Nothing is expected.
        }
        server.shutdownNow();
    }

    private static class WithTimes extends MemoryBackend {
        @Override
        public Document handleMessage(MongoMessage message) {
            Document reply = super.handleMessage(message);
            reply.putIfAbsent("operationTime", new BsonTimestamp(System.currentTimeMillis() / 1000 << 32));
            return reply;
        }
    }

    private static class Recent implements MongoVersion {
        @Override
        public List<Integer> getVersionArray() {
            return List.of(5, 0, 0);
        }

        @Override
        public int getWireVersion() {
            return 13;
        }
    }
}

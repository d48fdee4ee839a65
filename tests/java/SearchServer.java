import java.io.IOException;
import org.codelibs.opensearch.runner.OpenSearchRunner;

/**
 * A node of OpenSearch on a port of 127.0.0.1, until standard input ends.
 *
 * <p>Arguments: a directory for its data, the port for HTTP, and the port between nodes.
 */
public final class SearchServer {
  public static void main(String[] arguments) throws IOException {
    OpenSearchRunner runner = new OpenSearchRunner();
    runner.onBuild(
        (number, settings) -> {
          settings.put("network.host", "127.0.0.1");
          settings.put("http.port", arguments[1]);
          settings.put("transport.port", arguments[2]);
          settings.put("discovery.type", "single-node");
        });
    runner.build(OpenSearchRunner.newConfigs().basePath(arguments[0]).numOfNode(1).useLogger());
    System.out.println("the search server is ready");
    while (System.in.read() >= 0) {
      // Only the end matters.
    }
    runner.close();
  }
}

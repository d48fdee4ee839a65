import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.DescribeDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RenewDelegationTokenOptions;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.StringSerializer;

/** The life of a delegation token, told by Java's clients: one line for each step. */
public class TokenStory {
    private static final String PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule";
    private static final String SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule";

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        Properties boss = login(bootstrap, "PLAIN", PLAIN, "boss", "secret", "");
        try (Admin admin = Admin.create(boss)) {
            DelegationToken token = admin.createDelegationToken(new CreateDelegationTokenOptions()
                .owner(new KafkaPrincipal("User", "ada"))
                .renewers(List.of(new KafkaPrincipal("User", "boss")))
                .maxlifeTimeMs(600_000)).delegationToken().get();
            System.out.println("created for " + token.tokenInfo().ownerAsString()
                + " by " + token.tokenInfo().tokenRequesterAsString());
            int seen = admin.describeDelegationToken(new DescribeDelegationTokenOptions()
                .owners(List.of(new KafkaPrincipal("User", "ada")))).delegationTokens().get().size();
            System.out.println("described " + seen);
            long ends = admin.renewDelegationToken(token.hmac(), new RenewDelegationTokenOptions()
                .renewTimePeriodMs(300_000)).expiryTimestamp().get();
            System.out.println("renewed " + (ends <= token.tokenInfo().maxTimestamp()));
            admin.createTopics(List.of(new NewTopic("orders", 1, (short) 1))).all().get();
            for (String mechanism : List.of("SCRAM-SHA-256", "SCRAM-SHA-512")) {
                use(login(bootstrap, mechanism, SCRAM, token.tokenInfo().tokenId(),
                    token.hmacAsBase64String(), "tokenauth=\"true\""), mechanism);
            }
            tell("forged", login(bootstrap, "SCRAM-SHA-256", SCRAM, token.tokenInfo().tokenId(),
                Base64.getEncoder().encodeToString(new byte[64]), "tokenauth=\"true\""));
            admin.expireDelegationToken(token.hmac(), new ExpireDelegationTokenOptions()
                .expiryTimePeriodMs(-1)).expiryTimestamp().get();
            tell("ended", login(bootstrap, "SCRAM-SHA-256", SCRAM, token.tokenInfo().tokenId(),
                token.hmacAsBase64String(), "tokenauth=\"true\""));
        }
    }

    private static void use(Properties login, String mechanism) throws Exception {
        try (Admin admin = Admin.create(login);
             KafkaProducer<String, String> producer =
                 new KafkaProducer<>(login, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", mechanism)).get();
            System.out.println("sent by " + mechanism);
            try {
                admin.createDelegationToken().delegationToken().get();
            } catch (ExecutionException error) {
                System.out.println("another token: " + error.getCause().getClass().getSimpleName());
            }
        }
    }

    private static void tell(String what, Properties login) throws Exception {
        try (Admin admin = Admin.create(login)) {
            admin.listTopics().names().get();
            System.out.println(what + ": let in");
        } catch (ExecutionException error) {
            System.out.println(what + ": " + error.getCause().getClass().getSimpleName());
        }
    }

    private static Properties login(String bootstrap, String mechanism, String module,
                                    String user, String password, String more) {
        Properties properties = new Properties();
        properties.putAll(Map.of("bootstrap.servers", bootstrap, "security.protocol",
            "SASL_PLAINTEXT", "sasl.mechanism", mechanism, "sasl.jaas.config", module
            + " required username=\"" + user + "\" password=\"" + password + "\" " + more + ";"));
        return properties;
    }
}

package io.github.rratelimiter.oracle;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.annotations.SerializedName;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * Real Redisson behind JSON lines: one request a line on stdin, one answer a line on stdout, matched by id. Answers come in the order in
 * which the calls end, since each request runs on its own thread: a call that waits for permits holds up no other.
 *
 * <p>The program ends at the end of stdin, so it does not outlive the test that started it.
 */
public final class Main {
    private static final long SHUTDOWN_TIMEOUT_MILLIS = 2_000;

    /** The release of Redisson on the classpath has no such call. */
    static final class Unsupported extends RuntimeException {
        Unsupported(String what) {
            super(what);
        }
    }

    private record Answer(long id, Object result, String error, @SerializedName("class") String type, String unsupported) {
    }

    private final Gson gson = new GsonBuilder().disableHtmlEscaping().create();
    private final PrintStream answers;
    private final Map<Long, RedissonClient> instances = new ConcurrentHashMap<>();
    private final Calls calls = new Calls();

    private Main(PrintStream answers) {
        this.answers = answers;
    }

    public static void main(String[] args) throws IOException {
        Main main = new Main(new PrintStream(System.out, false, StandardCharsets.UTF_8));
        System.setOut(System.err); // nothing that a library prints can get between two answers
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Request request = main.gson.fromJson(line, Request.class);
            threads.execute(() -> main.serve(request));
        }
        System.exit(0);
    }

    static Throwable innermost(Throwable thrown) {
        Throwable inner = thrown;
        while (inner.getCause() != null && inner.getCause() != inner) {
            inner = inner.getCause();
        }
        return inner;
    }

    private void serve(Request q) {
        try {
            write(new Answer(q.id, run(q), null, null, null));
        } catch (Unsupported e) {
            write(new Answer(q.id, null, null, null, e.getMessage()));
        } catch (Exception | Error e) {
            Throwable inner = innermost(e);
            write(new Answer(q.id, null, String.valueOf(inner.getMessage()), inner.getClass().getName(), null));
        }
    }

    private Object run(Request q) throws Exception {
        switch (q.call) {
            case "open":
                Config config = Config.fromYAML(q.config);
                // A limiter never uses the codec; the default one of old releases needs libraries that fail on new JDKs.
                config.setCodec(StringCodec.INSTANCE);
                RedissonClient redisson = Redisson.create(config);
                instances.put(q.redisson, redisson);
                return Redisson.class.getPackage().getImplementationVersion() + " " + redisson.getId();
            case "close":
                instances.remove(q.redisson).shutdown(0, SHUTDOWN_TIMEOUT_MILLIS, TimeUnit.MILLISECONDS);
                return null;
            default:
                return calls.run(instances.get(q.redisson), q);
        }
    }

    private synchronized void write(Answer answer) {
        answers.println(gson.toJson(answer));
        answers.flush();
    }
}

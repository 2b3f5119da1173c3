package io.github.rratelimiter.oracle;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;

/**
 * Real Redisson behind JSON lines: one request a line on stdin, one answer a line on stdout, matched by id. Answers come in the order in
 * which the calls end, since each request runs on its own thread: a call that waits for permits holds up no other.
 *
 * <p>The first line says {@code {"ready":true,"version":...,"id":...}}. The program ends at the request "close" and at the end of stdin,
 * so it does not outlive the test that started it.
 */
public final class Main {
    private static final long SHUTDOWN_TIMEOUT_MILLIS = 2_000;

    /** Answers go to the real stdout; System.out is stderr, so that nothing a library prints can get between two answers. */
    private final PrintStream answers;

    private final Gson gson = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    private final RedissonClient redisson;
    private final Calls calls;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    private Main(PrintStream answers, RedissonClient redisson) {
        this.answers = answers;
        this.redisson = redisson;
        this.calls = new Calls(redisson);
    }

    public static void main(String[] args) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        try {
            new Main(answers, Redisson.create(new Options(args).config())).serve();
        } catch (RuntimeException e) {
            // Exit by hand: after a failed start Redisson's threads may be left running.
            e.printStackTrace();
            System.exit(1);
        }
    }

    static Throwable innermost(Throwable thrown) {
        Throwable inner = thrown;
        while (inner.getCause() != null && inner.getCause() != inner) {
            inner = inner.getCause();
        }
        return inner;
    }

    private void serve() throws IOException {
        JsonObject ready = new JsonObject();
        ready.addProperty("ready", true);
        ready.addProperty("version", Redisson.class.getPackage().getImplementationVersion());
        ready.addProperty("id", redisson.getId());
        write(ready);

        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Request request = gson.fromJson(line, Request.class);
            if ("close".equals(request.call)) {
                shutdown();
                write(answer(request.id, "result", JsonNull.INSTANCE));
                System.exit(0);
            }
            threads.execute(() -> serve(request));
        }
        shutdown();
        System.exit(0);
    }

    private void serve(Request request) {
        try {
            write(answer(request.id, "result", calls.run(request)));
        } catch (Unsupported e) {
            write(answer(request.id, "unsupported", gson.toJsonTree(e.getMessage())));
        } catch (RuntimeException | Error e) {
            Throwable inner = innermost(e);
            JsonObject answer = answer(request.id, "error", gson.toJsonTree(String.valueOf(inner.getMessage())));
            answer.addProperty("class", inner.getClass().getName());
            write(answer);
        }
    }

    private void shutdown() {
        redisson.shutdown(0, SHUTDOWN_TIMEOUT_MILLIS, TimeUnit.MILLISECONDS);
    }

    private static JsonObject answer(long id, String field, JsonElement value) {
        JsonObject answer = new JsonObject();
        answer.addProperty("id", id);
        answer.add(field, value);
        return answer;
    }

    private synchronized void write(JsonObject answer) {
        answers.println(gson.toJson(answer));
        answers.flush();
    }
}

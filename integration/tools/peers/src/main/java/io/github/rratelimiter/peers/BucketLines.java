package io.github.rratelimiter.peers;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import io.github.bucket4j.Bucket;
import io.github.bucket4j.TimeMeter;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * One Bucket of Bucket4j behind JSON lines: a request a line on stdin, its answer on stdout.
 *
 * <p>Requests are {@code {"call":"create","capacity":C,"refill":R,"intervalMicros":I}}, for a greedy refill,
 * {@code {"call":"tryConsume","at":MICROS,"permits":N}} and {@code {"call":"consume",...}}, which answers the nanoseconds that it would
 * have slept. Each answer has the tokens that are left after it. The program ends with its stdin.
 */
public final class BucketLines {
    private BucketLines() {
    }

    private static final class Request {
        String call;
        long capacity;
        long refill;
        long intervalMicros;
        long at;
        long permits;
    }

    /** Stands where it was set. */
    private static final class Clock implements TimeMeter {
        private long nanos;

        @Override
        public long currentTimeNanos() {
            return nanos;
        }

        @Override
        public boolean isWallClockBased() {
            return false;
        }
    }

    public static void main(String[] args) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Gson gson = new Gson();
        Clock clock = new Clock();
        Bucket bucket = null;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Request q = gson.fromJson(line, Request.class);
            clock.nanos = q.at * 1000;
            JsonObject answer = new JsonObject();
            switch (q.call) {
                case "create":
                    Duration interval = Duration.ofNanos(q.intervalMicros * 1000);
                    bucket = Bucket.builder()
                            .addLimit(limit -> limit.capacity(q.capacity).refillGreedy(q.refill, interval))
                            .withCustomTimePrecision(clock)
                            .build();
                    break;
                case "tryConsume":
                    answer.addProperty("granted", bucket.tryConsume(q.permits));
                    break;
                case "consume":
                    long[] slept = {0};
                    bucket.asBlocking().consumeUninterruptibly(q.permits, nanos -> slept[0] = nanos);
                    answer.addProperty("nanos", slept[0]);
                    break;
                default:
                    throw new IllegalArgumentException("no such call: " + q.call);
            }
            answer.addProperty("left", bucket.getAvailableTokens());
            answers.println(gson.toJson(answer));
            answers.flush();
        }
    }
}

package io.github.rratelimiter.oracle;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import org.redisson.api.RRateLimiter;

/** Many threads that take permits of one limiter as fast as it gives them, and what each of them got when. */
final class Crowd {
    /** Keeps denied threads from filling both CPUs of a small machine, and is far below any interval that a test uses. */
    private static final long PAUSE_AFTER_DENIAL_NANOS = 200_000;

    private static final long PAUSE_AFTER_ERROR_NANOS = 5_000_000;

    private static final Pattern DETAILS = Pattern.compile("\\b(script|channel|[Cc]ommand|params|Redis client): .*", Pattern.DOTALL);

    private Crowd() {
    }

    private static final class Member {
        /** Start and end of each granted call, in Unix microseconds: two entries a grant. */
        private final List<Long> grants = new ArrayList<>();

        private final Map<String, Long> errors = new TreeMap<>();
        private long denials;

        private void acquire(RRateLimiter limiter, long permits, long timeoutMillis, long deadlineNanos) {
            for (;;) {
                long leftMillis = TimeUnit.NANOSECONDS.toMillis(deadlineNanos - System.nanoTime());
                if (leftMillis <= 0) {
                    return;
                }
                try {
                    long start = nowMicros();
                    boolean granted = timeoutMillis == 0
                            ? limiter.tryAcquire(permits)
                            : limiter.tryAcquire(permits, Math.min(timeoutMillis, leftMillis), TimeUnit.MILLISECONDS);
                    long end = nowMicros();
                    if (granted) {
                        grants.add(start);
                        grants.add(end);
                    } else {
                        denials++;
                        LockSupport.parkNanos(PAUSE_AFTER_DENIAL_NANOS);
                    }
                } catch (RuntimeException e) {
                    errors.merge(headline(Main.innermost(e)), 1L, Long::sum);
                    LockSupport.parkNanos(PAUSE_AFTER_ERROR_NANOS);
                }
            }
        }
    }

    static JsonElement run(RRateLimiter limiter, Request q) {
        int threads = q.threads;
        long permits = q.permits;
        long timeoutMillis = q.acquireTimeoutMillis;
        long deadlineNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(q.millis);

        List<Member> members = new ArrayList<>();
        List<Thread> running = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Member member = new Member();
            Thread thread = new Thread(() -> member.acquire(limiter, permits, timeoutMillis, deadlineNanos), "crowd-" + i);
            thread.setDaemon(true);
            thread.start();
            members.add(member);
            running.add(thread);
        }
        for (Thread thread : running) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                throw new IllegalStateException("interrupted while a crowd was running", e);
            }
        }
        return answer(members, permits);
    }

    private static JsonElement answer(List<Member> members, long permits) {
        JsonArray grants = new JsonArray();
        Map<String, Long> errors = new TreeMap<>();
        long denials = 0;
        for (Member member : members) {
            for (int i = 0; i < member.grants.size(); i += 2) {
                JsonArray grant = new JsonArray();
                grant.add(member.grants.get(i));
                grant.add(member.grants.get(i + 1));
                grant.add(permits);
                grants.add(grant);
            }
            denials += member.denials;
            member.errors.forEach((message, count) -> errors.merge(message, count, Long::sum));
        }
        JsonObject errorCounts = new JsonObject();
        errors.forEach(errorCounts::addProperty);

        JsonObject answer = new JsonObject();
        answer.add("grants", grants);
        answer.addProperty("denials", denials);
        answer.add("errors", errorCounts);
        return answer;
    }

    /** What went wrong, without the details that Redisson appends and that differ from call to call, so that equal errors can be counted. */
    private static String headline(Throwable thrown) {
        return DETAILS.matcher(thrown.toString()).replaceFirst("").strip();
    }

    private static long nowMicros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }
}
